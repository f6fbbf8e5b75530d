"""The record loop in C: rows, answers and errors in order, and no object kept too long or too short."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkstate.operators.state.context import Cursor
from sparkstate.serde.copies import copied
from sparkstate.serde.row import Row, row_class

records: Any = pytest.importorskip(
    "sparkstate_compiled.records", reason="sparkstate-compiled is not built: `make compiled`"
)
PAIR = row_class(("k", "n"))


def run(
    process: Any, rows: int, output: Any = None, cursor: Cursor | None = None, kind: type = PAIR
) -> list[Any]:
    loop = records.Loop(cursor or Cursor(), Cursor, kind, copied, set())
    numbers, objects = np.arange(rows), [f"r{place}" for place in range(rows)]
    sources = [records.Source(objects), records.Source(numbers * 10)]
    return loop.run(process, records.Source(numbers), records.Source(None), sources, 0, rows, output)  # type: ignore[no-any-return]


def test_each_row_is_a_row_of_its_own_with_its_number() -> None:
    cursor = Cursor()
    seen = []

    def process(row: Any, ctx: Cursor) -> None:
        assert ctx is cursor
        seen.append((ctx.number, ctx.timestamp(), row))

    assert run(process, 5, cursor=cursor) == []
    assert seen == [(n, None, (f"r{n}", n * 10)) for n in range(5)]
    assert [(type(row), row.k, row.n) for _, _, row in seen] == [(PAIR, f"r{n}", n * 10) for n in range(5)]
    assert all(gc.is_tracked(row) for _, _, row in seen)


class Flags(Row):
    """Not a plain row: it has a constructor."""

    __slots__ = ()

    def __new__(cls, values: Any) -> Any:
        return super().__new__(cls, [*values, "made"])


def test_rows_of_an_unusual_class_are_made_by_calling_it() -> None:
    seen: list[Any] = []
    run(lambda row, ctx: seen.append(row), 2, kind=Flags)
    assert seen == [("r0", 0, "made"), ("r1", 10, "made")]


def test_answers_of_every_kind_come_in_order_and_once() -> None:
    calls = []

    def process(row: Any, ctx: Any) -> Any:
        calls.append(ctx.number)
        pair = (row.n, row.k)
        return [
            None,
            [pair, pair],
            (pair,),
            iter([pair]),
            {pair: 1},
            (each for each in [pair, pair]),
            "ab",
            [[*pair]],
        ][ctx.number]

    def plain() -> list[Any]:
        pairs = [(n * 10, f"r{n}") for n in range(8)]
        return [pairs[1], pairs[1], pairs[2], pairs[3], pairs[4], pairs[5], pairs[5], "a", "b", [*pairs[7]]]

    assert run(process, 8) == plain()
    assert calls == list(range(8))
    output = records.Output([records.KINDS["int64"], records.KINDS["string"]], PAIR)
    assert run(process, 8, output) == plain()[7:]  # from the first one on that has no place
    assert output.count == 7


def test_an_error_leaves_the_row_at_hand() -> None:
    loop = records.Loop(Cursor(), Cursor, PAIR, copied, set())

    def process(row: Any, ctx: Any) -> Any:
        yield (row.n,)
        if row.n == 2:
            raise KeyError("in the middle")

    output = records.Output([records.KINDS["int64"]], PAIR)
    numbers = records.Source(np.arange(4))
    with pytest.raises(KeyError, match="in the middle") as caught:
        loop.run(process, numbers, numbers, [numbers, numbers], 0, 4, output)
    assert loop.row == (2, 2)
    assert [entry.name for entry in caught.traceback][-1] == "process"
    for source in (records.Source(np.arange(3)), records.Source([1, 2, 3])):
        with pytest.raises(IndexError):
            loop.run(lambda row, ctx: None, numbers, numbers, [source, numbers], 0, 4, output)
        with pytest.raises(IndexError):
            loop.run(lambda row, ctx: None, source, numbers, [numbers], -1, 4, output)


def test_columns_are_read_by_their_type() -> None:
    seen: list[Any] = []
    loop = records.Loop(Cursor(), Cursor, row_class(("a", "b", "c", "d")), copied, set())
    read_only = pa.array([1, 2**63 - 1, -(2**63)]).to_numpy()
    sources = [
        records.Source(read_only),
        records.Source(np.array([0.5, -0.0, np.inf])),
        records.Source([None, "b"], 1),
        records.Source(None),
    ]
    numbers = records.Source([4, 5, 6])
    loop.run(
        lambda row, ctx: seen.append((ctx.number, ctx.stamp, row)), numbers, numbers, sources, 1, 3, None
    )
    assert [(number, stamp) for number, stamp, _ in seen] == [(5, 5), (6, 6)]
    rows = [repr(tuple(row)) for _, _, row in seen]
    assert rows == [f"({2**63 - 1}, -0.0, None, None)", f"({-(2**63)}, inf, 'b', None)"]
    for wrong in (np.arange(3, dtype=np.int32), np.array([True]), np.arange(6)[::2]):
        with pytest.raises(ValueError, match=r"mismatch|contiguous"):
            records.Source(wrong)


def test_namespaces_are_left_after_each_row() -> None:
    cursor = Cursor()
    left = []

    class Handle:
        def leave_namespace(self) -> None:
            left.append(cursor.number)

    def process(row: Any, ctx: Any) -> Any:
        if ctx.number % 2:
            ctx.namespaced.append(Handle())
        yield from ()

    run(process, 5, cursor=cursor)
    assert left == [1, 3]
    assert not cursor.namespaced


def test_no_reference_is_kept_or_lost() -> None:
    marker, cursor = object(), Cursor()
    objects = [marker] * 1000
    output = records.Output([records.KINDS["int64"], records.KINDS["string"]], PAIR)
    text = "".join(["te", "xt"])
    kept: list[Any] = []

    def process(row: Any, ctx: Any) -> Any:
        if ctx.number % 3 == 0:
            kept.append(row)
        yield ctx.number, text
        if ctx.number == 900:
            yield marker

    def work() -> None:
        loop = records.Loop(cursor, Cursor, PAIR, copied, set())
        numbers = records.Source(np.arange(1000))
        sources = [records.Source(objects), numbers]
        loop.run(process, numbers, numbers, sources, 0, 1000, output)
        output.finish()
        kept.clear()

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(each) for each in (marker, text, cursor, PAIR, process)]

    work()
    before = counts()
    nothing = sys.getrefcount(None)
    for _ in range(50):
        work()
    assert counts() == before
    assert abs(sys.getrefcount(None) - nothing) < 50
