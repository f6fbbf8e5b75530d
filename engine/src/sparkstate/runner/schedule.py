"""When periodic savepoints are due: pure functions of the schedule, the clock and what the storage holds.

Every scheduled time ("slot time") is a fixed point on the clock: a multiple of the interval since the Unix
epoch, or what the cron line says, in UTC. The trigger id derives from the slot time alone, so a runner that
was restarted asks for the same savepoint again instead of a second one, and finds in the storage which was
the last. Times missed while the job was down collapse to the newest of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

import croniter

from sparkstate import errors, settings
from sparkstate_spec import periodic, rules

PERIODIC_PREFIX = "periodic-"
ON_STOP_PREFIX = "stop-"


@dataclass(frozen=True)
class Interval:
    """A savepoint at every multiple of ``period_ms`` since the Unix epoch."""

    period_ms: int

    def latest(self, now_ms: int) -> int:
        """The newest slot time that is not after ``now_ms``."""
        return now_ms - now_ms % self.period_ms

    def following(self, slot_ms: int) -> int:
        """The first slot time after ``slot_ms``."""
        return self.latest(slot_ms) + self.period_ms


@dataclass(frozen=True)
class Cron:
    """A savepoint at the times of a cron line with five fields, in UTC."""

    line: str

    def latest(self, now_ms: int) -> int:
        """The newest slot time that is not after ``now_ms``."""
        # get_prev excludes its start, and a slot time at `now_ms` itself is due: so start one second later.
        start = _utc((now_ms // 1000 + 1) * 1000)
        return _milliseconds(croniter.croniter(self.line, start).get_prev(datetime))

    def following(self, slot_ms: int) -> int:
        """The first slot time after ``slot_ms``."""
        return _milliseconds(croniter.croniter(self.line, _utc(slot_ms)).get_next(datetime))


Schedule = Interval | Cron


def from_settings(savepoint: settings.SavepointSettings) -> Schedule | None:
    """The schedule that the manifest asks for; None if savepoints are taken only on request.

    Raises :class:`errors.SpecInvalid` for a cron line that names no time.
    """
    if savepoint.schedule is not None:
        if problem := rules.schedule(savepoint.schedule):
            raise errors.SpecInvalid(str(problem))
        return Cron(savepoint.schedule)
    if savepoint.interval_s is None:
        return None
    return Interval(periodic.interval_s(savepoint.interval_s) * 1000)


def trigger_id(slot_ms: int) -> str:
    """The trigger id of the savepoint for a slot time, e.g. ``periodic-20260131T060000Z``.

    Trigger ids are unique within a lineage, so the job's name need not be in them.
    """
    return f"{PERIODIC_PREFIX}{_utc(slot_ms):%Y%m%dT%H%M%SZ}"


def on_stop_trigger_id(now_ms: int) -> str:
    """The trigger id of a savepoint that is taken because the job is stopped at ``now_ms``."""
    return f"{ON_STOP_PREFIX}{_utc(now_ms):%Y%m%dT%H%M%SZ}"


def slot_of(identifier: str) -> int | None:
    """The slot time that a trigger id stands for; None for ids that this module did not make."""
    if not identifier.startswith(PERIODIC_PREFIX):
        return None
    try:
        moment = datetime.strptime(identifier.removeprefix(PERIODIC_PREFIX), "%Y%m%dT%H%M%SZ")
    except ValueError:
        return None
    return _milliseconds(moment.replace(tzinfo=UTC))


def due(schedule: Schedule, *, since_ms: int, now_ms: int) -> int | None:
    """The slot time to take a savepoint for now, or None.

    ``since_ms`` is the newest slot time that is done with, or the moment from which the schedule counts
    (the job's first start). Before that moment nothing is due. A clock that was set forward makes one savepoint
    due, not many.
    """
    latest = schedule.latest(now_ms)
    return latest if latest > since_ms else None


def since(done: Collection[int], *, first_start_ms: int, now_ms: int) -> int:
    """From when to count: the newest of the slot times that are done with, or the job's first start.

    A time that is still to come was read from a clock that was ahead. It does not count, because nothing would be due
    until that time.
    """
    latest_ms = now_ms + periodic.SOON_S * 1000
    return max((moment for moment in (first_start_ms, *done) if moment <= latest_ms), default=0)


def _utc(moment_ms: int) -> datetime:
    return datetime.fromtimestamp(moment_ms / 1000, tz=UTC)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
