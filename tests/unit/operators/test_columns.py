"""Whole-number keys: a function on batches, which has its value states in columns, and one called per record are a
dict per state, on both backends, even when overlays go to disk at every occasion."""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import driven as ops
from support.operators.spilling import Side

from sparkstate import columns
from sparkstate.backends.long_index import LongIndex
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.state.known_keys import ListedLongKeys, LongKeys, ObjectKeys
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor

KEYS = [None, 0, -1, 5, 2**63 - 1, -(2**63)]
SPACES = (None, "n")
OUTPUT = pa.schema([("user", pa.int64()), ("amount", pa.int64())])


class Declared:
    """The states of both functions."""

    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.half = ctx.get_state(ValueStateDescriptor("half", Types.DOUBLE()))
        self.even = ctx.get_state(ValueStateDescriptor("even", Types.BOOLEAN()))
        self.least = ctx.get_reducing_state(ReducingStateDescriptor("least", min, Types.LONG()))


class Columns(Declared, KeyedBatchFunction):
    """Sums; forgets the keys whose last amount is 0; halves in another type; and keeps the last in a namespace."""

    def process_batch(self, batch, keys, ctx):
        before, last = self.total.get(keys, default=0), keys.last("amount")
        total = pc.add(before, keys.sum("amount"))
        self.total.update(keys, total)
        self.half.update(keys, pc.divide(last.cast(pa.float64()), 2.0), mask=pc.greater(last, 0))
        self.even.update(keys, pc.equal(pc.bit_wise_and(last, 1), 0))
        self.least.add(keys, "amount")
        self.total.set_current_namespace("n")
        self.total.update(keys, last)
        self.total.set_current_namespace(None)
        gone = pc.equal(last, 0)
        self.total.clear(keys, mask=gone)
        self.even.update(keys, pa.nulls(keys.count, pa.bool_()), mask=gone)
        yield pa.record_batch({"user": keys.values, "amount": total})


class Records(Declared, KeyedProcessFunction):
    """The same for each record."""

    def process_element(self, value, ctx):
        assert ctx.get_current_key() == value.user
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        if value.amount > 0:
            self.half.update(value.amount / 2)
        self.even.update(value.amount % 2 == 0)
        self.least.add(value.amount)
        self.total.set_current_namespace("n")
        self.total.update(value.amount)
        self.total.set_current_namespace(None)
        if value.amount == 0:
            self.total.clear()
            self.even.clear()
        yield value.user, total


def one_by_one(state: dict[Any, Any], rows: list[tuple[Any, int]]) -> None:
    """The model for a function that is called for each row."""
    for row in rows:
        model(state, [row])


def model(state: dict[Any, Any], rows: list[tuple[Any, int]]) -> None:
    """The same in a dict, for the rows of one batch."""
    for key in dict.fromkeys(key for key, _ in rows):
        amounts = [amount for other, amount in rows if other == key]
        last = amounts[-1]
        total = state.get(("total", key, None), 0) + sum(amounts)
        state["total", key, None], state["total", key, "n"] = total, last
        state["even", key, None] = last % 2 == 0
        state["least", key, None] = min([*amounts, state.get(("least", key, None), amounts[0])])
        if last > 0:
            state["half", key, None] = last / 2
        if last == 0:
            del state["total", key, None], state["even", key, None]


def a_batch(rows: list[tuple[Any, int]]) -> pa.RecordBatch:
    keys, amounts = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "user": pa.array(keys, pa.int64()),
            "amount": pa.array(amounts, pa.int64()),
            columns.TIMESTAMP: pa.array(amounts, pa.int64()),
            columns.KEY_GROUP: pa.array(map(ops.key_group, keys), pa.int32()),
        }
    )


rows = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-3, 9)), min_size=1, max_size=8)
epochs = st.lists(st.tuples(st.lists(rows, max_size=4), st.booleans()), min_size=1, max_size=4)


@pytest.mark.parametrize("limit", [None, 1], ids=["hashmap", "rocksdb, on disk"])
@pytest.mark.parametrize(("function", "expect"), [(Columns, model), (Records, one_by_one)])
@settings(max_examples=tried(25), deadline=None)
@given(life=epochs)
def test_columns_are_a_dict(function, expect, limit, life):
    with tempfile.TemporaryDirectory() as folder:
        side = Side(Path(folder), limit, function(), key_type=Types.LONG(), output_schema=OUTPUT)
        state: dict[Any, Any] = {}
        for number, (batches, committed) in enumerate(life):
            overlay, after = side.operator.begin(number, MIN_WATERMARK, 0), dict(state)
            for batch in batches:
                side.operator.process_batch(overlay, a_batch(batch))
                expect(after, batch)
            side.operator.finish(overlay, MIN_WATERMARK)
            if committed:
                commit_overlays([(side.operator, overlay)])
                state = after
            overlay.close()
            names, read = ("total", "half", "even", "least"), side.operator.read_value
            places = [(name, key, space) for name in names for key in KEYS for space in SPACES]
            found = {place: value for place in places if (value := read(*place)) is not None}
            assert found == state
        assert limit is None or side.budget.spilled or not any(batches for batches, _ in life)
        side.close()


