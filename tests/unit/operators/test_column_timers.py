"""Timers of functions on batches fire as those of a function per record do, in parts and sets of any size. Those of
whole-number keys are columns, those of text keys objects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import timer_chunks

from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import KeyedProcessFunction
from sparkstate.operators.batches import columns_by_key, due_columns, timer_sets
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

LAST = 60
"""Timers register others up to this time."""


class PerRecord(KeyedProcessFunction):
    """A row registers a timer, or deletes it. A timer registers others, at its own time, later and earlier."""

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        if value.registers:
            service.register_event_time_timer(value.time)
        else:
            service.delete_event_time_timer(value.time)

    def on_timer(self, timestamp, ctx):
        service = ctx.timer_service()
        yield ctx.get_current_key(), timestamp
        if timestamp % 2 and timestamp < LAST:
            service.register_event_time_timer(timestamp + 3)
            service.delete_event_time_timer(timestamp + 2)
        if timestamp % 5 == 0 and timestamp < LAST:
            service.register_event_time_timer(timestamp - 1)
        if timestamp % 7 == 0 and timestamp < LAST:
            service.register_event_time_timer(timestamp + 40)
            service.delete_event_time_timer(timestamp + 40)


class PerBatch(KeyedBatchFunction):
    """The same. ``sets`` are the sizes of its calls; one list in all, since the harness runs copies."""

    sets: list[int] = []  # noqa: RUF012

    def process_batch(self, batch, keys, ctx):
        service = ctx.timer_service()
        for row in range(batch.num_rows):
            mask = pa.array([place == keys.codes[row] for place in range(keys.count)], pa.bool_())
            stamps = pa.array([batch["time"][row].as_py()] * keys.count, pa.int64())
            if batch["registers"][row].as_py():
                service.register_event_time_timers(keys, stamps, mask=mask)
            else:
                service.delete_event_time_timers(keys, stamps, mask=mask)

    def on_timers(self, timestamps, keys, ctx):
        self.sets.append(len(timestamps))
        assert len(set(keys.values.to_pylist())) == len(timestamps)
        yield pa.record_batch({"k": keys.values, "time": timestamps})
        service, times = ctx.timer_service(), timestamps.to_pylist()
        odd, five, seven = (
            pa.array([time % by == rest and time < LAST for time in times])
            for by, rest in ((2, 1), (5, 0), (7, 0))
        )
        service.register_event_time_timers(keys, pc.add(timestamps, 3), mask=odd)
        service.delete_event_time_timers(keys, pc.add(timestamps, 2), mask=odd)
        service.register_event_time_timers(keys, pc.subtract(timestamps, 1), mask=five)
        service.register_event_time_timers(keys, pc.add(timestamps, 40), mask=seven)
        service.delete_event_time_timers(keys, pc.add(timestamps, 40), mask=seven)


class ByKey(PerBatch):
    """The same, in order of time for each key alone."""

    is_ordered_across_keys = False


def harness(function: Any, backend: str, key_type: Any = None) -> KeyedProcessHarness:
    key_type = Types.LONG() if key_type is None else key_type
    return KeyedProcessHarness(
        function, key=lambda row: row.k, key_type=key_type, backend=backend, sort_by_event_time=False
    )


KEYS = (3, 0, -(2**63), 2**63 - 1, None)
TEXTS = ("c", "", "a\x00", "z", None)
ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(-20, 50), st.booleans()), max_size=14)


@settings(max_examples=tried(30), deadline=None)
@given(
    epochs=st.lists(st.tuples(ROWS, st.integers(-20, 60)), max_size=6),
    backend=st.sampled_from(["hashmap", "hashmap", "rocksdb"]),
    at_once=st.sampled_from([1, 2, 3, 8192]),
    keys=st.sampled_from([1, 3, 4, 5]),
    function=st.sampled_from([PerBatch, ByKey]),
    stretch=st.sampled_from([1, 2, 8]),
    is_text=st.booleans(),
)
def test_they_fire_as_those_of_a_function_per_record(
    epochs, backend, at_once, keys, function, stretch, is_text
):
    every, key_type = (TEXTS, Types.STRING()) if is_text else (KEYS, Types.LONG())
    with (
        pytest.MonkeyPatch.context() as patch,
        harness(PerRecord(), "hashmap", key_type) as one,
        harness(function(), backend, key_type) as other,
    ):
        timer_chunks.patch_batches(patch, at_once)
        for module in (due_columns, columns_by_key):
            patch.setattr(module, "FEWEST", 1)
        for module in (columns_by_key, timer_sets):
            patch.setattr(module, "_STRETCH", stretch)
        for rows, watermark in [*epochs, ([], 200)]:
            for each in (one, other):
                pushed = [{"k": every[key % keys], "time": time, "registers": on} for key, time, on in rows]
                each.process_elements([(row, None) for row in pushed], watermark)
            for key in every:
                assert fired(one, key) == fired(other, key)
                assert one.event_timers(key) == other.event_timers(key)
        assert other.num_event_timers() == 0


def fired(opened: KeyedProcessHarness, key: Any) -> list[int]:
    return [time for of, time in map(tuple, opened.output()) if of == key]


class Bulk(PerBatch):
    """The rows of a batch are all of one time, and register timers for it."""

    def process_batch(self, batch, keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, keys.max("time"))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_many_fire_in_few_calls(backend):
    with harness(Bulk(), backend) as opened:
        for time, count in ((10, 9000), (12, 10_000)):
            opened.process_elements([({"k": key, "time": time}, None) for key in range(count)])
        Bulk.sets.clear()
        opened.process_watermark(12)
        found: dict[int, list[int]] = {}
        for key, time in map(tuple, opened.output()):
            found.setdefault(key, []).append(time)
        # A timer at 10 registers one at 9, which is due at once.
        assert found == {key: [10, 9, 12] if key < 9000 else [12] for key in range(10_000)}
        assert len(Bulk.sets) < 12
        assert opened.num_event_timers() == 0


@pytest.mark.parametrize("key_type", [Types.LONG(), Types.STRING()], ids=["columns", "objects"])
@pytest.mark.parametrize(("function", "most_calls"), [(ByKey, 12), (PerBatch, 10**9)])
def test_by_key_many_timers_of_each_key_fire_in_few_calls(function, most_calls, key_type):
    """Each key has seven timers, and no two keys have them at the same times."""
    count = 150
    times = range(LAST, LAST + 7 * count, count)
    with harness(function(), "hashmap", key_type) as opened:
        for time in times:
            rows = [
                {"k": key if key_type == Types.LONG() else f"{key}", "time": time + key, "registers": True}
                for key in range(count)
            ]
            opened.process_elements([(row, None) for row in rows])
        PerBatch.sets.clear()
        opened.process_watermark(LAST + 7 * count)
        assert sum(PerBatch.sets) == 7 * count
        assert 7 <= len(PerBatch.sets) <= most_calls
        found: dict[Any, list[int]] = {}
        for key, time in map(tuple, opened.output()):
            found.setdefault(key, []).append(time)
        assert all(fired == [time + int(key) for time in times] for key, fired in found.items())


def test_by_key_a_key_that_has_nearly_all_timers_holds_up_nobody():
    with harness(ByKey(), "hashmap") as opened, pytest.MonkeyPatch.context() as patch:
        timer_chunks.patch_batches(patch, 16)
        for module in (due_columns, columns_by_key):
            patch.setattr(module, "FEWEST", 4)
        for time in range(LAST, LAST + 300):
            opened.process_elements([({"k": 1, "time": time, "registers": True}, None)])
        opened.process_elements(
            [({"k": key, "time": LAST + 9, "registers": True}, None) for key in range(2, 90)]
        )
        opened.process_watermark(LAST + 300)
        assert fired(opened, 1) == list(range(LAST, LAST + 300))
        assert all(fired(opened, key) == [LAST + 9] for key in range(2, 90))
