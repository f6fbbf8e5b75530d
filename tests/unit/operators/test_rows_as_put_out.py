"""A row stays as it was when the function put it out, whatever the function does with its values afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import columns, windows
from sparkstate.connected_functions import KeyedCoProcessFunction
from sparkstate.functions import MAX_WATERMARK, KeyedProcessFunction, OutputTag
from sparkstate.operators import compiled
from sparkstate.serde import copies
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

LISTS = pa.schema([("user", pa.string()), ("seen", pa.list_(pa.int64()))])
SIDE = OutputTag("side")
BUILT = compiled.status() in (compiled.IN_USE, compiled.TURNED_OFF)
PATHS = ["Python", "compiled"] if BUILT else ["Python"]  # a case that is skipped would prove nothing


def operator_of(function: Any, path: str = "Python", **given: Any) -> Any:
    """By a number as key, so that the compiled path can run it."""
    with mock.patch.dict(os.environ, {compiled.VARIABLE: "1" if path == "compiled" else "0"}):
        return ops.make_operator(function, key_columns=("amount",), key_type=Types.LONG(), **given)


def rows_of(overlay: Any, tag: str | None = None) -> list[Any]:
    return [tuple(row.values()) for batch in overlay.output(tag) for row in batch.to_pylist()]


class Running(KeyedProcessFunction):
    """A list that grows, and is put out each time; also by a timer, at the end, and to a side output."""

    def open(self, ctx: Any) -> None:
        self.seen: list[int] = []

    def _more(self, value: int) -> list[int]:
        self.seen.append(value)
        return self.seen

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(50)
        yield value.user, self._more(value.amount)
        yield SIDE, (value.user, self._more(-value.amount))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", self._more(50)

    def finish(self) -> Iterator[Any]:
        yield "end", self._more(98)
        yield "end", self._more(99)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("care", [{}, {"on_error": "side-output"}], ids=["plain", "rows may be rejected"])
def test_a_list_that_grows_is_put_out_as_it_is_each_time(path: str, care: dict[str, Any]) -> None:
    operator = operator_of(Running(), path, output_schema=LISTS, side_schemas={"side": LISTS}, **care)
    overlay = operator.begin(1, 0, 0)
    operator.process_batch(overlay, ops.make_batch(("a", 1, 5), ("b", 2, 6)))
    operator.finish(overlay, MAX_WATERMARK)
    grown = [1, -1, 2, -2, 50, 50, 98, 99]
    assert rows_of(overlay, "side") == [("a", grown[:2]), ("b", grown[:4])]
    assert rows_of(overlay) == [
        ("a", grown[:1]), ("b", grown[:3]), ("timer", grown[:5]), ("timer", grown[:6]),
        ("end", grown[:7]), ("end", grown),
    ]  # fmt: skip


class OneRow(KeyedProcessFunction):
    """Fills in the same row each time, a list or a dict, and tuples before ``since``."""

    def __init__(self, row: Any, since: int) -> None:
        self.row, self.since = row, since

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.amount < self.since:
            yield value.user, value.amount
            return
        first, second = ("user", "amount") if isinstance(self.row, dict) else (0, 1)
        self.row[first], self.row[second] = value.user, value.amount
        yield self.row


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("row", [["", 0], {"user": "", "amount": 0}], ids=["list", "dict"])
def test_a_row_that_is_filled_in_again_and_again_is_put_out_as_it_is_each_time(path: str, row: Any) -> None:
    operator = operator_of(OneRow(row, 0), path)
    for _ in range(2):
        overlay = ops.run(operator, ("a", 1, None), ("b", 2, None), ("c", 3, None))
        assert rows_of(overlay) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("row", [["", 0], {"user": "", "amount": 0}], ids=["list", "dict"])
@pytest.mark.parametrize("care", [{}, {"on_error": "side-output"}], ids=["plain", "rows may be rejected"])
def test_such_rows_are_copied_after_many_batches_of_others(path: str, row: Any, care: Any) -> None:
    operator = operator_of(OneRow(row, since=3), path, **care)
    for _ in range(2):
        assert rows_of(ops.run(operator, ("a", 1, None), ("a", 2, None))) == [("a", 1), ("a", 2)]
    overlay = ops.run(operator, ("c", 4, None), ("d", 5, None), ("e", 1, None))
    assert rows_of(overlay) == [("c", 4), ("d", 5), ("e", 1)]


class Sideways(OneRow):
    """The same, to a side output."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for row in super().process_element(value, ctx):
            yield (SIDE, row) if row is self.row else row


