"""The choices of a time-to-live: accesses that count, visibility, time, and cleanup. The names are PyFlink's."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from sparkstate.durations import Time

DAYS_30: Final = Time.days(30)


class UpdateType(enum.Enum):
    """The accesses that let a value live on."""

    Disabled = 0
    """Values do not expire."""
    OnCreateAndWrite = 1
    """Writing."""
    OnReadAndWrite = 2
    """Writing and reading."""


class StateVisibility(enum.Enum):
    """Whether a read may return a value that has expired."""

    ReturnExpiredIfNotCleanedUp = 0
    """While it is still stored. How long that is depends on the cleanup, so results are not the same in every run."""
    NeverReturnExpired = 1
    """Never."""


class TtlTimeCharacteristic(enum.Enum):
    """The time by which values expire."""

    ProcessingTime = 0
    """The wall clock, as processing-time timers see it: it stands still within an epoch."""
    EventTime = 1
    """The watermark. PyFlink has no such time-to-live."""


@dataclass(frozen=True)
class IncrementalCleanupStrategy:
    """So many entries are looked at for each record, or for each key, of an epoch."""

    cleanup_size: int
    run_for_every_record: bool

    def get_cleanup_size(self) -> int:
        """Entries that are looked at each time."""
        return self.cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Whether each record counts; otherwise each key of an epoch counts once."""
        return self.run_for_every_record


@dataclass(frozen=True)
class RocksdbCompactFilterCleanupStrategy:
    """All entries are looked at within a period, if that is shorter than half of the time-to-live."""

    query_time_after_num_entries: int
    periodic_compaction_time: Time = DAYS_30

    def get_query_time_after_num_entries(self) -> int:
        """Has no effect: the time does not change within an epoch."""
        return self.query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Time:
        """The period."""
        return self.periodic_compaction_time


@dataclass(frozen=True)
class CleanupStrategies:
    """How expired entries that nobody reads are removed."""

    incremental: IncrementalCleanupStrategy | None = None
    compact_filter: RocksdbCompactFilterCleanupStrategy | None = None
    full_snapshot: bool = False
    in_background: bool = True

    def is_cleanup_in_background(self) -> bool:
        """Whether entries are removed while the job runs."""
        return self.in_background

    def in_full_snapshot(self) -> bool:
        """Whether ``cleanup_full_snapshot`` was called. Savepoints leave expired entries out by default too."""
        return self.full_snapshot

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """None: the default pace, which is a look at every entry within half of the time-to-live."""
        return self.incremental

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
        """None: as above."""
        return self.compact_filter

    def in_rocksdb_compact_filter(self) -> bool:
        """Whether ``cleanup_in_rocksdb_compact_filter`` was called."""
        return self.compact_filter is not None

    @property
    def leaves_snapshots_clean(self) -> bool:
        """Whether canonical snapshots leave expired entries out."""
        return self.full_snapshot or self.in_background
