"""An operator of a stream without keys and a broadcast one: rules first, in every subtask, and nothing by key."""

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
from support.faults import tried
from support.operators import driven as ops
from support.operators.spilling import Side

from sparkstate import columns, errors
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.connected_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from sparkstate.functions import MIN_WATERMARK, OutputTag
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from sparkstate.testing import BroadcastHarness, KeyedBroadcastHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
OUT = pa.schema([("v", pa.int64()), ("rules", pa.string())])


class Judge(BroadcastProcessFunction):
    """Tells with each row the history of the rules."""

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield row.v, ctx.get_broadcast_state(RULES).get("all")

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put("all", (rules.get("all") or "") + rule.text)


def make_batch(rows: list[tuple[int, Any, int | None]]) -> pa.RecordBatch:
    """Rows (input, value or text, order) as a task ships them."""
    return pa.record_batch(
        {
            columns.of_input(0, "v"): pa.array([None if of else v for of, v, _ in rows], pa.int64()),
            columns.of_input(1, "text"): pa.array([v if of else None for of, v, _ in rows], pa.string()),
            columns.KEY_GROUP: pa.array([0] * len(rows), pa.int32()),
            columns.TIMESTAMP: pa.array([None if of else v for of, v, _ in rows], pa.int64()),
            columns.INPUT: pa.array([of for of, _, _ in rows], pa.int32()),
            columns.ORDER: pa.array([order for _, _, order in rows], pa.int64()),
        }
    )


