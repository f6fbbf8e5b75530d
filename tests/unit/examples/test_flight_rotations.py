"""The rules of example 1 on one function, and real rows against the independent calculation."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from support.examples import example

from sparkstate.functions import MAX_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness
from sparkstate_tools.demo import oracle, prepare

job = example.load(example.EXAMPLES / "01-flight-rotations" / "job.py")
MORNING = 1_367_402_400_000
"""2013-05-01 10:00 UTC."""
HOUR = job.HOUR_MS
ALLOWED_DELAY_MS = HOUR


def at(timestamp):
    return datetime.fromtimestamp(timestamp / 1000, UTC)


def flight(tailnum="N1", number=1, carrier="UA", dep_time=600, arr_delay=5):
    return {
        "tailnum": tailnum,
        "carrier": carrier,
        "flight": number,
        "origin": "JFK",
        "dest": "LAX",
        "dep_time": dep_time,
        "arr_delay": arr_delay,
    }


def harness(hours=24, backend="hashmap"):
    return KeyedProcessHarness(
        job.Rotations(hours), key=lambda row: row.tailnum, key_type=Types.STRING(), backend=backend
    )


@pytest.fixture
def one():
    with harness() as started:
        yield started


def test_nothing_is_told_before_the_watermark_has_passed_it(one):
    one.process_element(flight(), MORNING)
    one.process_watermark(MORNING - 1)
    assert one.output() == []

    one.process_watermark(MORNING)

    assert one.output() == [("N1", at(MORNING), "UA", 1, "JFK", "LAX", 1, 5, 5)]


def test_departures_come_in_the_order_of_schedule_whatever_the_order_of_arrival(one):
    one.process_elements([(flight(number=3), MORNING + HOUR), (flight(number=1), MORNING - HOUR)])
    one.process_element(flight(number=2, arr_delay=-20), MORNING)

    one.process_watermark(MORNING + HOUR)

    assert [(row[3], row[6], row[8]) for row in one.output()] == [(1, 1, 5), (2, 2, -15), (3, 3, -10)]


def test_ties_come_in_the_order_of_carrier_and_flight(one):
    one.process_elements([(flight(number=9), MORNING), (flight(number=8), MORNING)])
    one.process_element(flight(number=10, carrier="AA"), MORNING)

    one.process_watermark(MORNING)

    assert [(row[2], row[3], row[6]) for row in one.output()] == [("AA", 10, 1), ("UA", 8, 2), ("UA", 9, 3)]


def test_a_missing_arrival_delay_counts_as_zero(one):
    one.process_element(flight(arr_delay=None), MORNING)
    one.process_watermark(MORNING)

    assert one.output()[0][-2:] == (0, 0)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (flight(dep_time=None), "cancelled"),
        (flight(tailnum=None), "no tail number"),
        (flight(tailnum=None, dep_time=None), "no tail number"),
    ],
)
def test_what_is_no_departure_is_skipped_at_once_and_leaves_no_state(one, row, reason):
    one.process_element(row, MORNING)

    assert one.side_output(job.SKIPPED) == [(reason, at(MORNING), "UA", 1, "JFK", "LAX")]
    assert one.num_event_timers() == 0
    assert one.state("waiting", row["tailnum"]) in (None, {})


def test_an_aircraft_without_a_further_departure_is_grounded_once(one):
    one.process_element(flight(), MORNING)
    one.process_watermark(MORNING + 24 * HOUR - 1)
    assert one.side_output(job.GROUNDED) == []

    one.process_watermark(MORNING + 24 * HOUR)
    one.process_watermark(MORNING + 99 * HOUR)

    assert one.side_output(job.GROUNDED) == [("N1", at(MORNING), at(MORNING + 24 * HOUR), 1, 5)]
    assert one.num_event_timers() == 0


def test_a_departure_at_the_very_last_instant_prevents_it(one):
    one.process_element(flight(number=1), MORNING)
    one.process_element(flight(number=2), MORNING + 24 * HOUR)

    one.process_watermark(MORNING + 24 * HOUR)

    assert one.side_output(job.GROUNDED) == []
    assert [row[3] for row in one.output()] == [1, 2]
    assert [timer.timestamp for timer in one.event_timers("N1")] == [MORNING + 48 * HOUR]


def test_the_alarm_of_an_earlier_departure_does_not_take_a_waiting_one_with_it(one):
    one.process_element(flight(number=1), MORNING)
    one.process_element(flight(number=3), MORNING + 24 * HOUR)
    one.process_element(flight(number=2), MORNING + HOUR)

    one.process_watermark(MORNING + HOUR)
    one.process_watermark(MORNING + 24 * HOUR)

    assert [row[3] for row in one.output()] == [1, 2, 3]
    assert one.side_output(job.GROUNDED) == []


def test_each_aircraft_has_one_alarm_however_often_it_departs(one):
    for number in range(20):
        one.process_element(flight(number=number), MORNING + number * HOUR)
    one.process_watermark(MORNING + 20 * HOUR)

    assert one.num_event_timers() == 1
    assert one.state("rotation", "N1") == (MORNING + 19 * HOUR, 20, 100)


def test_the_end_of_the_input_counts_as_no_further_departure(one):
    one.process_element(flight(), MORNING)

    one.process_watermark(MAX_WATERMARK)

    assert len(one.output()) == len(one.side_output(job.GROUNDED)) == 1


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The first days of the real input in disorder, and what must come out."""
    flights = prepare.in_disorder(prepare.read_flights(4_000))
    files = prepare.write_files(flights, tmp_path_factory.mktemp("input"), 1)
    rows = oracle.pq.read_table(files[0]).to_pylist()
    stamps = [int((row["time_hour"] + timedelta(minutes=row["minute"])).timestamp() * 1000) for row in rows]
    return list(zip(rows, stamps, strict=True)), oracle.expected(files, 24)


