"""Which savepoints to delete: by age and by count, and never the ones that matter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sparkstate.runner import schedule

AUTOMATIC_PREFIXES = (schedule.PERIODIC_PREFIX, schedule.ON_STOP_PREFIX)


@dataclass(frozen=True)
class KeptSavepoint:
    """One completed savepoint in the storage."""

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
    """The savepoints to delete, oldest first.

    Only savepoints that the runner took by itself (periodic, or on stop) count and go: one that a person asked for
    belongs to that person. The newest savepoint of all stays whatever its age, and so do the newest automatic one (the
    schedule goes on from it) and the ``pinned`` URLs (such as the one that the job was restored from). None as a limit
    means no limit.
    """
    newest_first = sorted(savepoints, key=lambda kept: (kept.completed_ms, kept.url), reverse=True)
    automatic = [kept for kept in newest_first if kept.trigger_id.startswith(AUTOMATIC_PREFIXES)]
    untouchable = {kept.url for kept in (*newest_first[:1], *automatic[:1])} | set(pinned)
    gone = [
        kept
        for rank, kept in enumerate(automatic)
        if kept.url not in untouchable
        and (
            (max_count is not None and rank >= max_count)
            or (max_age_s is not None and now_ms - kept.completed_ms > max_age_s * 1000)
        )
    ]
    return gone[::-1]
