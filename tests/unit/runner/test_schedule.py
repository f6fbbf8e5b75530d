"""Periodic savepoints: when they are due, and that no restart repeats or forgets one."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.storage.stores import ManualClock

from sparkstate import errors, settings
from sparkstate.control import documents
from sparkstate.runner import periodic, retention, schedule

HOUR = 3_600_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_without_interval_or_cron_there_is_no_schedule() -> None:
    assert schedule.from_settings(settings.SavepointSettings()) is None


def test_an_interval_is_due_at_its_multiples() -> None:
    every = schedule.from_settings(settings.SavepointSettings(interval_s=3600))
    assert every is not None
    since = ms("2026-01-31T10:20:00")
    assert schedule.due(every, since_ms=since, now_ms=ms("2026-01-31T10:59:59")) is None
    assert schedule.due(every, since_ms=since, now_ms=ms("2026-01-31T11:00:00")) == ms("2026-01-31T11:00:00")


def test_a_cron_line_is_due_at_its_times_in_utc() -> None:
    cron = schedule.from_settings(settings.SavepointSettings(schedule="30 6 * * *"))
    assert cron is not None
    slot = ms("2026-01-31T06:30:00")
    assert schedule.due(cron, since_ms=slot - 1, now_ms=slot) == slot
    assert schedule.due(cron, since_ms=slot - 1, now_ms=slot + 999) == slot
    assert schedule.due(cron, since_ms=slot - 1, now_ms=slot - 1) is None
    assert cron.following(slot) == ms("2026-02-01T06:30:00")


def test_a_cron_line_that_cannot_be_read_is_refused_with_its_text() -> None:
    with pytest.raises(errors.SpecInvalid, match="'every day'"):
        schedule.from_settings(settings.SavepointSettings(schedule="every day"))


def test_an_interval_below_a_second_counts_as_a_second() -> None:
    every = schedule.from_settings(settings.SavepointSettings(interval_s=0.5))
    assert every == schedule.Interval(1000)


def test_missed_times_collapse_to_the_newest() -> None:
    every = schedule.Interval(HOUR)
    assert schedule.due(every, since_ms=ms("2026-01-01T00:00"), now_ms=ms("2026-01-31T10:20")) == ms(
        "2026-01-31T10:00"
    )


def test_a_clock_set_back_makes_nothing_due() -> None:
    every = schedule.Interval(HOUR)
    assert schedule.due(every, since_ms=ms("2026-01-31T10:00"), now_ms=ms("2026-01-31T08:30")) is None


def test_what_a_clock_that_was_ahead_has_done_does_not_count() -> None:
    now, first = ms("2026-01-31T10:20"), ms("2026-01-01T00:00")
    ahead, last = ms("2027-01-31T10:00"), ms("2026-01-31T09:00")

    def since(*done: int, first_start_ms: int = first) -> int:
        return schedule.since(done, first_start_ms=first_start_ms, now_ms=now)

    assert since() == first
    assert since(ahead, last) == last
    assert since(ahead) == first
    assert since(now + 60_000, last) == now + 60_000, "clocks may differ by so much"
    assert since(first_start_ms=ahead) == 0


class Savepoints:
    """A driver and its storage in one: a savepoint is complete as soon as it was asked for."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.formats: set[str] = set()

    def trigger_savepoint(self, request: documents.SavepointRequest) -> None:
        assert request.trigger_id is not None
        self.taken.append(request.trigger_id)
        self.formats.add(request.format_type)

    def savepoint(self, trigger_id: str) -> documents.SavepointStatus:
        return documents.SavepointStatus(trigger_id=trigger_id, status=documents.SavepointPhase.COMPLETED)

    def completed(self) -> list[retention.KeptSavepoint]:
        return [retention.KeptSavepoint(name, name, 0) for name in self.taken]


@pytest.mark.parametrize("format_type", ["canonical", "native"])
@pytest.mark.parametrize("restarted", [False, True])
def test_savepoints_go_on_when_a_clock_that_was_ahead_is_set_right(restarted: bool, format_type: Any) -> None:
    clock, savepoints = ManualClock(), Savepoints()
    running = periodic.PeriodicSavepoints(
        schedule.Interval(HOUR),
        settings.SavepointSettings(format_type=format_type),
        savepoints,  # type: ignore[arg-type]
        clock,
        lambda _: None,
        first_start_ms=ms("2026-01-31T00:00"),
    )
    for moment in ("2026-01-31T10:20", "2027-01-31T10:20", "2026-01-31T10:30", "2026-01-31T11:05"):
        clock.now = ms(moment) / 1000
        if restarted:
            running.driver_ended()
        running.tick(savepoints)  # type: ignore[arg-type]
        running.tick(savepoints)  # type: ignore[arg-type]
    assert savepoints.taken == [
        "periodic-20260131T100000Z",
        "periodic-20270131T100000Z",
        "periodic-20260131T110000Z",
    ]
    assert savepoints.formats == {format_type}


def test_a_trigger_id_says_the_time_and_is_read_back() -> None:
    slot = ms("2026-01-31T06:00:00")
    assert schedule.trigger_id(slot) == "periodic-20260131T060000Z"
    assert schedule.slot_of("periodic-20260131T060000Z") == slot
    assert schedule.slot_of("mine") is None
    assert schedule.slot_of("periodic-soon") is None


@given(
    period_s=st.integers(min_value=1, max_value=10_000_000),
    moments=st.lists(st.integers(min_value=0, max_value=4_000_000_000_000), min_size=1, max_size=30),
)
def test_every_slot_time_is_taken_once_however_often_the_question_is_asked(
    period_s: int, moments: list[int]
) -> None:
    every = schedule.Interval(period_s * 1000)
    since, taken = min(moments), []
    for now in sorted(moments):
        for _ in range(2):
            slot = schedule.due(every, since_ms=since, now_ms=now)
            if slot is not None:
                taken.append(slot)
                since = schedule.slot_of(schedule.trigger_id(slot))  # what a restarted runner reads
                assert since == slot
                assert now - every.period_ms < slot <= now
    assert len(taken) == len(set(taken))
