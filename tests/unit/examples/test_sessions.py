"""Example 2 without Spark: each operator by itself, and both against the calculation by sorting."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from support.examples import example

from sparkstate.functions import MAX_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

EXAMPLE = example.EXAMPLES / "02-sessions"
job = example.load(EXAMPLE / "job.py")
clicks = example.load(EXAMPLE / "clicks.py")
expected = example.load(EXAMPLE / "expected.py")

MINUTE = 60_000
GAP = timedelta(minutes=30)
NOON = 1_709_294_400_000
"""2024-03-01 12:00 UTC."""


def at(timestamp):
    return datetime.fromtimestamp(timestamp / 1000, UTC)


def sessions_harness(**options):
    return KeyedProcessHarness(
        job.Sessions(30 * MINUTE, 60_000), key=lambda row: row.user, key_type=Types.STRING(), **options
    )


@pytest.fixture
def one():
    with sessions_harness(late_tag="late") as started:
        yield started


def click(page="/", user="ann"):
    return {"user": user, "page": page}


def test_a_session_is_told_when_the_gap_has_passed(one):
    one.process_element(click("/a"), NOON)
    one.process_element(click("/b"), NOON + 29 * MINUTE)
    one.process_watermark(NOON + 59 * MINUTE - 1)
    assert one.output() == []

    one.process_watermark(NOON + 59 * MINUTE)

    assert one.output() == [("ann", at(NOON), at(NOON + 29 * MINUTE), 2, "/a")]
    assert one.state("sessions", "ann") in (None, {})


def test_a_click_exactly_one_gap_later_begins_a_new_session(one):
    one.process_elements([(click(), NOON), (click(), NOON + 30 * MINUTE)])
    one.process_watermark(MAX_WATERMARK)

    assert [row[3] for row in one.output()] == [1, 1]


def test_a_click_between_two_open_sessions_joins_them(one):
    one.process_element(click("/late-one"), NOON + 40 * MINUTE)
    one.process_element(click("/first"), NOON)
    assert len(one.state("sessions", "ann")) == 2

    one.process_element(click("/between"), NOON + 20 * MINUTE)

    assert one.state("sessions", "ann") == {NOON: (NOON + 40 * MINUTE, 3, "/first")}
    assert [timer.timestamp for timer in one.event_timers()] == [NOON + 70 * MINUTE]


def test_a_click_behind_the_watermark_goes_to_the_side_output_and_changes_nothing(one):
    one.process_element(click(), NOON)
    one.process_watermark(NOON + 10 * MINUTE)

    one.process_element(click("/late"), NOON + 5 * MINUTE)

    assert [tuple(row) for row in one.side_output("late")] == [("ann", "/late")]
    assert one.state("clicks", "ann") == 1


def test_the_idle_alarm_rings_once_by_the_wall_clock_and_again_after_the_next_click(one):
    one.process_element(click(), NOON)
    one.set_processing_time(59_999)
    one.process_element(click(), NOON + MINUTE)
    one.set_processing_time(119_998)
    assert one.side_output(job.IDLE) == []

    one.set_processing_time(119_999)
    one.set_processing_time(999_999)
    assert one.side_output(job.IDLE) == [("ann", 2)]

    one.process_element(click(), NOON + 2 * MINUTE)
    one.set_processing_time(1_059_999)
    assert one.side_output(job.IDLE) == [("ann", 2), ("ann", 3)]


def test_a_day_is_told_when_the_watermark_has_passed_it_and_forgotten():
    row = {"user": "ann", "started": at(NOON), "ended": at(NOON + 90_000), "clicks": 4, "landing": "/"}
    with KeyedProcessHarness(
        job.LandingPages(), key=lambda row: row.landing, key_type=Types.STRING()
    ) as pages:
        pages.process_element(row, NOON)
        pages.process_element({**row, "clicks": 1}, NOON + 60 * MINUTE)
        midnight = NOON + 12 * 60 * MINUTE
        pages.process_watermark(midnight - 1)
        assert pages.output() == []

        pages.process_watermark(midnight)

        assert pages.output() == [("/", at(NOON - 12 * 60 * MINUTE), 2, 5, 180)]
        assert pages.state("days", "/") in (None, {})


@pytest.mark.parametrize("seed", [1, 2])
def test_both_operators_agree_with_the_calculation_however_clicks_are_cut_into_epochs(seed):
    regular = clicks.make_clicks(users=25, days=2)
    chance = random.Random(seed)
    rows = [({"user": one.user, "page": one.page}, round(one.at.timestamp() * 1000)) for one in regular]
    with sessions_harness() as first:
        position = 0
        newest = 0
        while position < len(rows):
            epoch = rows[position : position + chance.randint(1, 200)]
            first.process_elements(epoch)
            newest = max(newest, *(stamp for _, stamp in epoch))
            first.process_watermark(newest - 10 * MINUTE - 1)
            position += len(epoch)
        first.process_watermark(MAX_WATERMARK)
        told = first.output()

    wanted = expected.sessions(regular, GAP)
    assert Counter(told) == wanted
    assert wanted.total() > 100
    with KeyedProcessHarness(
        job.LandingPages(), key=lambda row: row.landing, key_type=Types.STRING()
    ) as second:
        names = ("user", "started", "ended", "clicks", "landing")
        closed = [
            (dict(zip(names, row, strict=True)), round(row[2].timestamp() * 1000) + 30 * MINUTE)
            for row in told
        ]
        second.process_elements(closed)
        second.process_watermark(MAX_WATERMARK)

        assert Counter(second.output()) == expected.landing_pages(wanted, GAP)


def test_generated_clicks_are_in_bounded_disorder_and_the_late_ones_are_late():
    regular = clicks.make_clicks(users=25, days=2)
    late = clicks.make_late_clicks(regular, 5)
    stream = clicks.with_late_clicks(regular, late)

    newest = regular[0].at
    for one in regular:
        assert newest - one.at <= clicks.DISORDER
        newest = max(newest, one.at)
    assert len(stream) == len(regular) + 5
    first_late = min(stream.index(one) for one in late)
    assert min(one.at for one in stream[first_late - 200 : first_late]) - max(
        one.at for one in late
    ) > timedelta(hours=6)
