"""Timers: order, deduplication, deletion, timers that register timers; in both domains and on both
backends."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest

from sparkstate import errors
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, KeyedProcessFunction, TimeDomain
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness


class Timers(KeyedProcessFunction):
    """An element is (key, action on the timer service); each firing is yielded, then reacted to."""

    def __init__(self):
        self.react = None

    def process_element(self, value, ctx):
        value[1](ctx.timer_service())

    def on_timer(self, timestamp, ctx):
        assert ctx.timestamp() == timestamp
        domain = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        yield domain, timestamp, ctx.get_current_key(), ctx.namespace()
        if self.react is not None:
            self.react(timestamp, ctx.timer_service())


@pytest.fixture
def function():
    return Timers()


@pytest.fixture(params=["hashmap", "rocksdb"])
def harness(request, function):
    if request.param == "rocksdb":
        pytest.importorskip("rocksdict")
    with KeyedProcessHarness(
        function, key=lambda row: row[0], key_type=Types.STRING(), backend=request.param, processing_time=1000
    ) as made:
        yield made


def fired(harness):
    found = harness.output()
    harness.clear_output()
    return found


def register(*stamps, namespace=None):
    return lambda service: [service.register_event_time_timer(stamp, namespace) for stamp in stamps]


def test_due_timers_fire_in_order_of_time_across_keys_and_epochs(harness):
    harness.process_element(("b", register(30, 10)))
    harness.process_element(("a", register(20, 40)))
    harness.process_watermark(30)
    assert fired(harness) == [("event", 10, "b", None), ("event", 20, "a", None), ("event", 30, "b", None)]
    harness.process_watermark(39)
    assert fired(harness) == []
    harness.process_watermark(40)
    assert fired(harness) == [("event", 40, "a", None)]
    assert harness.num_event_timers() == 0


def test_a_timer_registered_again_fires_once(harness):
    harness.process_element(("a", register(10, 10)))
    harness.process_element(("a", register(10)))
    assert harness.num_event_timers() == 1
    harness.process_watermark(10)
    assert fired(harness) == [("event", 10, "a", None)]


def test_a_timer_registered_again_in_the_epoch_in_which_it_is_due_fires_once(harness):
    harness.process_element(("a", register(10)))
    harness.process_elements([(("a", register(10)), None)], watermark=10)
    assert fired(harness) == [("event", 10, "a", None)]
    assert harness.num_event_timers() == 0


def test_namespaces_have_timers_of_their_own(harness):
    harness.process_element(("a", register(10)))
    harness.process_element(("a", register(10, namespace=("w", 1))))
    harness.process_watermark(10)
    assert sorted(fired(harness), key=repr) == [("event", 10, "a", ("w", 1)), ("event", 10, "a", None)]


@pytest.mark.parametrize(
    "namespace",
    [
        datetime.date(2026, 1, 1),
        2**63,
        math.nan,
        frozenset(),
        ("w", []),
        [1],
        np.int64(5),
        ("w", np.int64(1)),
    ],
    ids=repr,
)
def test_a_namespace_that_cannot_be_stored_is_refused_with_its_record(harness, namespace):
    def delete(service):
        service.delete_processing_time_timer(10, namespace)

    def equal_ones_first(service):
        for good in (5, ("w", 1), (("w", 1),)):
            service.register_event_time_timer(10, good)

    for use in (register(10, namespace=namespace), register(10, namespace=(namespace,)), delete):
        with pytest.raises(errors.UserCodeError, match=r"cannot be a namespace"):
            harness.process_element(("a", lambda service, use=use: (equal_ones_first(service), use(service))))
    harness.process_element(("a", equal_ones_first))
    harness.process_watermark(10)
    assert [told[3] for told in fired(harness)] == [5, ("w", 1), (("w", 1),)]


def test_a_deleted_timer_does_not_fire(harness):
    harness.process_element(("a", register(10, 20)))
    harness.process_element(("a", lambda service: service.delete_event_time_timer(10)))
    harness.process_element(("b", lambda service: service.delete_event_time_timer(20)))
    harness.process_watermark(50)
    assert fired(harness) == [("event", 20, "a", None)]


def test_a_timer_deleted_by_one_that_fires_before_it_does_not_fire(harness, function):
    function.react = lambda stamp, service: service.delete_event_time_timer(20)
    harness.process_element(("a", register(10, 20)))
    harness.process_watermark(50)
    assert fired(harness) == [("event", 10, "a", None)]
    assert harness.num_event_timers() == 0


def test_a_due_timer_registered_while_others_fire_takes_its_place_among_them(harness, function):
    function.react = lambda stamp, service: stamp == 10 and service.register_event_time_timer(15)
    harness.process_element(("a", register(10)))
    harness.process_element(("b", register(20)))
    harness.process_watermark(50)
    assert [timer[1:3] for timer in fired(harness)] == [(10, "a"), (15, "a"), (20, "b")]


def test_a_later_timer_registered_while_others_fire_waits(harness, function):
    function.react = lambda stamp, service: service.register_event_time_timer(stamp + 100)
    harness.process_element(("a", register(10)))
    harness.process_watermark(50)
    assert len(fired(harness)) == 1
    assert [timer.timestamp for timer in harness.event_timers("a")] == [110]


def test_a_timer_for_the_past_fires_at_the_next_advance_of_the_watermark(harness):
    harness.process_watermark(100)
    harness.process_element(("a", register(50)))
    harness.process_watermark(100)
    assert fired(harness) == []
    harness.process_watermark(101)
    assert fired(harness) == [("event", 50, "a", None)]


def test_a_timer_for_the_past_waits_through_snapshots(harness):
    harness.process_watermark(100)
    harness.process_element(("a", register(50)))
    harness.restore(harness.snapshot())
    harness.process_element(("b", register(60)))
    assert fired(harness) == []
    harness.process_watermark(101)
    assert fired(harness) == [("event", 50, "a", None), ("event", 60, "b", None)]


def test_processing_time_timers_fire_by_the_wall_clock(harness):
    harness.process_element(("a", lambda service: service.register_processing_time_timer(2000)))
    harness.process_watermark(MAX_WATERMARK)
    assert fired(harness) == []
    harness.set_processing_time(1999)
    assert fired(harness) == []
    harness.set_processing_time(2000)
    assert fired(harness) == [("processing", 2000, "a", None)]
    assert harness.num_processing_timers() == 0


def test_a_processing_time_timer_that_registers_itself_waits_for_the_next_epoch(harness, function):
    function.react = lambda stamp, service: service.register_processing_time_timer(
        service.current_processing_time()
    )
    harness.process_element(("a", lambda service: service.register_processing_time_timer(1500)))
    harness.set_processing_time(2000)
    assert fired(harness) == [("processing", 1500, "a", None)]
    harness.set_processing_time(2001)
    assert fired(harness) == [("processing", 2000, "a", None)]


@pytest.mark.parametrize("react", ["registers", "deletes and registers"])
def test_one_that_was_committed_and_registered_again_waits_as_well(harness, function, react):
    """It lies in two places then: among the committed ones and among those of the epoch."""

    def again(stamp, service):
        if react != "registers":
            service.delete_processing_time_timer(1500)
        service.register_processing_time_timer(1500)

    harness.process_element(("a", lambda service: service.register_processing_time_timer(1500)))
    harness.process_watermark(1)
    harness.process_element(("a", lambda service: service.register_processing_time_timer(1500)))
    function.react = again
    harness.set_processing_time(2000)
    assert fired(harness) == [("processing", 1500, "a", None)]
    harness.set_processing_time(2001)
    assert fired(harness) == [("processing", 1500, "a", None)]
    function.react = None
    harness.set_processing_time(2002)
    assert fired(harness) == [("processing", 1500, "a", None)]
    assert harness.num_processing_timers() == 0


def test_a_due_one_that_is_registered_again_before_it_fires_does_not_wait(harness, function):
    function.react = lambda stamp, service: (
        service.register_processing_time_timer(1600) if stamp == 1500 else None
    )
    for stamp in (1500, 1600):
        harness.process_element(("a", lambda service, at=stamp: service.register_processing_time_timer(at)))
        harness.process_watermark(stamp - 1499)
    harness.set_processing_time(2000)
    assert fired(harness) == [("processing", 1500, "a", None), ("processing", 1600, "a", None)]
    assert harness.num_processing_timers() == 0


def test_one_that_is_deleted_and_registered_again_while_others_fire_waits(harness, function):
    def again(stamp, service):
        if stamp == 1500:
            service.delete_processing_time_timer(1600)
            service.register_processing_time_timer(1600)

    function.react = again
    for stamp in (1500, 1600):
        harness.process_element(("a", lambda service, at=stamp: service.register_processing_time_timer(at)))
    harness.set_processing_time(2000)
    assert fired(harness) == [("processing", 1500, "a", None)]
    harness.set_processing_time(2001)
    assert fired(harness) == [("processing", 1600, "a", None)]


def test_the_domains_do_not_disturb_one_another(harness):
    harness.process_element(("a", register(1500)))
    harness.process_element(("a", lambda service: service.register_processing_time_timer(1500)))
    harness.process_element(("a", lambda service: service.delete_event_time_timer(1500)))
    harness.set_processing_time(1500)
    assert fired(harness) == [("processing", 1500, "a", None)]


def test_an_event_time_timer_registered_by_a_processing_time_timer_fires_when_the_watermark_advances(
    harness, function
):
    function.react = lambda stamp, service: stamp == 1500 and service.register_event_time_timer(5)
    harness.process_watermark(10)
    harness.process_element(("a", lambda service: service.register_processing_time_timer(1500)))
    harness.set_processing_time(1500)
    assert fired(harness) == [("processing", 1500, "a", None)]
    harness.process_watermark(11)
    assert fired(harness) == [("event", 5, "a", None)]


def test_a_processing_time_timer_sees_the_watermark_of_before_and_fires_before_event_time_timers(
    harness, function
):
    seen = []
    function.react = lambda stamp, service: seen.append((stamp, service.current_watermark()))
    harness.process_watermark(10)

    def both(service):
        service.register_processing_time_timer(900)
        service.register_event_time_timer(15)

    harness.process_elements([(("a", both), 12)], watermark=20)
    assert seen == [(900, 10), (15, 20)]
    assert [timer[:2] for timer in fired(harness)] == [("processing", 900), ("event", 15)]


def test_the_end_of_bounded_input_fires_every_event_time_timer(harness):
    harness.process_element(("a", register(MAX_WATERMARK, -(2**63) + 1, 0)))
    assert [timer[1] for timer in fired(harness)] == []
    harness.process_watermark(MAX_WATERMARK)
    assert [timer[1] for timer in fired(harness)] == [-(2**63) + 1, 0, MAX_WATERMARK]


def test_current_watermark_is_the_new_one_while_timers_fire(harness, function):
    seen = []
    function.react = lambda stamp, service: seen.append(service.current_watermark())
    harness.process_element(("a", lambda service: seen.append(service.current_watermark())))
    harness.process_element(("a", register(10)))
    harness.process_watermark(25)
    assert seen == [MIN_WATERMARK, 25]


def test_whole_numbers_of_other_types_are_timestamps(harness):
    harness.process_element(("a", register(np.int64(5), np.int32(7), np.uint8(9))))
    harness.process_element(("a", lambda service: service.delete_event_time_timer(np.int16(7))))
    assert [type(timer.timestamp) for timer in harness.event_timers()] == [int, int]
    harness.process_watermark(100)
    assert [timer[1] for timer in fired(harness)] == [5, 9]


def test_a_timestamp_that_is_no_whole_number_is_refused(harness):
    for stamp in (None, 1.5, 2**63, True, np.bool_(True), np.float64(5), np.uint64(2**63), "5"):
        with pytest.raises(errors.UserCodeError, match="whole milliseconds"):
            harness.process_element(("a", register(stamp)))


def test_more_timers_than_one_chunk_fire_in_order(harness):
    for key in "abc":
        harness.process_element((key, register(*range(1500))))
    harness.process_watermark(5000)
    stamps = [timer[1] for timer in fired(harness)]
    assert len(stamps) == 4500
    assert stamps == sorted(stamps)


def test_timers_survive_a_snapshot_and_a_change_of_backend(harness):
    harness.process_element(("a", register(10, namespace="w")))
    harness.process_element(("b", lambda service: service.register_processing_time_timer(3000)))
    snapshot = harness.snapshot()
    other = "hashmap" if harness._backend == "rocksdb" else "rocksdb"
    with KeyedProcessHarness(
        Timers(), key=lambda row: row[0], key_type=Types.STRING(), backend=other
    ) as restored:
        restored.restore(snapshot)
        restored.process_watermark(10)
        restored.set_processing_time(3000)
        assert fired(restored) == [("event", 10, "a", "w"), ("processing", 3000, "b", None)]


@pytest.mark.parametrize("domain", ["event", "processing"])
def test_timers_of_another_type_of_keys_are_refused_before_the_first_row(harness, function, domain):
    harness.process_element(("a", lambda timers: getattr(timers, f"register_{domain}_time_timer")(2000)))
    with KeyedProcessHarness(
        Timers(), key=lambda row: row[0], key_type=Types.LONG(), backend=harness._backend
    ) as other:
        told = "key type was STRING when it was stored and is now LONG; key the stream as it was, or give the operator"
        with pytest.raises(errors.StateMigrationError, match=told):
            other.restore(harness.snapshot())