@pytest.mark.parametrize("path", PATHS)
def test_such_rows_of_a_side_output_are_too(path: str) -> None:
    operator = operator_of(Sideways(["", 0], since=3), path, side_schemas={"side": ops.ROWS})
    for _ in range(2):
        assert rows_of(ops.run(operator, ("a", 1, None), ("a", 2, None))) == [("a", 1), ("a", 2)]
    overlay = ops.run(operator, ("c", 4, None), ("d", 5, None), ("e", 1, None))
    assert rows_of(overlay, "side") == [("c", 4), ("d", 5)]
    assert rows_of(overlay) == [("e", 1)]


class Rows(KeyedProcessFunction):
    """Tuples of values that nobody can change."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.user, value.amount


@pytest.mark.parametrize("sides", [{}, {"side": ops.ROWS}], ids=["one output", "a side output"])
def test_rows_that_nobody_can_change_are_copied_in_the_first_batch_alone(sides: Any) -> None:
    with mock.patch("sparkstate.serde.copies.copied", wraps=copies.copied) as counted:
        operator = operator_of(Rows(), side_schemas=sides)
        for count in (1, 1):
            assert rows_of(ops.run(operator, ("a", 1, None))) == [("a", 1)]
            assert counted.call_count == count


class Both(KeyedCoProcessFunction):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen.append(value.amount)
        yield value.user, self.seen

    process_element2 = process_element1


@pytest.mark.parametrize("on_error", ["fail", "side-output"])
def test_two_inputs_too(on_error: str) -> None:
    operator = ops.make_operator(
        Both(),  # type: ignore[arg-type]
        second_columns=("user", "amount"),
        output_schema=LISTS,
        on_error=on_error,
    )
    users, amounts = pa.array(["a", "a", "b"]), pa.array([1, 2, 3], pa.int64())
    batch = pa.record_batch(
        {
            **{columns.of_input(n, "user"): users for n in range(2)},
            **{columns.of_input(n, "amount"): amounts for n in range(2)},
            "user": users,
            columns.KEY_GROUP: pa.array([1, 1, 2], pa.int32()),
            columns.TIMESTAMP: pa.array([1, 2, 3], pa.int64()),
            columns.INPUT: pa.array([0, 0, 1], pa.int32()),
        }
    )
    overlay = operator.begin(1, 0, 0)
    operator.process_batch(overlay, batch)
    operator.finish(overlay, 0)
    assert rows_of(overlay) == [("a", [1]), ("a", [1, 2]), ("b", [1, 2, 3])]


class Growing(windows.ProcessWindowFunction):
    """Puts out one list again and again, with one element more each time."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        seen: list[int] = []
        for element in elements:
            seen.append(element.value)
            yield key, seen


def test_a_list_that_a_window_puts_out_stays_as_it_was() -> None:
    kind = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
    operation = windows.over(windows.TumblingEventTimeWindows.of(10)).process(Growing(), element_type=kind)
    with KeyedProcessHarness(operation, key=lambda row: row.key, key_type=Types.STRING()) as job:
        for value in (1, 2, 3):
            job.process_element({"key": "a", "value": value}, value)
        job.process_watermark(100)
        assert job.output() == [("a", [1]), ("a", [1, 2]), ("a", [1, 2, 3])]
