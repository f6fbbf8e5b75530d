"""Rows of a side output that feeds another operator carry the event time of the record or timer behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import columns
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Count
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.connected_functions import KeyedCoProcessFunction
from sparkstate.functions import MAX_WATERMARK, KeyedProcessFunction, OutputTag
from sparkstate.slots import outputs

SIDE = OutputTag("side", "user string, amount long")
STAMP = pa.field(columns.TIMESTAMP, pa.int64())
TIMED = ops.ROWS.append(STAMP)
REJECTED = ops.ROWS.append(pa.field("error", pa.string())).append(STAMP)


class Aside(KeyedProcessFunction):
    """Puts rows to both outputs, timers too; fails for -1."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.amount == -1:
            raise ValueError("no such amount")
        if value.amount == -2:
            ctx.timer_service().register_event_time_timer(50)
        yield value.user, value.amount
        yield SIDE, (value.user, value.amount + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        raise RuntimeError("bad timer")

    def finish(self) -> Iterator[Any]:
        yield SIDE, ("last", 0)


def timed(overlay: Any, tag: str) -> list[tuple[Any, Any]]:
    """Amount (or error) and event time of each row of an output."""
    rows = [row for batch in overlay.output(tag) for row in batch.to_pylist()]
    return [(row["amount"], row[columns.TIMESTAMP]) for row in rows]


@pytest.mark.parametrize("emit_timestamps", [False, True], ids=["alone", "beside the main output"])
def test_rows_have_the_time_of_their_record(emit_timestamps: bool) -> None:
    operator = ops.make_operator(Aside(), emit_timestamps=emit_timestamps, side_schemas={"side": TIMED})
    overlay = ops.run(operator, ("a", 1, 5), ("b", 2, None), ("a", 3, 7))
    assert timed(overlay, "side") == [(2, 5), (3, None), (4, 7)]
    assert ops.rows_of(overlay)[0][:2] == ("a", 1)
    assert {len(batch.schema) for batch in overlay.output()} == {2 + emit_timestamps}
    seen = [row for batch in outputs.visible(operator.spec, "side", overlay) for row in batch.to_pylist()]
    assert seen[0] == {"user": "a", "amount": 2}
    assert outputs.output_schema(operator.spec, "side") == TIMED


def test_rejected_and_late_rows_keep_their_times_and_rows_of_finish_have_none() -> None:
    operator = ops.make_operator(
        Aside(),
        on_error="side-output",
        late_tag="late",
        side_schemas={"errors": REJECTED, "late": TIMED, "side": TIMED},
    )
    overlay = operator.begin(1, 10, 0)
    rows = [("a", 1, 10), ("b", -1, 20), ("a", -2, 30), ("a", -1, None)]
    operator.process_batch(overlay, ops.make_batch(*rows))
    operator.finish(overlay, MAX_WATERMARK)
    assert timed(overlay, "late") == [(1, 10)]
    assert timed(overlay, "errors") == [(-1, 20), (-1, None), (None, 50)]
    assert timed(overlay, "side") == [(-1, 30), (0, None)]


def test_a_batch_function_gives_the_times_itself() -> None:
    class Frames(KeyedBatchFunction):
        def process_batch(self, rows: Any, keys: Any, ctx: Any) -> Iterator[Any]:
            frame = rows.select(["user", "amount"])
            yield SIDE, ctx.with_timestamps(frame, ctx.timestamps())
            yield SIDE, frame

    overlay = ops.run(ops.make_operator(Frames(), side_schemas={"side": TIMED}), ("a", 1, 5), ("b", 2, None))
    assert timed(overlay, "side") == [(1, 5), (2, None), (1, None), (2, None)]


def test_late_rows_of_aggregated_windows_keep_their_times() -> None:
    count, late = Output("n", "count", Count(of_rows=True), None), OutputTag("late")
    function = WindowAggregation(Slices(10, 10), ("user",), (count,), late, ("user", "amount"))
    operator = ops.make_operator(
        function, output_schema=pa.schema([("user", pa.string()), ("n", pa.int64())]),
        late_tag="late", side_schemas={"late": TIMED},
    )  # fmt: skip
    overlay = ops.run(operator, ("a", 1, 5), ("a", 2, 25), before=20)
    assert timed(overlay, "late") == [(1, 5)]


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield SIDE, (value.user, value.amount)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        raise ValueError("none of these")


def test_rows_of_two_inputs_have_the_time_of_their_record() -> None:
    operator = ops.make_operator(
        Both(),  # type: ignore[arg-type]
        second_columns=("user", "amount"),
        on_error="side-output",
        late_tag="late",
        side_schemas={"side": TIMED, "errors2": REJECTED, "late": TIMED},
    )
    times = pa.array([5, 20, 30], pa.int64())
    users, amounts = pa.array(["a", "a", "b"]), pa.array([1, 2, 3], pa.int64())
    batch = pa.record_batch(
        {
            **{columns.of_input(n, "user"): users for n in range(2)},
            **{columns.of_input(n, "amount"): amounts for n in range(2)},
            "user": users,
            columns.KEY_GROUP: pa.array([1, 1, 2], pa.int32()),
            columns.TIMESTAMP: times,
            columns.INPUT: pa.array([0, 0, 1], pa.int32()),
        }
    )
    overlay = operator.begin(1, 10, 0)
    operator.process_batch(overlay, batch)
    operator.finish(overlay, 10)
    assert timed(overlay, "late") == [(1, 5)]
    assert timed(overlay, "side") == [(2, 20)]
    assert timed(overlay, "errors2") == [(3, 30)]
