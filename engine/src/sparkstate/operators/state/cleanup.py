"""Removes entries that have expired and that nobody reads, a few in each epoch.

Theory. A store cannot ask for expired entries, because it keeps them by key. So it is asked to look at all entries, one
after another. By default the pace is such that each is looked at once within half of the time-to-live: then an entry
stays for at most one and a half times its life, and the work is in proportion to the entries and not to the epochs.
A sweep removes only values that can no longer be seen, so its place in the table has no effect on results.

While a job has no input there are no epochs, but the wall clock goes on. So a sweep says when the next one is worth an
epoch of its own. Once the function has not been called for three lives, its values in processing time are gone, and
the job rests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from sparkstate.backends.base import ShardStore, TableSpec
from sparkstate.backends.expiring import ExpiringStore, SweepPace, naming
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.base import Sweep
from sparkstate.operators.state.expiring_handles import ExpiringHandle
from sparkstate.operators.state.handles import StateHandle
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde.expiring import NO_STAMP, Times, ttl_of
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.state.ttl_options import TtlTimeCharacteristic

LEAST_ENTRIES: Final = 100
"""That many are looked at in each epoch, state and shard, however short the epoch was."""
MOST_ENTRIES: Final = 100_000
"""No more are looked at in an epoch of a slot for one state, or four times its rows if that is more: an epoch after a
long pause would wait for a look at everything."""
_PER_ROW: Final = 4
"""A row adds one entry. With half a time-to-live for a pass, each entry is looked at three times at most."""
_NOTHING: Final = SweepPace(0.0, 0, 0)
LEAST_REST_MS: Final = 1000
"""No more often are there epochs for a sweep alone. The heartbeat that starts them has the same interval."""
_RESTS: Final = 100
"""Such epochs do a pass in so many parts."""
_LIVES: Final = 3
"""Such epochs go on for so many lives: one until the last value has expired, then four passes."""
_MERGE_MS: Final = 30_000
"""And for that long, in which a checkpoint is taken, and RocksDB is asked for a merge of its files."""


class Cleanup:
    """Of all states of one operator in one slot."""

    def __init__(self, stores: Mapping[int, ShardStore]) -> None:
        self._stores = [store for store in stores.values() if isinstance(store, ExpiringStore)]
        self._watermark = MIN_WATERMARK
        self._last: dict[str, int] = {}
        """The time of the last sweep, by state."""
        self._called_ms: int | None = None
        """The processing time of the last epoch with rows or timers; None: before the first epoch."""

    def cutoff(self, spec: TableSpec, now_ms: int) -> int:
        """Entries with this stamp or an older one have expired, as somebody sees it who reads from outside."""
        ttl = ttl_of(spec.value_type)
        return NO_STAMP if ttl is None else ttl.cutoff(Times(now_ms, self._watermark).by(ttl))

    def run(self, handles: Iterable[StateHandle], overlay: Overlay) -> Sweep:
        """Sweep the states of these handles by the times of an overlay that was committed."""
        self._watermark = overlay.new_watermark
        times = Times(overlay.processing_time, overlay.new_watermark)
        is_called = overlay.has_rows or bool(overlay.timers_fired)
        self._called_ms = called_ms(self._called_ms, times.processing_time, is_called)
        idle_ms = times.processing_time - self._called_ms
        sweep = Sweep()
        for handle in handles:
            if isinstance(handle, ExpiringHandle):
                removed = self._sweep(handle, overlay, times)
                rest = rest_ms(handle.config, idle_ms, removed)
                sweep = sweep.beside(Sweep(removed, None if rest is None else times.processing_time + rest))
        return sweep

    def _sweep(self, handle: ExpiringHandle, overlay: Overlay, times: Times) -> int:
        """How many entries were removed."""
        strategies, ttl = handle.config.cleanup_strategies, ttl_of(handle.spec.value_type)
        assert ttl is not None
        if not strategies.leaves_snapshots_clean:
            return 0
        now = times.by(ttl)
        elapsed = now - self._last.get(handle.spec.name, now)
        self._last[handle.spec.name] = now
        cutoff = ttl.cutoff(now)
        pace = _NOTHING
        if strategies.in_background and cutoff != NO_STAMP:
            rows, keys = overlay.rows_in, len(overlay.known)
            pace = pace_of(handle.config, elapsed, rows, keys, max(1, len(self._stores)))
        with naming(handle.spec):
            return sum(store.expire(handle.spec, cutoff, pace) for store in self._stores)


def pace_of(config: StateTtlConfig, elapsed_ms: int, rows: int, keys: int, stores: int) -> SweepPace:
    """How much of each store's table to look at after an epoch of so many rows and keys. ``elapsed_ms`` have passed
    since the last sweep."""
    incremental = config.cleanup_strategies.incremental
    if incremental is not None:
        asked = incremental.cleanup_size * (rows if incremental.run_for_every_record else keys)
        entries = math.ceil(asked / stores)
        return SweepPace(0.0, entries, entries)
    most = math.ceil(max(MOST_ENTRIES, _PER_ROW * rows) / stores)
    return SweepPace(min(1.0, max(0, elapsed_ms) / _period_ms(config)), LEAST_ENTRIES, most)


def _period_ms(config: StateTtlConfig) -> int:
    """Within that time each entry is looked at, by the default pace."""
    period = max(1, config.ttl.to_milliseconds() // 2)
    compact_filter = config.cleanup_strategies.compact_filter
    if compact_filter is not None:
        period = min(period, compact_filter.periodic_compaction_time.to_milliseconds())
    return period


def called_ms(before_ms: int | None, now_ms: int, is_called: bool) -> int:
    """When the function was called last. A clock that was set back counts as a call: a job without input would go on
    with epochs for sweeps alone until the clock is past that time again."""
    return now_ms if before_ms is None or is_called or now_ms < before_ms else before_ms


def rest_ms(config: StateTtlConfig, idle_ms: int, removed: int) -> int | None:
    """How long to wait for an epoch that only sweeps, where the function was called last before ``idle_ms`` and the
    last sweep has removed so many entries. None: no such epoch is needed, because nothing can expire meanwhile, or
    because the sweeps of this state follow its rows."""
    strategies = config.cleanup_strategies
    by_rows = strategies.incremental is not None or not strategies.in_background
    if by_rows or config.time_characteristic is TtlTimeCharacteristic.EventTime:
        return None
    if idle_ms >= _LIVES * config.ttl.to_milliseconds() + _MERGE_MS and not removed:
        return None
    return max(LEAST_REST_MS, _period_ms(config) // _RESTS)
