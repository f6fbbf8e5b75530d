"""State that expires, as a job declares it. The names are PyFlink's.

>>> from sparkstate.durations import Time
>>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
>>> config.get_update_type().name, config.get_ttl()
('OnReadAndWrite', Time(3600000 ms))
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from sparkstate import durations, errors
from sparkstate.durations import Duration, Time
from sparkstate.state import ttl_options

_ENTRIES_MAX: Final = 2**31 - 1

M = TypeVar("M", bound=enum.Enum)


@dataclass(frozen=True)
class StateTtlConfig:
    """For how long values live. Made by :meth:`new_builder`; given to ``StateDescriptor.enable_time_to_live``."""

    ttl: Time
    update_type: ttl_options.UpdateType = ttl_options.UpdateType.OnCreateAndWrite
    state_visibility: ttl_options.StateVisibility = ttl_options.StateVisibility.NeverReturnExpired
    time_characteristic: ttl_options.TtlTimeCharacteristic = ttl_options.TtlTimeCharacteristic.ProcessingTime
    cleanup_strategies: ttl_options.CleanupStrategies = field(default_factory=ttl_options.CleanupStrategies)

    UpdateType = ttl_options.UpdateType
    StateVisibility = ttl_options.StateVisibility
    TtlTimeCharacteristic = ttl_options.TtlTimeCharacteristic
    CleanupStrategies = ttl_options.CleanupStrategies

    def __post_init__(self) -> None:
        """The builder refuses wrong arguments too; this is for those who make a configuration without it."""
        if not isinstance(self.ttl, Time):
            raise errors.StateError(
                f"StateTtlConfig: ttl is {self.ttl!r}; give Time.hours(1), or use StateTtlConfig.new_builder(…)"
            )
        _length(self.ttl, "ttl")
        _member(self.update_type, ttl_options.UpdateType)
        _member(self.state_visibility, ttl_options.StateVisibility)
        _member(self.time_characteristic, ttl_options.TtlTimeCharacteristic)
        _check_cleanup(self.cleanup_strategies)

    @staticmethod
    def new_builder(ttl: Duration) -> TtlConfigBuilder:
        """A builder with Flink's defaults. ``ttl``: ``Time.hours(1)``, ``"1 hour"``, a ``timedelta`` or milliseconds;
        at least one millisecond."""
        return TtlConfigBuilder(ttl)

    def get_ttl(self) -> Time:
        """For how long a value lives."""
        return self.ttl

    def get_update_type(self) -> ttl_options.UpdateType:
        """The accesses that let it live on."""
        return self.update_type

    def get_state_visibility(self) -> ttl_options.StateVisibility:
        """Whether a read may return an expired value."""
        return self.state_visibility

    def get_ttl_time_characteristic(self) -> ttl_options.TtlTimeCharacteristic:
        """The time by which values expire."""
        return self.time_characteristic

    def is_enabled(self) -> bool:
        """Whether values expire at all."""
        return self.update_type is not ttl_options.UpdateType.Disabled

    def get_cleanup_strategies(self) -> ttl_options.CleanupStrategies:
        """How expired entries are removed."""
        return self.cleanup_strategies


class TtlConfigBuilder:
    """Each method returns the builder. Wrong arguments raise ``StateError`` at once."""

    def __init__(self, ttl: Duration) -> None:
        self._config = StateTtlConfig(_length(ttl, "ttl"))

    def set_ttl(self, ttl: Duration) -> TtlConfigBuilder:
        """For how long a value lives."""
        return self._with(ttl=_length(ttl, "ttl"))

    def set_update_type(self, update_type: ttl_options.UpdateType) -> TtlConfigBuilder:
        """The accesses that let a value live on; ``OnCreateAndWrite`` by default."""
        return self._with(update_type=_member(update_type, ttl_options.UpdateType))

    def update_ttl_on_create_and_write(self) -> TtlConfigBuilder:
        """Writing lets a value live on."""
        return self.set_update_type(ttl_options.UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> TtlConfigBuilder:
        """Reading does so too."""
        return self.set_update_type(ttl_options.UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: ttl_options.StateVisibility) -> TtlConfigBuilder:
        """Whether a read may return an expired value; ``NeverReturnExpired`` by default."""
        return self._with(state_visibility=_member(state_visibility, ttl_options.StateVisibility))

    def return_expired_if_not_cleaned_up(self) -> TtlConfigBuilder:
        """A read may return an expired value that is still stored."""
        return self.set_state_visibility(ttl_options.StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> TtlConfigBuilder:
        """A read never returns an expired value."""
        return self.set_state_visibility(ttl_options.StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(
        self, ttl_time_characteristic: ttl_options.TtlTimeCharacteristic
    ) -> TtlConfigBuilder:
        """The time by which values expire; ``ProcessingTime`` by default."""
        return self._with(
            time_characteristic=_member(ttl_time_characteristic, ttl_options.TtlTimeCharacteristic)
        )

    def use_processing_time(self) -> TtlConfigBuilder:
        """Values expire by the wall clock."""
        return self.set_ttl_time_characteristic(ttl_options.TtlTimeCharacteristic.ProcessingTime)

    def use_event_time(self) -> TtlConfigBuilder:
        """Values expire by the watermark."""
        return self.set_ttl_time_characteristic(ttl_options.TtlTimeCharacteristic.EventTime)

    def cleanup_full_snapshot(self) -> TtlConfigBuilder:
        """Leave expired entries out of canonical savepoints and of all snapshots of the HashMap backend. That is the
        default; it has an effect of its own beside :meth:`disable_cleanup_in_background`."""
        return self._with_cleanup(full_snapshot=True)

    def cleanup_incrementally(
        self, cleanup_size: int, run_cleanup_for_every_record: bool
    ) -> TtlConfigBuilder:
        """Look at ``cleanup_size`` entries of the state for each key of an epoch, or for each of its records, on either
        backend, instead of the default pace."""
        size = _count(cleanup_size, "cleanup_incrementally(cleanup_size)")
        if not isinstance(run_cleanup_for_every_record, bool):
            raise errors.StateError(
                "cleanup_incrementally(run_cleanup_for_every_record) is "
                f"{run_cleanup_for_every_record!r}; give True or False"
            )
        strategy = ttl_options.IncrementalCleanupStrategy(size, run_cleanup_for_every_record)
        return self._with_cleanup(incremental=strategy)

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration = ttl_options.DAYS_30
    ) -> TtlConfigBuilder:
        """Look at every entry of the state within ``periodic_compaction_time``, on either backend, if that is sooner
        than the default pace does. The first argument has no effect: time stands still within an epoch."""
        entries = _count(
            query_time_after_num_entries, "cleanup_in_rocksdb_compact_filter(query_time_after_num_entries)"
        )
        period = _length(
            periodic_compaction_time, "cleanup_in_rocksdb_compact_filter(periodic_compaction_time)"
        )
        return self._with_cleanup(
            compact_filter=ttl_options.RocksdbCompactFilterCleanupStrategy(entries, period)
        )

    def disable_cleanup_in_background(self) -> TtlConfigBuilder:
        """Remove expired entries only when they are read."""
        return self._with_cleanup(in_background=False)

    def build(self) -> StateTtlConfig:
        """The configuration. The builder may be used on."""
        return self._config

    def _with(self, **fields: Any) -> TtlConfigBuilder:
        self._config = replace(self._config, **fields)
        return self

    def _with_cleanup(self, **fields: Any) -> TtlConfigBuilder:
        return self._with(cleanup_strategies=replace(self._config.cleanup_strategies, **fields))


def _length(length: Duration, what: str) -> Time:
    try:
        return Time(durations.positive_ms(length, what))
    except errors.SpecInvalid as error:
        raise errors.StateError(f"StateTtlConfig: {error}") from None


def _check_cleanup(strategies: Any) -> None:
    """Raises ``StateError`` for strategies that the builder would not have made."""
    if not isinstance(strategies, ttl_options.CleanupStrategies):
        raise errors.StateError(
            f"StateTtlConfig: cleanup_strategies is {strategies!r}; use the builder's methods cleanup_…"
        )
    incremental, compact_filter = strategies.incremental, strategies.compact_filter
    if incremental is not None:
        _count(incremental.cleanup_size, "IncrementalCleanupStrategy(cleanup_size)")
    if compact_filter is not None:
        what = "RocksdbCompactFilterCleanupStrategy"
        _count(compact_filter.query_time_after_num_entries, f"{what}(query_time_after_num_entries)")
        _length(compact_filter.periodic_compaction_time, f"{what}(periodic_compaction_time)")


def _member(value: Any, wanted: type[M]) -> M:
    if isinstance(value, wanted):
        return value
    names = ", ".join(f"StateTtlConfig.{wanted.__name__}.{member.name}" for member in wanted)
    raise errors.StateError(f"StateTtlConfig: {value!r} is not one of {names}")


def _count(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _ENTRIES_MAX:
        raise errors.StateError(
            f"StateTtlConfig: {what} is {value!r}; give a whole number from 1 to {_ENTRIES_MAX}"
        )
    return value