class OtherStore:
    """A store of somebody's own, which knows nothing of columns."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.table, self.tables, self.stats = store.table, store.tables, store.stats
        self.key_groups, self.shard, self.close = store.key_groups, store.shard, store.close

    def commit(self, changes: Any, kgs: Any) -> None:
        assert all(change.columns is None for change in changes)
        self._store.commit(changes, kgs)


def test_a_store_that_does_not_take_columns_is_given_single_values():
    stores: dict[int, Any] = {shard: OtherStore(store) for shard, store in ops.make_stores().items()}
    operator = ops.make_operator(Columns(), stores, key_type=Types.LONG(), output_schema=OUTPUT)
    state: dict[Any, Any] = {}
    batch = [(key, amount) for amount in (3, 8) for key in KEYS]
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    operator.process_batch(overlay, a_batch(batch))
    operator.finish(overlay, MIN_WATERMARK)
    commit_overlays([(operator, overlay)])
    model(state, batch)
    assert {place: operator.read_value(*place) for place in state} == state


@pytest.mark.parametrize("kind", [LongKeys, ListedLongKeys])
@given(batches=st.lists(st.lists(st.sampled_from(KEYS), max_size=8), max_size=6))
def test_keys_in_an_array_are_known_as_objects_are(kind, batches):
    objects, longs = ObjectKeys(), kind()
    for keys in batches:
        groups = list(map(ops.key_group, keys))
        one, other = objects.add(keys, groups), longs.add(keys, groups)
        assert [objects.keys[number] for number in one] == [longs.keys[number] for number in other] == keys
        assert [objects.kgs[number] for number in one] == [longs.kgs[number] for number in other] == groups
        assert [longs.number_of(key) for key in keys] == longs.numbers_of(keys).tolist() == other
        assert objects.numbers_of(keys).tolist() == one
    known = [key for key in longs.keys if key is not None]
    assert known == [key for key in objects.keys if key is not None]
    assert longs.has_null == (None in objects.keys)
    assert len(longs) == len(known) + 1
    numbers = np.array([longs.number_of(key) for key in known], np.int64)
    assert longs.long_array(numbers).tolist() == known
    assert longs.long_array(np.array([0])) is None


def test_an_overlay_that_is_given_up_frees_its_keys_at_once():
    operator = ops.make_operator(Columns(), key_type=Types.LONG(), output_schema=OUTPUT)
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    operator.process_batch(overlay, a_batch([(5, 1)]))
    keys = weakref.ref(overlay.known)
    operator.close()  # its handles let go
    gc.disable()
    try:
        del overlay
        assert keys() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("function", [Columns, Records])
def test_an_overlay_has_room_for_the_keys_of_the_epoch_before(function, monkeypatch):
    operator = ops.make_operator(function(), key_type=Types.LONG(), output_schema=OUTPUT)
    batches = [a_batch([(key, 1) for key in range(start, start + 500)]) for start in range(0, 2000, 500)]
    sizes, clear = [], LongIndex._clear
    for epoch in range(2):
        overlay = operator.begin(epoch, MIN_WATERMARK, 0)
        with monkeypatch.context() as patched:
            if epoch:  # the index of the overlay exists
                patched.setattr(LongIndex, "_clear", lambda *args: sizes.append(args) or clear(*args))
            for batch in batches:
                operator.process_batch(overlay, batch)
        operator.finish(overlay, MIN_WATERMARK)
        overlay.close()
    assert sizes == []


class Reminders(KeyedBatchFunction):
    """A timer for each key, which fires in the same epoch."""

    def process_batch(self, batch, keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, np.full(keys.count, 5))
        return ()

    def on_timers(self, timestamps, keys, ctx):
        return ()


class Reminder(KeyedProcessFunction):
    """The same for each record."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


@pytest.mark.parametrize("function", [Reminders, Reminder])
def test_keys_of_timers_are_searched_for_together(function, monkeypatch):
    searches, find = [], LongIndex.find
    monkeypatch.setattr(LongIndex, "find", lambda *args: searches.append(args) or find(*args))
    operator = ops.make_operator(function(), key_type=Types.LONG(), output_schema=OUTPUT)
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    operator.process_batch(overlay, a_batch([(key, 4) for key in range(1000)]))
    operator.finish(overlay, 10)
    commit_overlays([(operator, overlay)])
    assert overlay.timers_fired == 1000
    fired = [key for batch in overlay.output() for key in batch.column("user").to_pylist()]
    assert fired == ([] if function is Reminders else list(range(1000)))
    assert len(searches) < 10


class Sums(KeyedBatchFunction):
    """One state, and no output."""

    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch, keys, ctx):
        self.total.update(keys, keys.sum("amount"))
        return ()


def to_disk(side: Side, overlay: Any) -> None:
    side.budget.move_to_disk(side.operator._tables, overlay)


def to_stores(side: Side, overlay: Any) -> None:
    side.operator.finish(overlay, MIN_WATERMARK)
    commit_overlays([(side.operator, overlay)])


@pytest.mark.parametrize("step", [to_disk, to_stores])
def test_columns_on_their_way_take_no_more_than_the_budget_leaves_for_them(step, tmp_path):
    side = Side(tmp_path, 2**30, Sums(), key_type=Types.LONG(), output_schema=OUTPUT)
    overlay = side.operator.begin(1, MIN_WATERMARK, 0)
    side.operator.process_batch(overlay, a_batch([(key, 4) for key in range(130_000)]))
    tracemalloc.start()
    try:
        step(side, overlay)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        side.close()
    assert most < overlay.weight
