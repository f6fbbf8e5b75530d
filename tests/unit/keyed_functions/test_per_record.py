"""``map``, ``flat_map``, ``filter`` and ``reduce``, of plain functions and of objects with a life."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    Types,
    ValueStateDescriptor,
    errors,
)
from sparkstate.keyed_functions import per_record
from sparkstate.testing import KeyedProcessHarness

ROW = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


def run(function: KeyedProcessFunction, *rows: tuple[str, int]) -> list[Any]:
    with KeyedProcessHarness(function, key=lambda row: row.k, key_type=Types.STRING()) as driven:
        for k, v in rows:
            driven.process_element({"k": k, "v": v})
        return driven.output()


class Numbered(MapFunction):
    """Keyed state in a map, as PyFlink allows it."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return value.k, self.count.value()


class Twice(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        yield value
        yield value


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value.v % 2 == 0)


class Largest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=lambda row: row.v)


ROWS = (("a", 1), ("b", 2), ("a", 4))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (per_record.Map(lambda row: (row.v, row.k)), [(1, "a"), (2, "b"), (4, "a")]),
        (per_record.Map(Numbered()), [("a", 1), ("b", 1), ("a", 2)]),
        (per_record.FlatMap(Twice()), [("a", 1), ("a", 1), ("b", 2), ("b", 2), ("a", 4), ("a", 4)]),
        (per_record.FlatMap(lambda row: None), []),
        (per_record.Filter(Even()), [("b", 2), ("a", 4)]),
        (per_record.Filter(lambda row: row.k == "a"), [("a", 1), ("a", 4)]),
        (per_record.Reduce(lambda one, two: (one.k, one.v + two.v), ROW), [("a", 1), ("b", 2), ("a", 5)]),
        (per_record.Reduce(Largest(), ROW), [("a", 1), ("b", 2), ("a", 4)]),
    ],
    ids=[
        "map",
        "map with state",
        "flat_map",
        "flat_map of none",
        "filter",
        "filter of a lambda",
        "reduce",
        "object",
    ],
)
def test_rows_come_out_as_from_pyflink(function: KeyedProcessFunction, expected: list[Any]) -> None:
    assert run(function, *ROWS) == expected


def test_a_map_that_returns_nothing_is_told() -> None:
    with pytest.raises(
        errors.UserCodeError, match=r"row Row\(k='a', v=1\): .*map returned None.*\(None,\) for a null"
    ):
        run(per_record.Map(lambda row: None), *ROWS)
    assert run(per_record.Map(lambda row: (None,)), *ROWS) == [(None,)] * 3


def test_an_object_is_opened_once_and_closed() -> None:
    told: list[str] = []

    class Living(MapFunction):
        def open(self, ctx: Any) -> None:
            told.append("open")

        def map(self, value: Any) -> Any:
            told.append("map")
            return value

        def close(self) -> None:
            told.append("close")

    run(per_record.Map(Living()), *ROWS)
    assert told == ["open", "map", "map", "map", "close"]
