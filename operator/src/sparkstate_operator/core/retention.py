"""Which periodic savepoints are deleted, by age and count, and which are kept whatever the numbers say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sparkstate_operator.core import locations
from sparkstate_operator.core.settings import Resolved
from sparkstate_spec import units

FAILED_KEPT = 5
"""Failed ones hold no state; the newest few tell why."""
AT_ONCE = 20
"""Deletions under way at once. Each of them is a Job with a pod in the job's namespace. A lowered ``maxCount`` made
thousands of them in one look."""
SLOW_S = 600.0
"""A deletion that takes longer makes room for another one: it may be refused for a week."""


@dataclass(frozen=True)
class Limits:
    """None: no limit of that kind."""

    max_age_s: float | None = None
    max_count: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as retention sees it. ``time`` is when it was created, by the API server's clock. The time of its
    completion comes from the operator's, and one that was ahead made a savepoint the newest for as long: each one after
    it was deleted as soon as it had completed."""

    name: str
    phase: str
    time: datetime
    periodic: bool = True
    pinned: bool = False
    uri: str = ""


@dataclass(frozen=True)
class ExpiredSnapshot:
    """A snapshot to delete, and why."""

    name: str
    reason: Literal["age", "count", "failed"]


def limits(resolved: Resolved) -> Limits:
    """The job's limits."""
    age = resolved.get("savepoints.maxAge")
    return Limits(None if age is None else units.duration_s(age), resolved.get("savepoints.maxCount"))


def expired(
    snapshots: Collection[Snapshot], wanted: Limits, now: datetime, in_use: Collection[str] = ()
) -> tuple[ExpiredSnapshot, ...]:
    """The periodic snapshots to delete, oldest first.

    ``in_use`` are names and folders (:func:`locations.folder`) that are still needed: the state that a job restores
    from, and that of a pending restore. The newest completed snapshot (of any type) always stays. A snapshot that is
    pinned, in flight or already being deleted is never returned, but counts.
    """
    completed = _newest_first(snapshots, "Completed")
    newest = completed[0].name if completed else None
    old = [] if wanted.max_age_s is None else _older(completed, now - timedelta(seconds=wanted.max_age_s))
    periodic = [one for one in completed if one.periodic]
    over = [] if wanted.max_count is None else periodic[wanted.max_count :]
    failed = [one for one in _newest_first(snapshots, "Failed") if one.periodic][FAILED_KEPT:]
    found = {one.name: ExpiredSnapshot(one.name, "failed") for one in failed if _free(one, in_use)}
    found |= {one.name: ExpiredSnapshot(one.name, "count") for one in over if _free(one, in_use)}
    found |= {one.name: ExpiredSnapshot(one.name, "age") for one in old if _free(one, in_use)}
    order = {one.name: one.time for one in snapshots}
    return tuple(
        sorted((e for e in found.values() if e.name != newest), key=lambda e: (order[e.name], e.name))
    )


def room(deleting: Collection[datetime], now: datetime) -> int:
    """How many deletions may begin beside those that began at these times."""
    quick = sum(1 for began in deleting if (now - began).total_seconds() < SLOW_S)
    return max(AT_ONCE - quick, 0)


def _newest_first(snapshots: Collection[Snapshot], phase: str) -> list[Snapshot]:
    found = [one for one in snapshots if one.phase == phase]
    return sorted(found, key=lambda one: (one.time, one.name), reverse=True)


def _older(snapshots: Collection[Snapshot], limit: datetime) -> list[Snapshot]:
    return [one for one in snapshots if one.time < limit]


def _free(one: Snapshot, in_use: Collection[str]) -> bool:
    used = one.name in in_use or locations.folder(one.uri) in in_use
    return one.periodic and not one.pinned and not used