def push(to, rows, chance, newest=0):
    """Push rows in epochs of random length, the watermark an hour behind the newest row, as in the job."""
    position = 0
    while position < len(rows):
        epoch = rows[position : position + chance.randint(1, 400)]
        to.process_elements(epoch)
        newest = max(newest, *(stamp for _, stamp in epoch))
        to.process_watermark(newest - ALLOWED_DELAY_MS - 1)
        position += len(epoch)
    return newest


def outputs(of):
    return {
        "departures": Counter(of.output()),
        "grounded": Counter(of.side_output(job.GROUNDED)),
        "skipped": Counter(of.side_output(job.SKIPPED)),
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_real_rows_give_the_batch_result_however_they_are_cut_into_epochs(real, seed):
    rows, expected = real
    with harness() as started:
        push(started, rows, random.Random(seed))
        started.process_watermark(MAX_WATERMARK)

        assert outputs(started) == expected
    assert all(records.total() > 15 for records in expected.values())


def test_a_snapshot_half_way_goes_on_in_the_other_backend(real):
    rows, expected = real
    chance = random.Random(5)
    with harness() as before, harness(backend="rocksdb") as after:
        newest = push(before, rows[:2_000], chance)
        after.restore(before.snapshot())
        push(after, rows[2_000:], chance, newest)
        after.process_watermark(MAX_WATERMARK)

        first, second = outputs(before), outputs(after)
    assert {output: first[output] + second[output] for output in expected} == expected
    assert first["departures"].total() > 1_500


def test_a_timer_that_is_dropped_is_found_by_the_comparison(real):
    rows, expected = real

    class Forgetful(job.Rotations):
        def on_timer(self, timestamp, ctx):
            if (ctx.get_current_key(), timestamp) != forgotten:
                yield from super().on_timer(timestamp, ctx)

    forgotten = next((row["tailnum"], stamp) for row, stamp in rows if row["tailnum"] and row["dep_time"])
    with KeyedProcessHarness(Forgetful(24), key=lambda row: row.tailnum, key_type=Types.STRING()) as started:
        push(started, rows, random.Random(1))
        started.process_watermark(MAX_WATERMARK)

        difference = oracle.compare(expected["departures"], outputs(started)["departures"])
    assert not difference.equal
    assert {record[0] for record in difference.missing} == {forgotten[0]}


def test_rows_that_are_fed_twice_are_found_by_the_comparison(real):
    rows, expected = real
    with harness() as started:
        push(started, [*rows[:300], *rows[200:]], random.Random(1))
        started.process_watermark(MAX_WATERMARK)

        difference = oracle.compare(expected["departures"], outputs(started)["departures"])
    assert difference.found > difference.expected
    assert not difference.equal
