"""The part of a store's contract that is about values that expire. A store without it refuses a time-to-live."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, runtime_checkable

from sparkstate import errors
from sparkstate.backends.base import TableSpec
from sparkstate.serde import expiring
from sparkstate.settings import MIB

_MOST_BYTES: Final = 64 * MIB
"""No more values are read in a sweep of rows, however few they are: an epoch waits for it."""


class SweepPace(NamedTuple):
    """How many entries of a table a sweep looks at."""

    share: float
    """Of all entries."""
    least: int
    most: int

    def entries(self, rows: int) -> int:
        """Of a table with so many entries."""
        return min(self.most, max(self.least, math.ceil(self.share * rows)))


@runtime_checkable
class ExpiringStore(Protocol):
    """A store whose tables may have values that expire (``serde.expiring``)."""

    def adopt(self, spec: TableSpec, times: expiring.Times) -> None:
        """Give a restored table the time-to-live of ``spec``, or none: its values become such values, as
        ``expiring.converter`` says. Called before ``table(spec)``; nothing happens if there is no such table."""

    def expire(self, spec: TableSpec, cutoff: int, pace: SweepPace) -> int:
        """Entries stamped at ``cutoff`` or before have expired. From now on canonical snapshots leave them out. Look at
        some entries (elements of lists, entries of maps), behind those looked at the last time and from the beginning
        after the last one, and remove those that have expired; how many. Called like a commit."""


@contextlib.contextmanager
def naming(spec: TableSpec) -> Iterator[None]:
    """An error about damaged bytes tells in which state they are."""
    try:
        yield
    except errors.CorruptData as error:
        raise errors.CorruptData(f"state {spec.name!r} of operator {spec.uid!r}: {error}") from None


class TtlChange(NamedTuple):
    """The change of a stored table to another time-to-live."""

    spec: TableSpec
    """Of the table from then on. Its own type stays: ``table`` judges that afterwards."""
    convert: expiring.Convert | None
    """From the bytes of a value to those of the adopted one; None: they are so already."""


def ttl_change(stored: TableSpec | None, declared: TableSpec, times: expiring.Times) -> TtlChange | None:
    """The change that :meth:`ExpiringStore.adopt` has to make. None: there is none, or ``table`` refuses the state."""
    if stored is None or stored.value_type is None or stored.kind is not declared.kind:
        return None
    before, now = expiring.ttl_of(stored.value_type), expiring.ttl_of(declared.value_type)
    if before == now:
        return None
    adopted = replace(stored, value_type=expiring.with_ttl(stored.value_type, now))
    return TtlChange(adopted, expiring.converter(before, now, times))


class SweptRows(NamedTuple):
    """Rows that a sweep has looked at."""

    expired: list[bytes]
    """Keys of those that have expired."""
    looked: int
    rest: bytes | None
    """The least key behind them; None: there are no more rows."""


def look(rows: Iterable[tuple[bytes, bytes]], cutoff: int, most: int) -> SweptRows:
    """Look at rows in the order of their keys, at most so many; more than none."""
    has_expired = expiring.expired_bytes(cutoff)
    expired: list[bytes] = []
    looked = size = 0
    for looked, (key, value) in enumerate(rows, 1):
        size += len(value)
        if has_expired(value):
            expired.append(key)
        if looked == most or size >= _MOST_BYTES:
            return SweptRows(expired, looked, key + b"\0")
    return SweptRows(expired, looked, None)
