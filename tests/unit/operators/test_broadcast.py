"""An operator of a keyed and a broadcast stream: one order in every slot, state that is the same in all of them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.backends import own_backends
from support.faults import tried
from support.operators import driven as ops
from support.operators.spilling import LIMITS, Side

from sparkstate import columns, errors
from sparkstate.connected_functions import KeyedBroadcastProcessFunction
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.base import Sweep
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing import KeyedBroadcastHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
OTHER = MapStateDescriptor("other", Types.STRING(), Types.STRING())
OUT = pa.schema([("k", pa.string()), ("v", pa.int64()), ("rules", pa.string())])
SHAPE: dict[str, Any] = {
    "row_columns": ("k", "v"),
    "second_columns": ("name", "text"),
    "key_columns": ("key",),
    "output_schema": OUT,
    "states": (RULES,),
}


class Judge(KeyedBroadcastProcessFunction):
    """Tells with each row the history of the rules."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(100)
        yield row.k, row.v, ctx.get_broadcast_state(RULES).get("all")

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put("all", (rules.get("all") or "") + rule.text)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), -self.count.value(), ctx.get_broadcast_state(RULES)["all"]


def make_batch(rows: list[tuple[int, str, Any, int | None]]) -> pa.RecordBatch:
    """Rows (input, key or rule's name, value or text, order) as a task ships them."""

    def column(of_input: int, place: int, kind: pa.DataType) -> pa.Array:
        return pa.array([row[place] if row[0] == of_input else None for row in rows], kind)

    return pa.record_batch(
        {
            columns.of_input(0, "k"): column(0, 1, pa.string()),
            columns.of_input(0, "v"): column(0, 2, pa.int64()),
            columns.of_input(1, "name"): column(1, 1, pa.string()),
            columns.of_input(1, "text"): column(1, 2, pa.string()),
            "key": column(0, 1, pa.string()),
            columns.KEY_GROUP: pa.array([0 if r[0] else ops.key_group(r[1]) for r in rows], pa.int32()),
            columns.TIMESTAMP: pa.array([None if r[0] else r[2] for r in rows], pa.int64()),
            columns.INPUT: pa.array([row[0] for row in rows], pa.int32()),
            columns.ORDER: pa.array([row[3] for row in rows], pa.int64()),
        }
    )


