"""The sources of a query that runs, by its ``StreamExecution`` in the JVM.

Spark numbers the folders ``sources/<i>`` of its checkpoint directory by source, in the order in which the plan first
uses them, and writes a line of offsets for each use. The two differ where a job reads one frame twice. Nothing public
tells which folder belongs to which line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from sparkstate import errors
from sparkstate.spark.seen_files import Forgotten, RememberedSource

_OF_FILES = "FileStreamSource"


def folders(execution: Any) -> tuple[int, ...]:
    """The folder of each line of the query's offsets, in the lines' order.

    Raises ``DeclarationError`` for a source whose folder has a name of the job's own.
    """
    distinct: list[Any] = []
    found = []
    for source in _uses(execution):
        if source not in distinct:
            distinct.append(source)
        found.append(_number(source) if _is_of_files(source) else distinct.index(source))
    return tuple(found)


def _number(source: Any) -> int:
    folder = str(_field(source, "metadataLog").metadataPath().getName())
    if not folder.isdigit():
        raise errors.DeclarationError(
            f"Spark keeps the log of a file source of the job in sources/{folder}; sparkstate knows only folders that "
            "are numbered by source. Remove the names of the sources and "
            "spark.sql.streaming.queryEvolution.enableSourceEvolution from the job's code"
        )
    return int(folder)


def of_files(execution: Any) -> Iterator[RememberedSource]:
    """The file sources, with what each remembers. Raises as :func:`folders`."""
    for source in _uses(execution):
        if _is_of_files(source):
            yield RememberedSource(_number(source), partial(_horizon, source.seenFiles()))


def _uses(execution: Any) -> list[Any]:
    found = execution.sources()
    return [found.apply(at) for at in range(found.size())]


def _is_of_files(source: Any) -> bool:
    return bool(source.getClass().getSimpleName() == _OF_FILES)


def _horizon(seen: Any) -> Forgotten:
    return Forgotten(before_ms=_field(seen, "lastPurgeTimestamp"), max_age_ms=_field(seen, "maxAgeMs"))


def _field(of: Any, name: str) -> Any:
    # Private in Spark, and said by nothing that is public: the options alone do not tell which source has them.
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)
