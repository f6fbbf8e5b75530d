"""The part of a store's contract that is about values that expire. A store without it refuses a time-to-live."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, runtime_checkable

from sparkstate.backends.base import TableSpec
from sparkstate.serde import expiring


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
