"""Removes entries that have expired and that nobody reads, a few in each epoch.

Theory. A store cannot ask for expired entries, because it keeps them by key. So it is asked to look at all entries, one
after another. By default the pace is such that each is looked at once within half of the time-to-live: then an entry
stays for at most one and a half times its life, and the work is in proportion to the entries and not to the epochs.
A sweep removes only values that can no longer be seen, so its place in the table has no effect on results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from sparkstate.backends.base import ShardStore, TableSpec
from sparkstate.backends.expiring import ExpiringStore, SweepPace
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.state.expiring_handles import ExpiringHandle
from sparkstate.operators.state.handles import StateHandle
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde.expiring import NO_STAMP, Times, ttl_of
from sparkstate.state.ttl import StateTtlConfig

LEAST_ENTRIES: Final = 100
"""That many are looked at in each epoch, state and shard, however short the epoch was."""
MOST_ENTRIES: Final = 100_000
"""No more are looked at in an epoch of a slot for one state, or four times its rows if that is more: an epoch after a
long pause would wait for a look at everything."""
_PER_ROW: Final = 4
"""A row adds one entry. With half a time-to-live for a pass, each entry is looked at three times at most."""
_NOTHING: Final = SweepPace(0.0, 0, 0)


class Cleanup:
    """Of all states of one operator in one slot."""

    def __init__(self, stores: Mapping[int, ShardStore]) -> None:
        self._stores = [store for store in stores.values() if isinstance(store, ExpiringStore)]
        self._watermark = MIN_WATERMARK
        self._last: dict[str, int] = {}
        """The time of the last sweep, by state."""

    def cutoff(self, spec: TableSpec, now_ms: int) -> int:
        """Entries with this stamp or an older one have expired, as somebody sees it who reads from outside."""
        ttl = ttl_of(spec.value_type)
        return NO_STAMP if ttl is None else ttl.cutoff(Times(now_ms, self._watermark).by(ttl))

    def run(self, handles: Iterable[StateHandle], overlay: Overlay) -> None:
        """Sweep the states of these handles by the times of an overlay that was committed."""
        self._watermark = overlay.new_watermark
        times = Times(overlay.processing_time, overlay.new_watermark)
        for handle in handles:
            if isinstance(handle, ExpiringHandle):
                self._sweep(handle, overlay, times)

    def _sweep(self, handle: ExpiringHandle, overlay: Overlay, times: Times) -> None:
        strategies, ttl = handle.config.cleanup_strategies, ttl_of(handle.spec.value_type)
        assert ttl is not None
        if not strategies.leaves_snapshots_clean:
            return
        now = times.by(ttl)
        elapsed = now - self._last.get(handle.spec.name, now)
        self._last[handle.spec.name] = now
        cutoff = ttl.cutoff(now)
        pace = _NOTHING
        if strategies.in_background and cutoff != NO_STAMP:
            rows, keys = overlay.rows_in, len(overlay.known)
            pace = pace_of(handle.config, elapsed, rows, keys, max(1, len(self._stores)))
        for store in self._stores:
            store.expire(handle.spec, cutoff, pace)


def pace_of(config: StateTtlConfig, elapsed_ms: int, rows: int, keys: int, stores: int) -> SweepPace:
    """How much of each store's table to look at after an epoch of so many rows and keys. ``elapsed_ms`` have passed
    since the last sweep."""
    incremental = config.cleanup_strategies.incremental
    if incremental is not None:
        asked = incremental.cleanup_size * (rows if incremental.run_for_every_record else keys)
        entries = math.ceil(asked / stores)
        return SweepPace(0.0, entries, entries)
    period = max(1, config.ttl.to_milliseconds() // 2)
    compact_filter = config.cleanup_strategies.compact_filter
    if compact_filter is not None:
        period = min(period, compact_filter.periodic_compaction_time.to_milliseconds())
    most = math.ceil(max(MOST_ENTRIES, _PER_ROW * rows) / stores)
    return SweepPace(min(1.0, max(0, elapsed_ms) / period), LEAST_ENTRIES, most)
