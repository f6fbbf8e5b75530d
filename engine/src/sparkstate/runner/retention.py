"""Which savepoints to delete: by age and by count, and never the ones that matter."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sparkstate.runner import schedule

AUTOMATIC_PREFIXES = (schedule.PERIODIC_PREFIX, schedule.ON_STOP_PREFIX)


@dataclass(frozen=True)
class KeptSavepoint:
    """One completed savepoint in the storage. ``completed_ms`` is by the driver's clock, which may have been wrong."""

    url: str
    trigger_id: str
    completed_ms: int


def expired(
    savepoints: Sequence[KeptSavepoint],
    *,
    now_ms: int,
    max_age_s: float | None,
    max_count: int | None,
    pinned: Collection[str] = (),
) -> list[KeptSavepoint]:
    """The savepoints to delete, oldest first. ``savepoints`` come in the order of the log, oldest first.

    Only savepoints that the runner took by itself (periodic, or on stop) count and go: one that a person asked for
    belongs to that person. The newest savepoint of all stays whatever its age, and so do the newest automatic one (the
    schedule goes on from it) and the ``pinned`` URLs (such as the one that the job was restored from). None as a limit
    means no limit.
    """
    # Not by time: one that was taken while the clock was ahead would be the newest for as long, and each one after it
    # would be deleted as soon as it was complete.
    newest_first = savepoints[::-1]
    automatic = [kept for kept in newest_first if kept.trigger_id.startswith(AUTOMATIC_PREFIXES)]
    untouchable = {kept.url for kept in (*newest_first[:1], *automatic[:1])} | set(pinned)
    ages_ms = _ages_ms(newest_first, now_ms)
    gone = [
        kept
        for rank, kept in enumerate(automatic)
        if kept.url not in untouchable
        and (
            (max_count is not None and rank >= max_count)
            or (max_age_s is not None and ages_ms[kept.url] > max_age_s * 1000)
        )
    ]
    return gone[::-1]


def _ages_ms(newest_first: Sequence[KeptSavepoint], now_ms: int) -> dict[str, int]:
    """By URL. A time in the future is wrong, and such a savepoint is as old as the next one of the log: otherwise it
    would stay until that time. None is older than the one before it, so a clock that was behind takes none away."""
    ages, next_age_ms = dict[str, int](), 0
    for kept in newest_first:
        age_ms = now_ms - kept.completed_ms
        next_age_ms = ages[kept.url] = age_ms if age_ms >= 0 else next_age_ms
    oldest_first = [kept.url for kept in reversed(newest_first)]
    return dict(
        zip(oldest_first, itertools.accumulate((ages[url] for url in oldest_first), min), strict=True)
    )
