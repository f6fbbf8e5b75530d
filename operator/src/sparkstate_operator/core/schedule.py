"""When periodic savepoints, and the runs of a job that ends by itself, are due: by duration or cron.

A schedule is a grid of points in time that depends on the job's uid and spec alone, never on when somebody looked.

* Only the newest point that has passed counts, so missed points collapse into one.
* A point in ``done`` is never due again, so a clock that goes back makes no storm of savepoints.
* Points in ``done`` that lie in the future do not make it wait, so a clock that was ahead leaves no gap.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import croniter

from sparkstate_operator.core import naming
from sparkstate_operator.core.settings import Resolved
from sparkstate_spec import periodic, units

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
MAX_CRON_JITTER_S = 60
"""Many jobs say ``0 3 * * *``; they begin within a minute, not at one instant."""


@dataclass(frozen=True)
class Plan:
    """A job's schedule: one of ``interval_s`` and ``cron``. ``created`` is when the job was."""

    uid: str
    created: datetime
    interval_s: float | None = None
    cron: str | None = None


@dataclass(frozen=True)
class DueSavepoint:
    """A savepoint to take now, for the point ``scheduled`` of the grid."""

    scheduled: datetime
    trigger_id: str


def plan(resolved: Resolved, uid: str, created: datetime) -> Plan | None:
    """The schedule of a job; None without periodic savepoints."""
    interval, cron = resolved.get("savepoints.interval"), resolved.get("savepoints.schedule")
    if interval is None and cron is None:
        return None
    seconds = None if interval is None else periodic.interval_s(units.duration_s(interval))
    return Plan(uid, created, seconds, cron)


def due(plan: Plan, now: datetime, done: Collection[datetime], in_flight: bool) -> DueSavepoint | None:
    """The savepoint that is due. ``done``: scheduled times of all periodic snapshots that exist or were recorded;
    ``in_flight``: whether any savepoint of the job is under way, then nothing is."""
    point = _newest(plan, now)
    if in_flight or point in done:
        return None
    if point <= max(believed(done, now), default=plan.created):
        return None
    return DueSavepoint(point, naming.trigger_id(plan.uid, point))


def believed(done: Collection[datetime], now: datetime) -> list[datetime]:
    """Those points that no clock which was ahead has made."""
    return [time for time in done if time <= now + timedelta(seconds=periodic.SOON_S)]


def wait_s(plan: Plan, now: datetime) -> float:
    """Seconds until the next point of the grid passes; always more than 0."""
    at = _next(plan, now)
    return max((at - now).total_seconds(), 0.001)


def jitter_s(plan: Plan) -> int:
    """This job's share of the spread, from its uid."""
    return int(naming.digest(plan.uid, 8), 16) % MAX_CRON_JITTER_S


def passed(plan: Plan, now: datetime) -> datetime:
    """When the newest point of the grid passed for this job: with a cron line, its share of the spread later."""
    spread = timedelta(seconds=jitter_s(plan)) if plan.interval_s is None else timedelta()
    return _newest(plan, now) + spread


def _newest(plan: Plan, now: datetime) -> datetime:
    """The newest point of the grid that has passed."""
    if plan.interval_s is not None:
        passed = (now - _anchor(plan)) // timedelta(seconds=plan.interval_s)
        return _anchor(plan) + passed * timedelta(seconds=plan.interval_s)
    spread = timedelta(seconds=jitter_s(plan))
    # croniter's get_prev looks strictly before its start; a point that passes at this very moment counts as passed.
    moment = now - spread + timedelta(microseconds=1)
    found: datetime = croniter.croniter(plan.cron or "", moment).get_prev(datetime)
    return found


def _next(plan: Plan, now: datetime) -> datetime:
    if plan.interval_s is not None:
        return _newest(plan, now) + timedelta(seconds=plan.interval_s)
    spread = timedelta(seconds=jitter_s(plan))
    found: datetime = croniter.croniter(plan.cron or "", now - spread).get_next(datetime)
    return found + spread


def _anchor(plan: Plan) -> datetime:
    """Where the grid of an interval begins: not every job's at the full hour."""
    assert plan.interval_s is not None
    share = int(naming.digest(plan.uid, 8), 16) % max(int(plan.interval_s), 1)
    return EPOCH + timedelta(seconds=share)