@pytest.mark.parametrize("by_time", [False, True])
@settings(max_examples=tried(20), deadline=None)
@given(
    rules=st.integers(0, 5),
    values=st.lists(st.integers(0, 9), max_size=6),
    seed=st.integers(0, 99),
    cut=st.integers(1, 4),
    spills=st.booleans(),
)
def test_rules_come_first_and_rows_in_their_order(
    by_time: bool, rules: int, values: list[int], seed: int, cut: int, spills: bool
) -> None:
    rows: list[Any] = [(0, value, 7) for value in values]
    rows += [(1, "uvwxy"[i], (i // 2 << 33) + i) for i in range(rules)]
    random.Random(seed).shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        side = Side(
            Path(folder),
            0 if spills else None,
            Judge(),  # type: ignore[arg-type]
            row_columns=("v",),
            second_columns=("text",),
            key_columns=(),
            key_type=Types.LONG(),
            output_schema=OUT,
            sort_by_event_time=by_time,
            states=(RULES,),
        )
        operator: Any = side.operator
        overlay = operator.begin(1, MIN_WATERMARK, 0)
        for start in range(0, len(rows), cut):
            operator.process_batch(overlay, make_batch(rows[start : start + cut]))
        operator.finish(overlay, MIN_WATERMARK)
        found = ops.rows_of(overlay)
        commit_overlays([(operator, overlay)])
        overlay.close()
        side.close()
    told = "uvwxy"[:rules] or None
    came = [value for of, value, _ in rows if not of]
    assert found == [(value, told) for value in (sorted(came) if by_time else came)]


@pytest.mark.parametrize(("backend", "before", "after"), [("hashmap", 1, 3), ("rocksdb", 3, 2)])
def test_rules_are_everywhere_after_a_restore_and_rows_go_to_all_subtasks(
    backend: Any, before: int, after: int
) -> None:
    with BroadcastHarness(Counting(), RULES, backend=backend, parallelism=before, shards=4) as harness:
        harness.process_broadcast_element({"text": "x"})
        for value in range(6):
            harness.process_element({"v": value})
        assert harness.output() == [(value, "x") for value in range(6)]
        assert [harness.function(n).count for n in range(before)] == [6 // before] * before
        harness.restore(harness.snapshot(), parallelism=after)
        harness.process_broadcast_element({"text": "y"})
        assert [harness.operator_state("rules", n) for n in range(after)] == [{"all": "xy"}] * after
        harness.clear_output()
        harness.end_input()
        assert sum(count for (count,) in harness.output()) == 6


class Counting(Judge, CheckpointedFunction):
    """With a variable of its own, which goes through snapshots."""

    def initialize_state(self, ctx: Any) -> None:
        self.stored = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("n", Types.LONG()))
        self.count = sum(self.stored.get())

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.count += 1
        return super().process_element(row, ctx)

    def snapshot_state(self, ctx: Any) -> None:
        self.stored.update([self.count])

    def finish(self) -> Iterator[Any]:
        yield (self.count,)


def test_times_late_rows_and_side_outputs_are_those_of_other_functions() -> None:
    class Timed(Judge):
        def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
            yield ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()
            yield OutputTag("odd"), row

    with BroadcastHarness(Timed(), RULES, late_tag="late", processing_time=3) as harness:
        harness.process_elements([({"v": 1}, 1)], watermark=5)
        harness.process_elements([({"v": 2}, 5), ({"v": 3}, 6)])
        assert harness.output() == [(1, MIN_WATERMARK, 3), (6, 5, 3)]
        assert [row.v for row in harness.side_output("late")] == [2]
        assert [row.v for row in harness.side_output("odd")] == [1, 3]


class Wrong(Judge):
    def __init__(self, of_open: Any = None, of_row: Any = None, of_rule: Any = None) -> None:
        self.calls = of_open, of_row, of_rule

    def open(self, ctx: Any) -> None:
        if self.calls[0] is not None:
            self.calls[0](ctx)

    def process_element(self, row: Any, ctx: Any) -> Any:
        return None if self.calls[1] is None else self.calls[1](ctx)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        return None if self.calls[2] is None else self.calls[2](ctx)


COUNT = ValueStateDescriptor("count", Types.LONG())


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ({"of_open": lambda ctx: ctx.get_state(COUNT)}, r"declares the keyed state \['count'\]"),
        ({"of_row": lambda ctx: ctx.timer_service()}, "row Row.*timers belong to a key"),
        ({"of_row": lambda ctx: ctx.get_current_key()}, "have no key; key the stream"),
        ({"of_row": lambda ctx: ctx.get_broadcast_state(RULES).put("a", "b")}, "has no attribute 'put'"),
        ({"of_rule": lambda ctx: ctx.apply_to_keyed_state(COUNT, print)}, "needs keyed state"),
    ],
    ids=["keyed state", "timer", "key", "a row that writes", "apply_to_keyed_state"],
)
def test_what_needs_a_key_or_would_make_slots_differ_is_refused(calls: Any, told: str) -> None:
    def one_of_each() -> None:
        with BroadcastHarness(Wrong(**calls), RULES) as harness:
            harness.process_broadcast_element({"text": "x"})
            harness.process_element({"v": 1})

    with pytest.raises((errors.UserCodeError, errors.DeclarationError), match=told):
        one_of_each()


class Alarms(KeyedBroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.timer_service().register_processing_time_timer(100)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put("all", rule.text)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_timers_left_by_a_function_with_keys_are_never_due_and_begin_no_epoch(backend: str) -> None:
    with KeyedBroadcastHarness(
        Alarms(), RULES, key=lambda row: row.v, key_type=Types.LONG(), backend=backend
    ) as keyed:
        keyed.process_broadcast_element({"text": "x"})
        keyed.process_element({"v": 1})
        assert keyed._subtasks.operators[0].next_timer() == (None, 100)
        taken = keyed.snapshot()
    with BroadcastHarness(Judge(), RULES, backend=backend) as unkeyed:
        unkeyed.restore(taken)
        unkeyed.process_element({"v": 1})
        unkeyed.set_processing_time(200)
        assert unkeyed._subtasks.operators[0].next_timer() == (None, None)
        assert unkeyed.output() == [(1, "x")]
        assert unkeyed.num_processing_timers() == 1
