"""Names of the columns that are ours: hidden ones between Spark and the slots, whose prefix no column of a user may
have, and the one of rejected rows."""

from __future__ import annotations

PREFIX = "__sparkstate_"
KEY_GROUP = PREFIX + "kg"
"""int: the key group, computed in Spark."""
TIMESTAMP = PREFIX + "ts"
"""long: event time in ms since the Unix epoch; null where there is none."""
SOURCE = PREFIX + "source"
"""int: which of several source DataFrames the row came from, for the watermark."""
INPUT = PREFIX + "input"
"""int: which of its operator's two inputs the row is of, 0 or 1; only where there are two."""
ROWS = PREFIX + "rows"
"""long: how many rows a combined row stands for; only where Spark has combined them before they went to the slots."""
SLICE = PREFIX + "slice"
"""long: a number of the row's slice of event time; within Spark only."""
ORDER = PREFIX + "order"
"""long: the place of a row among those of both inputs; within slots only."""
ERROR = "error"
"""string, a column that users see: why a row was rejected, in the output of rejected rows."""
KEY_PREFIX = PREFIX + "key_"
"""Canonical key columns (``-0.0`` as ``0.0``, one NaN), numbered; only where they differ from the user's column."""


def quoted(name: str) -> str:
    """A column's name as Spark's SQL takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def part_of(output: int, part: int) -> str:
    """A part of the accumulator of an aggregate, both by number; only in combined rows."""
    return f"{PREFIX}part_{output}_{part}"


def of_input(number: int, name: str) -> str:
    """The column ``name`` of the rows of one of an operator's two inputs."""
    return f"{PREFIX}{number}_{name}"


def rows_of(number: int) -> str:
    """struct: the columns of a row of that input of the job, null in all other rows; only where there are several."""
    return f"{PREFIX}rows_{number}"
