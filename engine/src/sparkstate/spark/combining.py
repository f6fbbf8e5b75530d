"""The first of two phases of windows with built-in aggregates: Spark adds up the rows of a key and slice within an
epoch, and the slots get one row for them (RFC 0054). Flink calls it local and global aggregation.

A combined row has the key, the largest event time, the number of rows that it stands for, and a column for each part
of each aggregate's accumulator. All of its rows lie in one slice. In windows of a fixed length they are late together,
or not at all; in sessions they count as if they had come one after another, the last one first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
from pyspark.errors import ArithmeticException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkstate import columns, errors
from sparkstate.aggregates.accumulators import Output, combined_columns
from sparkstate.aggregates.aggregate import Aggregate
from sparkstate.aggregates.deviations import Deviation
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.span import Span
from sparkstate.aggregates.sums import Average, Count, Sum

Phases = Literal["auto", "one", "two"]

_WORTHWHILE_ROWS: Final = 100_000
"""An epoch of fewer rows spares less than the stage costs that Spark runs for it, some 15 ms."""
_WORTHWHILE_SHARE: Final = 0.5
"""Combining more than halves the rows, or it costs more than it spares."""
_NEXT_TRY: Final = 100
"""So many epochs after combining turned out not to pay, it is tried again."""
_LARGEST_DECIMAL: Final = 28
"""Spark's sum has ten digits more, up to 38. So these never overflow within an epoch."""


@dataclass(frozen=True)
class Combining:
    """The sums that Spark makes of rows before they go to the slots of an operator."""

    width: int
    """Of a slice, ms."""
    offset: int
    """Of slices, ms."""
    parts: tuple[tuple[str, str], ...]
    """The columns of accumulators, each with the SQL text that Spark computes it by."""
    is_forced: bool = False
    """Whether all epochs are combined, whether it pays or not."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a combined row that the operator's function sees."""
        return (columns.ROWS, *(name for name, _ in self.parts))


@dataclass(frozen=True)
class Choice:
    """Whether to combine the next epoch, from the figures of those before it."""

    rows: int = 0
    """Of the last epoch, not combined."""
    waits: int = 0
    """For how many epochs combining is not tried."""

    @property
    def combines(self) -> bool:
        """Whether the next epoch's rows are worth combining."""
        return self.waits == 0 and self.rows >= _WORTHWHILE_ROWS

    def after(self, rows: int, shipped: int, was_combined: bool) -> Choice:
        """An epoch of so many rows was shipped as ``shipped`` rows. One without rows, which had timers only, says
        nothing about the next."""
        if not rows:
            return self
        if was_combined and rows >= _WORTHWHILE_ROWS and shipped > rows * _WORTHWHILE_SHARE:
            return Choice(rows, _NEXT_TRY)
        return Choice(rows, max(0, self.waits - 1))


def combining(
    slices: Slices, outputs: Sequence[Output], phases: Phases, has_late_output: bool, uid: str
) -> Combining | None:
    """How to combine the rows for these aggregates; None: rows go one by one. Raises ``SpecInvalid`` where two phases
    are asked for and impossible."""
    if phases not in ("auto", "one", "two"):
        raise errors.SpecInvalid(
            f"agg(phases=…) of {uid!r} is {phases!r}; choose 'auto' (the default), 'one' or 'two'"
        )
    if phases == "one":
        return None
    obstacle = "its late rows go to a side output, one by one" if has_late_output else None
    parts: list[tuple[str, str]] = []
    for output, names in zip(outputs, combined_columns(outputs), strict=True):
        found = parts_of(output)
        if found is None:
            obstacle = f"Spark cannot combine the values of {output.name!r} ({output.kind})"
            break
        parts += zip(names, found, strict=True)
    if obstacle is None:
        return Combining(slices.width, slices.offset, tuple(parts), is_forced=phases == "two")
    if phases == "two":
        raise errors.SpecInvalid(f"agg(phases='two') of {uid!r}: {obstacle}; choose 'auto' or 'one'")
    return None


def parts_of(output: Output) -> tuple[str, ...] | None:
    """SQL texts for the parts of an accumulator over the output's column, null where no value was there; None: there
    are none that give the same."""
    if isinstance(output.aggregate, Span):
        return (f"min({columns.TIMESTAMP})", f"max({columns.TIMESTAMP})")
    if output.column is None or output.type is None:
        return ()
    return _parts(output.aggregate, columns.quoted(output.column), output.type)


def _parts(made: Aggregate, column: str, kind: pa.DataType) -> tuple[str, ...] | None:
    is_decimal = pa.types.is_decimal(kind)
    count, number = f"nullif(count({column}), 0)", f"cast({column} AS double)"
    if isinstance(made, Count):
        return (count,)
    if isinstance(made, Sum | Average) and is_decimal and kind.precision > _LARGEST_DECIMAL:
        return None
    if isinstance(made, Sum):
        return (f"sum({column})",)
    if isinstance(made, Average):
        return (f"sum({column if is_decimal else number})", count)
    if isinstance(made, Extreme) and _has_fixed_width(kind):
        return (f"max({column})" if made.is_greatest else f"min({column})",)
    if isinstance(made, Deviation):
        return (count, f"avg({number})", f"var_pop({number}) * count({column})")
    return None


def _has_fixed_width(kind: pa.DataType) -> bool:
    """Whether Spark keeps extremes of this type in its hash table; it sorts all rows for others, such as strings."""
    return pa.types.is_primitive(kind) or pa.types.is_decimal(kind)  # type: ignore[no-any-return]


_OVERFLOWS = ("ARITHMETIC_OVERFLOW", "BINARY_ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE")
"""Spark's conditions of a sum that is too large for its type."""


@contextlib.contextmanager
def naming_overflows(uid: str, epoch: int) -> Iterator[None]:
    """While Spark combines rows: an overflow in ANSI mode becomes the ``UserCodeError`` that it is in a slot. Other
    errors, such as a division by zero, are of the job's own query, which the same Spark job runs."""
    try:
        yield
    except ArithmeticException as error:
        if not (error.getCondition() or "").startswith(_OVERFLOWS):
            raise
        raise errors.UserCodeError(
            f"operator {uid!r}, epoch {epoch}: Spark could not add up its rows: {str(error).splitlines()[0]}; cast the "
            "column to double or decimal, or set spark.sql.ansi.enabled to false for sums that wrap around"
        ) from error


def combined(
    rows: DataFrame, made: Combining, keys: Sequence[str], others: Sequence[str], key_group: Column
) -> DataFrame:
    """The combined rows of an operator's ``rows``, by the columns of its ``keys`` and ``others``, which tell the part
    of a source. Key groups are computed anew, for fewer rows."""
    grouped = rows.groupBy(
        *(F.col(columns.quoted(name)) for name in dict.fromkeys((*keys, *others))), _slice(made)
    )
    parts = [F.expr(sql).alias(name) for name, sql in made.parts]
    summed = grouped.agg(
        F.max(columns.TIMESTAMP).alias(columns.TIMESTAMP), F.count("*").alias(columns.ROWS), *parts
    )
    return summed.withColumn(columns.KEY_GROUP, key_group).drop(columns.SLICE)


def _slice(made: Combining) -> Column:
    """A number of each slice. A time at the end of 64 bits has none; the function refuses its rows."""
    within = F.pmod(
        F.pmod(columns.TIMESTAMP, F.lit(made.width)) - made.offset % made.width, F.lit(made.width)
    )
    return F.try_subtract(F.col(columns.TIMESTAMP), within).alias(columns.SLICE)
