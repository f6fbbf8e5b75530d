"""State that expires, as a function sees it: update types, visibility, both times, namespaces, rejected records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.backends.own_backends import MemoryBackend
from support.expiring.scripted import Driven, Scripted, done, ttl

from sparkstate import TimeDomain, Types
from sparkstate.functions import MAX_WATERMARK
from sparkstate.testing import KeyedProcessHarness

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb", MemoryBackend])


@pytest.fixture
def drive():
    made = []

    def make(*args, **kwargs):
        made.append(Driven(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.harness.close()


@BACKENDS
def test_a_value_lives_for_its_time_after_it_was_written(drive, backend):
    driven = drive(ttl().build(), backend)
    driven.do(lambda f, ctx: f.value.update(1))
    driven.at(99)
    assert driven.do(lambda f, ctx: f.value.value()) == 1  # a read does not let it live on
    driven.at(100)
    assert driven.do(lambda f, ctx: f.value.value()) is None
    assert driven.harness.state("value", "k") is None


@BACKENDS
def test_a_read_lets_a_value_live_on_where_reading_counts(drive, backend):
    driven = drive(ttl().update_ttl_on_read_and_write().build(), backend)
    driven.do(lambda f, ctx: done(f.value.update(1), f.list.add_all([1, 2]), f.map.put("a", 1)))
    for time in (90, 180, 270):
        driven.at(time)
        assert driven.do(lambda f, ctx: (f.value.value(), list(f.list), f.map.get("a"))) == (1, [1, 2], 1)
    driven.at(370)
    assert driven.do(lambda f, ctx: (f.value.value(), list(f.list), f.map.get("a"))) == (None, [], None)


@BACKENDS
def test_elements_and_entries_expire_one_by_one(drive, backend):
    driven = drive(ttl().build(), backend)
    for time in (0, 50, 90):
        driven.at(time)
        driven.do(lambda f, ctx, time=time: done(f.list.add(time), f.map.put(str(time), time)))
    driven.at(120)
    assert driven.do(lambda f, ctx: (list(f.list), dict(f.map.items()))) == ([50, 90], {"50": 50, "90": 90})
    assert driven.do(lambda f, ctx: (f.map.contains("0"), f.map.contains("50"))) == (False, True)
    driven.at(160)
    assert driven.do(lambda f, ctx: (list(f.list), list(f.map.keys()), f.map.is_empty())) == (
        [90],
        ["90"],
        False,
    )
    assert driven.harness.state("list", "k") == [90]
    assert driven.harness.state("map", "k") == {"90": 90}
    driven.at(190)
    assert driven.do(lambda f, ctx: (list(f.list), f.map.is_empty())) == ([], True)


@BACKENDS
def test_folded_state_begins_anew_after_it_has_expired(drive, backend):
    driven = drive(ttl().build(), backend)

    def add(f, ctx):
        f.sum.add(4)
        f.mean.add(4)
        return f.sum.get(), f.mean.get()

    assert driven.do(add) == (4, 4.0)
    driven.at(60)
    assert driven.do(add) == (8, 4.0)
    driven.at(159)  # written at 60
    assert driven.do(lambda f, ctx: (f.sum.get(), f.mean.get())) == (8, 4.0)
    driven.at(160)
    assert driven.do(add) == (4, 4.0)


def test_an_expired_value_may_be_shown_once_where_it_was_asked_for(drive):
    config = ttl().return_expired_if_not_cleaned_up().disable_cleanup_in_background().build()
    driven = drive(config)
    driven.do(lambda f, ctx: done(f.value.update(1), f.list.add(1), f.map.put("a", 1)))
    driven.at(500)
    assert driven.do(lambda f, ctx: (f.value.value(), list(f.list), f.map.get("a"))) == (1, [1], 1)
    assert driven.do(lambda f, ctx: (f.value.value(), f.map.get("a"))) == (None, None)


def test_without_cleanup_expired_entries_stay_until_they_are_read(drive):
    driven = drive(ttl().disable_cleanup_in_background().build())
    driven.do(lambda f, ctx: f.value.update(1))
    for time in range(200, 2000, 100):
        driven.at(time)
    stores = driven.harness._stores.values()
    assert sum(store.stats().rows for store in stores) == 1
    driven.do(lambda f, ctx: f.value.value())
    assert sum(store.stats().rows for store in stores) == 0


@BACKENDS
def test_with_cleanup_expired_entries_leave_though_nobody_reads_them(drive, backend):
    driven = drive(ttl().build(), backend)
    driven.do(lambda f, ctx: done(f.value.update(1), f.list.add(1), f.map.put("a", 1), f.sum.add(1)))
    stores = driven.harness._stores.values()
    assert sum(store.stats().rows for store in stores) == 4
    driven.at(100)
    driven.at(150)
    assert sum(store.stats().rows for store in stores) == 0


def test_an_explicit_cleanup_looks_at_so_many_entries_for_each_key(drive):
    driven = drive(ttl().cleanup_incrementally(2, False).build(), shards=1, max_parallelism=1)
    for number in range(10):
        driven.do(lambda f, ctx: f.value.update(1), key=str(number))
    driven.at(1000)  # an epoch without rows looks at nothing
    [store] = driven.harness._stores.values()
    rows = [store.stats().rows]
    for number in range(5):
        driven.do(lambda f, ctx: None, key=f"other {number}")
        rows.append(store.stats().rows)
    assert rows == [10, 8, 6, 4, 2, 0]


def test_a_namespace_expires_by_itself(drive):
    driven = drive(ttl().build())

    def write(f, ctx):
        f.value.set_current_namespace("n")
        f.value.update(7)

    def read(f, ctx):
        plain = f.value.value()
        f.value.set_current_namespace("n")
        return plain, f.value.value()

    driven.do(lambda f, ctx: f.value.update(1))
    driven.at(50)
    driven.do(write)
    assert driven.do(read) == (1, 7)
    driven.at(100)
    assert driven.do(read) == (None, 7)
    driven.at(150)
    assert driven.do(read) == (None, None)


def test_a_rejected_record_undoes_its_reads_too():
    class Failing(Scripted):
        def process_element(self, value, ctx):
            found = self.value.value(), list(self.list), dict(self.map.items())
            if value["do"] == "fail":
                raise ValueError("rejected")
            if value["do"] == "write":
                self.value.update(1)
                self.list.add_all([1, 2])
                self.map.put("a", 1)
            yield found

    config = ttl().update_ttl_on_read_and_write().build()
    with KeyedProcessHarness(
        Failing(config), key=lambda row: row["key"], key_type=Types.STRING(), on_error="side-output"
    ) as harness:
        harness.process_element({"key": "k", "do": "write"})
        harness.set_processing_time(90)
        harness.process_element({"key": "k", "do": "fail"})
        harness.set_processing_time(110)
        harness.process_element({"key": "k", "do": "look"})
        assert harness.output() == [(None, [], {}), (None, [], {})]


# --- event time


def test_in_event_time_a_row_is_judged_by_the_watermark_and_stamped_by_its_own_time(drive):
    driven = drive(ttl().use_event_time().build())
    driven.do(lambda f, ctx: f.value.update(1), timestamp=40)
    driven.at(10_000)  # wall time does not count
    driven.harness.process_watermark(139)
    assert driven.do(lambda f, ctx: f.value.value(), timestamp=1000) == 1
    driven.harness.process_watermark(140)
    assert driven.do(lambda f, ctx: f.value.value(), timestamp=1000) is None
    driven.do(lambda f, ctx: f.value.update(2), timestamp=20)  # late: stamped by the watermark
    driven.harness.process_watermark(239)
    assert driven.do(lambda f, ctx: f.value.value()) == 2


def test_an_event_time_timer_sees_the_state_of_its_own_time(drive):
    driven = drive(ttl().use_event_time().build())

    def arm(f, ctx):
        f.value.update(1)
        for time in (139, 140):
            ctx.timer_service().register_event_time_timer(time)

    driven.do(arm, timestamp=40)
    driven.harness.process_watermark(100_000)
    assert driven.harness.output() == [(TimeDomain.EVENT_TIME, 139, 1), (TimeDomain.EVENT_TIME, 140, None)]


def test_an_event_time_timer_for_the_past_does_not_see_what_had_expired_before_its_epoch(drive):
    driven = drive(ttl().use_event_time().build())

    def arm(f, ctx):
        ctx.timer_service().register_event_time_timer(50)

    driven.do(lambda f, ctx: f.value.update(1), timestamp=40)
    driven.harness.process_watermark(140)
    driven.do(arm, timestamp=141)
    driven.harness.process_watermark(141)
    assert driven.harness.output() == [(TimeDomain.EVENT_TIME, 50, None)]


def test_a_processing_time_timer_judges_event_time_by_the_watermark(drive):
    driven = drive(ttl().use_event_time().build())

    def arm(f, ctx):
        f.value.update(1)
        ctx.timer_service().register_processing_time_timer(5_000)

    driven.do(arm, timestamp=40)
    driven.at(5_000)
    assert driven.harness.output() == [(TimeDomain.PROCESSING_TIME, 5_000, 1)]


def test_the_end_of_the_input_lets_nothing_expire(drive):
    driven = drive(ttl().use_event_time().build())

    def arm(f, ctx):
        f.value.update(1)
        ctx.timer_service().register_event_time_timer(2**63 - 1)

    driven.do(arm, timestamp=40)
    driven.harness.end_input()
    assert driven.harness.output() == [(TimeDomain.EVENT_TIME, 2**63 - 1, 1)]
    assert driven.harness.state("value", "k") == 1


@BACKENDS
def test_a_value_that_a_timer_writes_at_the_end_of_the_input_expires_when_the_job_goes_on(drive, backend):
    driven = drive(ttl().use_event_time().build(), backend)
    driven.harness.process_watermark(1_000)

    def at_the_end(timestamp, ctx):
        function = driven.harness._spec.function
        function.value.update(2)
        function.list.add(3)
        function.map.put("a", 4)

    driven.harness._spec.function.on_timer = at_the_end
    driven.do(lambda f, ctx: ctx.timer_service().register_event_time_timer(MAX_WATERMARK), timestamp=1_001)
    driven.harness.end_input()
    driven.harness.restore(replace(driven.harness.snapshot(), watermark=1_000))  # as a job goes on

    def read(f, ctx):
        return f.value.value(), list(f.list.get()), f.map.get("a")

    driven.harness.process_watermark(1_099)
    assert driven.do(read) == (2, [3], 4)
    driven.harness.process_watermark(1_100)
    assert driven.do(read) == (None, [], None)


def test_a_value_written_at_no_known_time_lives_until_it_is_written_at_one(drive):
    driven = drive(ttl().use_event_time().build())
    driven.do(lambda f, ctx: f.value.update(1))
    driven.harness.process_watermark(1_000_000)
    assert driven.do(lambda f, ctx: f.value.value()) == 1
    driven.do(lambda f, ctx: f.value.update(2))
    driven.harness.process_watermark(1_000_100)
    assert driven.do(lambda f, ctx: f.value.value()) is None
