"""A function that does and answers all there is, by two numbers in its rows.

A row's ``what`` says what the function does with its states and timers, ``how`` in which form it answers. An answer may
be of any form, so that output columns built in C meet all that they have to leave to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from support.operators.spilling import Sum

from sparkstate.functions import KeyedProcessFunction, OutputTag
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

LONGS = (0, 1, 7, -1, 2**63 - 1, -(2**63), 8, 100_000, None)
TEXTS = ("", "a", "b", "zero\0", "ü", None)
NUMBERS = (0, 1, 255, 256, 257, 1000, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
STATES = ("total", "count", "word", "list", "map", "sum")
SPACES = (None, 0, -3, "n", ("t", 1))
OUTPUT = pa.schema(
    [("k", pa.int64()), ("i", pa.int32()), ("x", pa.float64()), ("b", pa.bool_()), ("s", pa.string())]
)
SIDE = OutputTag("side", Types.LONG())
UNREAD = OutputTag("unread", Types.LONG())


class Whole:
    """A number that is none, until it is asked."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Life(KeyedProcessFunction):
    """``what`` and ``how`` of a row choose from ``ACTIONS`` and ``ANSWERS``."""

    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.word = ctx.get_state(ValueStateDescriptor("word", Types.STRING()))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.sum = ctx.get_reducing_state(ReducingStateDescriptor("sum", Sum(), Types.LONG()))
        self.kept: list[Any] = []

    def process_element(self, value, ctx):
        action = ACTIONS[value.what]
        answer = ANSWERS[value.how] if value.how >= 0 else BROKEN[-value.how - 1]
        seen = action(self, value, ctx)
        if value.how % 2:  # a row that nobody keeps may be used again for the next one
            self.kept.append((value, hash(value), tuple(value)))
        return answer(self, value, ctx, seen)

    def on_timer(self, timestamp, ctx):
        self.total.update((self.total.value() or 0) ^ (timestamp & 1023))
        self.count.set_current_namespace(timestamp % 3)
        self.count.update((self.count.value() or 0) + 1)
        if timestamp % 4 == 0:
            ctx.timer_service().register_event_time_timer(timestamp + 3, ctx.namespace())
        yield ctx.timestamp(), timestamp % 100, None, True, repr((ctx.get_current_key(), self.total.value()))


def _add(life: Life, row: Any, ctx: Any) -> Any:
    total = ((life.total.value() or 0) + row.n) % 2**63
    life.total.update(total)
    life.count.update((life.count.value() or 0) + 1)
    return total


def _update(life: Life, row: Any, ctx: Any) -> Any:
    life.total.update(row.n)
    return life.total.value()


def _clear(life: Life, row: Any, ctx: Any) -> Any:
    life.total.clear()
    return life.total.value()


def _clear_after(life: Life, row: Any, ctx: Any) -> Any:
    life.total.update(row.n)
    life.total.clear()
    life.count.update(None)
    return life.count.value()


def _unusual(life: Life, row: Any, ctx: Any) -> Any:
    small = row.n % 2**31
    life.total.update([np.int64(small), np.int32(small), Whole(small), np.uint8(small % 256)][row.how % 4])
    return life.total.value()


def _spaced(life: Life, row: Any, ctx: Any) -> Any:
    life.total.set_current_namespace(SPACES[row.how % len(SPACES)])
    before = life.total.value()
    life.total.update(row.n)
    life.count.update(1)
    life.total.set_current_namespace(None)
    return (life.total.value() or 0) ^ (before or 0)


def _spaced_and_cleared(life: Life, row: Any, ctx: Any) -> Any:
    life.count.set_current_namespace(SPACES[row.how % len(SPACES)])
    life.count.update(row.n)
    life.count.clear()
    life.total.set_current_namespace("n")
    return life.total.value()


def _others(life: Life, row: Any, ctx: Any) -> Any:
    life.word.update(f"{life.word.value()}{row.how}"[-9:])
    life.list.add(row.n)
    life.map.put(row.n, row.how)
    life.sum.add(row.n % 1000)
    return life.sum.get()


def _timers(life: Life, row: Any, ctx: Any) -> Any:
    service = ctx.timer_service()
    service.register_event_time_timer(row.how * 3, None if row.how % 2 else "n")
    service.delete_event_time_timer(row.how * 2)
    service.register_processing_time_timer(row.how)
    return ctx.timestamp()


