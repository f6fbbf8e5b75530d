"""State that expires in functions on batches: they see what functions on records do, in both times."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from support.expiring.scripted import ttl

from sparkstate import (
    KeyedBatchFunction,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from sparkstate.functions import MAX_WATERMARK
from sparkstate.testing import KeyedProcessHarness

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])


class Batched(KeyedBatchFunction):
    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, ctx):
        def living(descriptor):
            descriptor.enable_time_to_live(self.config)
            return descriptor

        self.value = ctx.get_state(living(ValueStateDescriptor("value", Types.LONG())))
        self.spaced = ctx.get_state(living(ValueStateDescriptor("spaced", Types.LONG())), in_namespaces=True)
        self.list = ctx.get_list_state(living(ListStateDescriptor("list", Types.STRING())))
        self.sum = ctx.get_reducing_state(
            living(ReducingStateDescriptor("sum", lambda one, two: one + two, Types.LONG()))
        )

    def process_batch(self, batch, keys, ctx):
        spaces = pa.array([3] * len(keys))
        before = self.value.get(keys), self.spaced.get(keys, namespaces=spaces), self.list.get(keys)
        self.sum.add(keys, "n")
        if batch["write"][0].as_py():
            latest = keys.last("n")
            self.value.update(keys, latest)
            self.spaced.update(keys, latest, namespaces=spaces)
            self.list.add(keys, pa.array([str(n) for n in batch["n"].to_pylist()]))
        yield pa.table(
            {
                "key": keys.values,
                "value": before[0],
                "spaced": before[1],
                "list": before[2],
                "sum": self.sum.get(keys),
            }
        )


@BACKENDS
@pytest.mark.parametrize("key_type", [Types.LONG(), Types.STRING()], ids=["whole numbers", "text"])
def test_a_function_on_batches_sees_the_same(backend, key_type):
    key = 1 if key_type == Types.LONG() else "k"
    with KeyedProcessHarness(
        Batched(ttl().build()), key=lambda row: row["key"], key_type=key_type, backend=backend
    ) as harness:
        for time, n, write in ((0, 1, True), (50, 2, False), (90, 3, True), (100, 4, False), (190, 5, False)):
            harness.set_processing_time(time)
            harness.process_element({"key": key, "n": n, "write": write})
        found = [
            tuple(row.asDict().values() if hasattr(row, "asDict") else row)[1:] for row in harness.output()
        ]
    assert found == [
        (None, None, [], 1),
        (1, 1, ["1"], 3),
        (1, 1, ["1"], 6),
        (3, 3, ["3"], 10),
        (None, None, [], 15),
    ]


def batched(function, backend="hashmap"):
    return KeyedProcessHarness(
        function, key=lambda row: row["key"], key_type=Types.LONG(), backend=backend, sort_by_event_time=False
    )


def living(harness):
    return (
        harness.state("value", 1), harness.state("spaced", 1, 3), harness.state("list", 1) or [],
        harness.state("sum", 1),
    )  # fmt: skip


@BACKENDS
def test_in_event_time_a_batch_writes_as_its_rows_would_in_their_order(backend):
    with batched(Batched(ttl().use_event_time().build()), backend) as harness:
        rows = [({"key": 1, "n": n, "write": True}, at) for n, at in ((1, 40), (2, 20))]
        rows += [({"key": 2, "n": 3, "write": True}, 60)]
        harness.process_elements(rows, 119)
        assert living(harness) == (2, 2, ["1", "2"], 3)
        harness.process_watermark(120)  # the last row was of 20; each element has the time of its own row
        assert living(harness) == (None, None, ["1"], None)
        harness.process_watermark(140)
        assert living(harness) == (None, None, [], None)
        assert harness.state("value", 2) == 3
        harness.process_element({"key": 1, "n": 4, "write": True}, 30)  # late: stamped by the watermark
        harness.process_watermark(239)
        assert living(harness) == (4, 4, ["4"], 4)
        harness.process_watermark(240)
        assert living(harness) == (None, None, [], None)


@BACKENDS
def test_in_event_time_a_batch_reads_as_its_latest_row(backend):
    config = ttl().use_event_time().update_ttl_on_read_and_write().build()
    with batched(Batched(config), backend) as harness:
        harness.process_elements([({"key": 1, "n": 1, "write": True}, 10)], 20)
        harness.process_elements([({"key": 1, "n": 0, "write": False}, at) for at in (60, None, 30)], 159)
        assert living(harness)[:3] == (1, 1, ["1"])
        harness.process_watermark(160)
        assert living(harness)[:3] == (None, None, [])


class Listed(KeyedBatchFunction):
    """Adds to its list by keys that were sorted, and by some that were selected."""

    def open(self, ctx):
        descriptor = ListStateDescriptor("list", Types.LONG())
        descriptor.enable_time_to_live(ttl().use_event_time().build())
        self.list = ctx.get_list_state(descriptor)

    def process_batch(self, batch, keys, ctx):
        rows, in_order = keys.sort_by("n")
        rows, in_order = in_order.sort_by(pa.array([-n for n in rows["n"].to_pylist()]))
        self.list.add(in_order, rows["n"])
        self.list.add(keys.select([0]), [-1])


def test_in_event_time_a_row_keeps_its_time_where_the_keys_are_sorted_or_selected():
    with batched(Listed()) as harness:
        harness.process_elements([({"key": 1, "n": n}, at) for n, at in ((1, 30), (3, 10), (2, 20))], 109)
        assert harness.state("list", 1) == [3, 2, 1, -1]
        harness.process_watermark(110)
        assert harness.state("list", 1) == [2, 1, -1]
        harness.process_watermark(120)  # the last row was of 20
        assert harness.state("list", 1) == [1]
        harness.process_watermark(130)
        assert not harness.state("list", 1)


class Timed(KeyedBatchFunction):
    """Writes ``n`` where it is not 0, and sets a timer of each domain that a row names."""

    def open(self, ctx):
        descriptor = ValueStateDescriptor("value", Types.LONG())
        descriptor.enable_time_to_live(ttl().use_event_time().build())
        self.value = ctx.get_state(descriptor)

    def process_batch(self, batch, keys, ctx):
        latest = keys.last("n")
        self.value.update(keys, latest, mask=pa.array([n != 0 for n in latest.to_pylist()]))
        ctx.timer_service().register_event_time_timers(keys, keys.last("at"))
        ctx.timer_service().register_processing_time_timers(keys, keys.last("clock"))

    def on_timers(self, timestamps, keys, ctx):
        domain = pa.array([ctx.time_domain().name] * len(keys))
        yield pa.table(
            {"domain": domain, "key": keys.values, "at": timestamps, "value": self.value.get(keys)}
        )


def timed(harness, stamp, n=0, key=1, at=None, clock=None):
    harness.process_element({"key": key, "n": n, "at": at, "clock": clock}, stamp)


@BACKENDS
def test_timers_in_sets_see_the_state_of_their_own_times(backend):
    with batched(Timed(), backend) as harness:
        for stamp, n, key, at in ((40, 5, 1, 139), (40, 0, 1, 140), (30, 6, 2, 129), (30, 0, 2, 139)):
            timed(harness, stamp, n, key, at)
        harness.process_watermark(100_000)
        found = sorted(tuple(row)[1:] for row in harness.output())
        assert found == [(1, 139, 5), (1, 140, None), (2, 129, 6), (2, 139, None)]


def test_timers_in_sets_do_not_see_what_had_expired_before_their_epoch():
    with batched(Timed()) as harness:
        timed(harness, 40, n=5)
        harness.process_watermark(140)
        timed(harness, 141, at=50)
        harness.process_watermark(141)
        assert [tuple(row) for row in harness.output()] == [("EVENT_TIME", 1, 50, None)]


class Rewriting(Timed):
    """Its timers write the value anew."""

    def on_timers(self, timestamps, keys, ctx):
        yield from super().on_timers(timestamps, keys, ctx)
        self.value.update(keys, pa.array([9] * len(keys)))


@BACKENDS
def test_values_that_timers_in_sets_write_at_the_end_of_the_input_expire_when_the_job_goes_on(backend):
    with batched(Rewriting(), backend) as harness:
        harness.process_watermark(1_000)
        for key in (1, 2):
            timed(harness, 1_001, n=5, key=key, at=MAX_WATERMARK)
        harness.end_input()
        assert [row[3] for row in harness.output()] == [5, 5]
        harness.restore(replace(harness.snapshot(), watermark=1_000))  # as a job goes on
        harness.process_watermark(1_099)
        assert harness.state("value", 1) == harness.state("value", 2) == 9
        harness.process_watermark(1_100)
        assert harness.state("value", 1) is harness.state("value", 2) is None


def test_processing_time_timers_in_sets_judge_event_time_by_the_watermark():
    with batched(Timed()) as harness:
        timed(harness, 40, n=5, clock=5_000)
        harness.set_processing_time(5_000)
        assert [tuple(row) for row in harness.output()] == [("PROCESSING_TIME", 1, 5_000, 5)]