@pytest.mark.parametrize("by_time", [False, True])
@settings(max_examples=tried(20), deadline=None)
@given(
    rules=st.integers(0, 6),
    keyed=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=6),
    seed=st.integers(0, 99),
    cut=st.integers(1, 4),
    limit=LIMITS,
)
def test_rules_come_first_and_in_their_order_however_rows_arrive(
    by_time: bool, rules: int, keyed: list[Any], seed: int, cut: int, limit: int | None
) -> None:
    told = "".join("uvwxyz"[i] for i in range(rules))
    rows: list[Any] = [(0, k, v, 7) for k, v in keyed]
    rows += [(1, "rule", "uvwxyz"[i], (i // 3 << 33) + i) for i in range(rules)]
    random.Random(seed).shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        side = Side(
            Path(folder),
            limit,
            Judge(),
            sort_by_event_time=by_time,
            **SHAPE,  # type: ignore[arg-type]
        )
        operator: Any = side.operator
        overlay = operator.begin(1, MIN_WATERMARK, 0)
        for start in range(0, len(rows), cut):
            operator.process_batch(overlay, make_batch(rows[start : start + cut]))
        operator.finish(overlay, MIN_WATERMARK)
        found = ops.rows_of(overlay)
        commit_overlays([(operator, overlay)])
        assert operator.read_operator_state("rules") == ({"all": told} if rules else {})
        overlay.close()
        side.close()
    as_they_came = [(k, v, told or None) for of_input, k, v, _ in rows if not of_input]
    assert sorted(found) == sorted(as_they_came)
    for key in "abc":
        wanted = [row for row in as_they_came if row[0] == key]
        assert [row for row in found if row[0] == key] == (
            sorted(wanted, key=lambda row: row[1]) if by_time else wanted
        )


def test_a_rule_that_every_slot_gets_is_counted_once_late_or_not() -> None:
    counts = []
    for subtask, shards in enumerate((range(2), range(2, 4))):
        operator: Any = ops.make_operator(
            Judge(),  # type: ignore[arg-type]
            ops.make_stores(shards),
            subtask=subtask,
            parallelism=2,
            **SHAPE,
        )
        first = operator.stores[shards[0]].key_groups.start
        batch = make_batch([(1, "r", "x", 1), (1, "r", "y", 2)])
        stamps = pa.array([5, 20], pa.int64())
        moved = batch.set_column(batch.schema.get_field_index(columns.TIMESTAMP), columns.TIMESTAMP, stamps)
        groups = pa.array([first] * 2, pa.int32())
        place = batch.schema.get_field_index(columns.KEY_GROUP)
        overlay = operator.begin(1, 10, 0)
        operator.process_batch(overlay, moved.set_column(place, columns.KEY_GROUP, groups))
        operator.finish(overlay, 10)
        commit_overlays([(operator, overlay)])
        assert operator.read_operator_state("rules") == {"all": "xy"}
        counts.append((overlay.rows_in, overlay.late_rows))
    assert counts == [(2, 1), (0, 0)]


class Renews(KeyedBroadcastProcessFunction):
    """A rule writes the state of every key, which lives for a second."""

    def open(self, ctx: Any) -> None:
        self.descriptor = ValueStateDescriptor("short", Types.LONG())
        self.descriptor.enable_time_to_live(StateTtlConfig.new_builder(1000).build())
        self.short = ctx.get_state(self.descriptor)

    def process_element(self, row: Any, ctx: Any) -> None:
        self.short.update(row.v)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        ctx.apply_to_keyed_state(self.descriptor, lambda key, state: state.update(state.value() + 1))


def test_what_rules_wrote_is_swept_in_a_slot_that_does_not_count_them() -> None:
    operator: Any = ops.make_operator(
        Renews(),  # type: ignore[arg-type]
        ops.make_stores(range(2, 4)),
        subtask=1,
        parallelism=2,
        **SHAPE,
    )
    own = operator.stores[2].key_groups.start

    def epoch(now: int, *rows: Any) -> Sweep:
        overlay = operator.begin(now, MIN_WATERMARK, now)
        if rows:
            batch = make_batch(list(rows))
            place = batch.schema.get_field_index(columns.KEY_GROUP)
            groups = pa.array([own] * len(rows), pa.int32())
            operator.process_batch(overlay, batch.set_column(place, columns.KEY_GROUP, groups))
        operator.finish(overlay, MIN_WATERMARK)
        return commit_overlays([(operator, overlay)])

    sweep = epoch(0, (0, "k", 1, None))
    for now in range(500, 40_000, 500):
        sweep = epoch(now, (1, "r", "x", now))
    removed = 0
    while sweep.next_ms is not None:
        sweep = epoch(sweep.next_ms)
        removed += sweep.removed
    assert removed == 1


@pytest.mark.parametrize(
    ("backend", "before", "after"), [("hashmap", 1, 3), ("rocksdb", 3, 2), (own_backends.MemoryBackend, 2, 3)]
)
def test_every_subtask_has_the_rules_after_a_restore_into_more_or_fewer(
    backend: Any, before: int, after: int
) -> None:
    with KeyedBroadcastHarness(
        Judge(),
        RULES,
        key=lambda row: row.k,
        key_type=Types.STRING(),
        backend=backend,
        parallelism=before,
        shards=4,
    ) as harness:
        harness.process_broadcast_elements(
            [({"name": "r", "text": "x"}, None), ({"name": "r", "text": "y"}, None)]
        )
        harness.process_element({"k": "a", "v": 1}, 1)
        harness.restore(harness.snapshot(), parallelism=after)
        harness.process_broadcast_element({"name": "r", "text": "z"})
        assert [harness.operator_state("rules", n) for n in range(after)] == [{"all": "xyz"}] * after
        harness.process_watermark(100)
        assert harness.output() == [("a", 1, "xy"), ("a", -1, "xyz")]


class Wrong(Judge):
    def __init__(self, call: Any, of_rule: bool) -> None:
        self.call, self.of_rule = call, of_rule

    def process_element(self, row: Any, ctx: Any) -> Any:
        return None if self.of_rule else self.call(self, ctx)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        return self.call(self, ctx) if self.of_rule else None


@pytest.mark.parametrize(
    ("call", "of_rule", "told"),
    [
        (
            lambda f, ctx: ctx.get_broadcast_state(OTHER),
            True,
            r"not a broadcast state of its stream.*\['rules'\]",
        ),
        (lambda f, ctx: ctx.get_broadcast_state(OTHER), False, "name it in broadcast"),
        (lambda f, ctx: f.count.value(), True, "broadcast row Row.*no key is set"),
        (lambda f, ctx: ctx.get_broadcast_state(RULES).put("a", "b"), False, "has no attribute 'put'"),
    ],
    ids=["another state", "another state of a keyed row", "keyed state", "a keyed row that writes"],
)
def test_what_would_make_slots_differ_is_refused(call: Any, of_rule: bool, told: str) -> None:
    harness = KeyedBroadcastHarness(
        Wrong(call, of_rule), RULES, key=lambda row: row.k, key_type=Types.STRING()
    )
    push = harness.process_broadcast_element if of_rule else harness.process_element
    with harness, pytest.raises(errors.UserCodeError, match=told):
        push({"name": "r", "text": "x"} if of_rule else {"k": "a", "v": 1})