def _late(life: Life, row: Any, ctx: Any) -> Any:
    ctx.late_rows += row.how % 2
    return ctx.timer_service().current_watermark()


def _refused(value: Any) -> Callable[[Life, Any, Any], Any]:
    def refused(life: Life, row: Any, ctx: Any) -> Any:
        try:
            life.total.update(value)
        except Exception as error:  # the text is the answer
            return str(error)
        raise AssertionError(value)

    return refused


ACTIONS: list[Callable[[Life, Any, Any], Any]] = [
    *[_add] * 6,
    _update,
    _clear,
    _clear_after,
    _unusual,
    _spaced,
    _spaced_and_cleared,
    _others,
    _timers,
    _late,
    *(_refused(value) for value in (2**63, -(2**63) - 1, True, 1.0, "1", Whole(2**70))),
]


def _long(seen: Any) -> Any:
    return seen if type(seen) is int and -(2**63) <= seen < 2**63 else None


def _row(life: Life, row: Any, ctx: Any, seen: Any) -> tuple[Any, ...]:
    return _long(seen), row.how, row.x, row.b, seen if isinstance(seen, str) else row.s


def _yields(life: Life, row: Any, ctx: Any, seen: Any) -> Iterator[Any]:
    for place in range(row.how % 3 + 1):
        yield (ctx.get_current_key(), place, float(place), place == 1, f"{row.s}…{place}")
    yield _row(life, row, ctx, seen)


def _changed(index: int, *values: Any) -> Callable[..., Iterator[Any]]:
    """One column has a value of another form."""

    def changed(life: Life, row: Any, ctx: Any, seen: Any) -> Iterator[Any]:
        given = list(_row(life, row, ctx, seen))
        given[index] = values[row.how % len(values)]
        yield tuple(given)
        yield _row(life, row, ctx, seen)

    return changed


def _raises(life: Life, row: Any, ctx: Any, seen: Any) -> Iterator[Any]:
    yield _row(life, row, ctx, seen)
    raise ValueError(f"after the first of {row!r}")


ANSWERS: list[Callable[..., Any]] = [
    *[_yields] * 4,
    lambda life, row, ctx, seen: None,
    lambda life, row, ctx, seen: [_row(life, row, ctx, seen)] * (row.how % 4),
    lambda life, row, ctx, seen: (_row(life, row, ctx, seen),),
    lambda life, row, ctx, seen: iter([_row(life, row, ctx, seen)]),
    lambda life, row, ctx, seen: map(list, [_row(life, row, ctx, seen)]),
    lambda life, row, ctx, seen: [dict(zip(OUTPUT.names, _row(life, row, ctx, seen), strict=True))],
    lambda life, row, ctx, seen: [type("Own", (tuple,), {})(_row(life, row, ctx, seen))],
    lambda life, row, ctx, seen: [(SIDE, (row.how,)), _row(life, row, ctx, seen)],
    lambda life, row, ctx, seen: [
        _row(life, row, ctx, seen),
        (UNREAD, (row.how,)),
        _row(life, row, ctx, seen),
    ],
    _changed(0, np.int64(5), np.uint8(5), 2**63 - 1, -(2**63)),
    _changed(1, 2**31 - 1, -(2**31), np.int32(3)),
    _changed(2, 2**53, -(2**53), 7, float("nan"), float("-inf"), -0.0, np.float64(1.5), np.float32(0.5)),
    _changed(3, np.bool_(True), None),
    _changed(4, "\0", "𝄞", "x" * 5000, np.str_("s"), ""),
]
BROKEN: list[Callable[..., Any]] = [
    _raises,
    _changed(0, 2**63, True, 1.5, "1", (), SIDE),
    _changed(1, 2**31, -(2**31) - 1, False),
    _changed(2, 2**53 + 1, "x", True),
    _changed(3, 1, "x"),
    _changed(4, "\ud800", 1, b"\xff"),
    lambda life, row, ctx, seen: [_row(life, row, ctx, seen)[:4]],
    lambda life, row, ctx, seen: [(*_row(life, row, ctx, seen), 1)],
    lambda life, row, ctx, seen: [()],
    lambda life, row, ctx, seen: [None],
    lambda life, row, ctx, seen: "text",
    lambda life, row, ctx, seen: 5,
    lambda life, row, ctx, seen: [{"k": 1}],
]
"""Answers that end the epoch."""
