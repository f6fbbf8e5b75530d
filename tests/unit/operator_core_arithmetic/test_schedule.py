"""Periodic savepoints by the clock, whatever the clock does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate_operator.core import schedule, settings
from sparkstate_operator.core.schedule import Plan
from sparkstate_spec import periodic

CREATED = datetime(2026, 11, 1, 12, 0, 30, tzinfo=UTC)
HOURLY = Plan("uid-1", CREATED, interval_s=3600.0)
NIGHTLY = Plan("uid-1", CREATED, cron="0 3 * * *")
UIDS = st.uuids().map(str)
PLANS = st.one_of(
    st.builds(Plan, UIDS, st.just(CREATED), interval_s=st.floats(1.0, 86_400.0 * 7)),
    st.builds(
        Plan,
        UIDS,
        st.just(CREATED),
        cron=st.sampled_from(["* * * * *", "*/7 * * * *", "0 3 * * *", "30 4 * * mon", "@hourly", "@daily"]),
    ),
)
STEPS = st.lists(st.floats(-86_400.0 * 3, 86_400.0 * 3), max_size=40)


def test_a_job_without_a_schedule_has_no_plan() -> None:
    base = {"pythonFile": "/j.py", "image": "i", "checkpointing": {"storage": "s3://b/p"}}
    assert schedule.plan(settings.resolve(base), "u", CREATED) is None
    by_time = settings.resolve({**base, "savepoints": {"interval": "6h"}})
    assert schedule.plan(by_time, "u", CREATED) == Plan("u", CREATED, interval_s=21_600.0)
    by_cron = settings.resolve({**base, "savepoints": {"schedule": "@daily"}})
    assert schedule.plan(by_cron, "u", CREATED) == Plan("u", CREATED, cron="@daily")


def test_nothing_is_due_before_the_first_point_after_the_jobs_creation() -> None:
    first = CREATED + timedelta(seconds=schedule.wait_s(HOURLY, CREATED))
    assert schedule.due(HOURLY, first - timedelta(seconds=1), (), False) is None
    found = schedule.due(HOURLY, first, (), False)
    assert found is not None
    assert found.scheduled == first


def test_many_missed_points_are_one_savepoint() -> None:
    found = schedule.due(HOURLY, CREATED + timedelta(days=9), (), False)
    assert found is not None
    assert schedule.due(HOURLY, CREATED + timedelta(days=9), {found.scheduled}, False) is None
    assert CREATED + timedelta(days=9) - found.scheduled < timedelta(hours=1)


def test_never_two_are_in_flight() -> None:
    assert schedule.due(HOURLY, CREATED + timedelta(days=1), (), True) is None
    assert schedule.due(HOURLY, CREATED + timedelta(days=1), (), False) is not None


def test_a_cron_line_is_read_in_utc_and_begins_within_a_minute() -> None:
    three = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
    found = schedule.due(NIGHTLY, three + timedelta(seconds=schedule.MAX_CRON_JITTER_S), (), False)
    assert found is not None
    assert found.scheduled == three
    begins = three + timedelta(seconds=schedule.jitter_s(NIGHTLY))
    assert schedule.due(NIGHTLY, begins - timedelta(milliseconds=1), (), False) is None
    assert schedule.due(NIGHTLY, begins, (), False) is not None


def test_jobs_of_one_schedule_do_not_begin_at_one_instant() -> None:
    uids = [f"uid-{number}" for number in range(50)]
    by_time = {schedule.wait_s(Plan(uid, CREATED, interval_s=3600.0), CREATED) for uid in uids}
    by_cron = {schedule.wait_s(Plan(uid, CREATED, cron="@hourly"), CREATED) for uid in uids}
    assert len(by_time) > 25
    assert len(by_cron) > 25


def test_a_time_recorded_by_a_clock_that_was_a_year_ahead_does_not_silence_the_job() -> None:
    now = CREATED + timedelta(days=2)
    found = schedule.due(HOURLY, now, {now + timedelta(days=365)}, False)
    assert found is not None
    assert found.scheduled <= now


@given(PLANS, st.floats(0, 86_400.0 * 30))
def test_the_same_question_has_the_same_answer_and_the_wait_leads_to_it(plan: Plan, passed: float) -> None:
    now = CREATED + timedelta(seconds=passed + schedule.MAX_CRON_JITTER_S)
    found = schedule.due(plan, now, (), False)
    assert found == schedule.due(plan, now, (), False)
    after = now + timedelta(seconds=schedule.wait_s(plan, now) + 0.002)
    later = schedule.due(plan, after, {found.scheduled} if found else (), False)
    assert later is not None
    assert now - timedelta(seconds=schedule.MAX_CRON_JITTER_S) < later.scheduled <= after


@given(PLANS, STEPS)
def test_a_clock_that_jumps_makes_no_storm(plan: Plan, steps: list[float]) -> None:
    """However the clock jumps, each point is taken once, and no more are taken than there were looks."""
    now, done = CREATED, set[datetime]()
    for step in steps:
        now += timedelta(seconds=step)
        found = schedule.due(plan, now, done, False)
        if found:
            assert found.scheduled not in done
            assert found.scheduled <= now
            done.add(found.scheduled)
        # The same look again, as after a restart of the operator: nothing more.
        assert schedule.due(plan, now, done, False) is None


@given(PLANS, STEPS)
def test_a_clock_that_has_jumped_leaves_no_silence(plan: Plan, steps: list[float]) -> None:
    """After any jumps, once the clock is right again, the next point of the grid is taken, behind those that another
    clock slightly ahead may have taken."""
    now, done = CREATED, set[datetime]()
    for step in steps:
        now += timedelta(seconds=step)
        found = schedule.due(plan, now, done, False)
        done |= {found.scheduled} if found else set()
    now = max(now, CREATED)
    taken = 0
    looks = 3 + int(periodic.SOON_S / plan.interval_s if plan.interval_s else 1)
    for _ in range(looks):
        now += timedelta(seconds=schedule.wait_s(plan, now) + 0.002)
        found = schedule.due(plan, now, done, False)
        taken += found is not None
        done |= {found.scheduled} if found else set()
    known = [time for time in done if CREATED < time <= now]
    assert taken or len(known) >= looks


@pytest.mark.parametrize("ahead_s", [0.0, 5.0, 59.0])
def test_another_machines_clock_slightly_ahead_is_believed(ahead_s: float) -> None:
    point = schedule.due(HOURLY, CREATED + timedelta(days=1), (), False)
    assert point is not None
    now = point.scheduled - timedelta(seconds=ahead_s)
    assert schedule.due(HOURLY, now, {point.scheduled}, False) is None
