"""The extension module by itself: it never reads or writes beside its arrays, and keeps no object too many or too few."""

from __future__ import annotations

import gc
import random
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.functions import OutputTag
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.state.compiled_state import CompiledEntries
from sparkstate.operators.state.context import Cursor
from sparkstate.serde.row import Row, row_class

records: Any = pytest.importorskip(
    "sparkstate_compiled.records", reason="sparkstate-compiled is not built: `make compiled`"
)
PAIR = row_class(("k", "n"))


# --- entries


class Handle(records.LongHandle):  # type: ignore[misc]
    """A handle whose Python half says what it was asked."""

    def _value(self) -> Any:
        return "value"

    def _update(self, value: Any) -> None:
        raise LookupError(value)

    def _clear(self) -> None:
        raise LookupError("clear")


def make_handle() -> tuple[Any, Cursor, CompiledEntries]:
    cursor, handle, entries = Cursor(), Handle(), CompiledEntries()
    handle.attach(records.Position(cursor, Cursor))
    handle.point(entries.longs)
    return handle, cursor, entries


@given(st.integers(0, 2**32))
def test_a_handle_reads_what_was_written_through_any_growth_of_the_columns(seed: int) -> None:
    chosen = random.Random(seed)
    handle, cursor, entries = make_handle()
    model: list[int | None] = []
    changed: set[int] = set()
    for _ in range(chosen.randrange(200)):
        number = chosen.randrange(-2, len(model) + 2)
        cursor.number = number if chosen.random() < 0.9 else np.int64(number)
        match chosen.randrange(6):
            case 0:
                count = len(model) + chosen.choice([0, 1, 1, 7, 100])
                entries.grow(count)
                model += [None] * (count - len(model))
            case 1 if model:
                numbers = np.array(chosen.sample(range(len(model)), chosen.randrange(1, len(model) + 1)))
                present = np.array([chosen.random() < 0.5 for _ in numbers])
                entries.put(numbers, numbers * 3, present)
                for place, is_present in zip(numbers.tolist(), present.tolist(), strict=True):
                    model[place] = place * 3 if is_present else None
            case _ if not 0 <= number < len(model):
                for call in (handle.value, handle.clear, lambda: handle.update(1)):
                    with pytest.raises(IndexError):
                        call()
            case 2:
                value = chosen.choice([0, -1, 2**63 - 1, -(2**63), chosen.randrange(1000)])
                handle.update(value)
                model[number] = value
                changed.add(number)
            case 3:
                handle.clear()
                if model[number] is not None:
                    changed.add(number)
                model[number] = None
            case _:
                assert handle.value() == model[number]
    assert list(entries.longs) == model
    assert set(entries.changed().tolist()) >= changed
    values, present = entries.get(np.arange(len(model)))
    assert [v if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)] == model


def test_what_has_no_place_in_the_columns_is_left_to_python() -> None:
    handle, cursor, entries = make_handle()
    entries.grow(1)
    for value in (None, True, 1.0, 2**63, -(2**63) - 1, np.int64(1), "1"):
        with pytest.raises(LookupError):
            handle.update(value)
    assert entries.longs[0] is None
    handle.point(None)
    assert handle.value() == "value"
    for call in (handle.clear, lambda: handle.update(1)):
        with pytest.raises(LookupError):
            call()


def test_a_cursor_without_a_number_is_refused() -> None:
    handle, cursor, entries = make_handle()
    entries.grow(1)
    for number in ("0", None, 0.0):
        cursor.number = number  # type: ignore[assignment]
        with pytest.raises(TypeError):
            handle.value()
    for number in (2**70, -(2**70)):
        cursor.number = number
        with pytest.raises((IndexError, OverflowError)):
            handle.value()
    del cursor.number
    with pytest.raises(AttributeError):
        handle.value()
    unattached = Handle()
    unattached.point(entries.longs)
    for call in (unattached.value, unattached.clear, lambda: unattached.update(1)):
        with pytest.raises(AttributeError):
            call()


def test_only_a_cursor_with_slots_is_a_position() -> None:
    class Other:
        __slots__ = ("number",)

    class Slotless:
        number = stamp = 0

    class Both:
        __slots__ = ("number", "stamp")

    records.Position(Both(), Both)
    for cursor, kind, error in (
        (Other(), Cursor, TypeError),
        (Other(), Other, KeyError),
        (Slotless(), Slotless, TypeError),
        (Both(), 5, TypeError),
        (Cursor(), None, TypeError),
    ):
        with pytest.raises(error):
            records.Position(cursor, kind)


def test_arrays_are_kept_as_long_as_the_extension_has_them() -> None:
    longs = records.LongColumns()
    values = np.arange(4)
    longs.refresh(values, np.ones(4, np.uint8), np.zeros(4, np.uint8), 4)
    del values
    gc.collect()
    assert list(longs) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="5 entries"):
        longs.refresh(np.arange(4), np.ones(5, np.uint8), np.zeros(5, np.uint8), 5)
    with pytest.raises(ValueError, match="-1 entries"):
        longs.refresh(np.arange(4), np.ones(5, np.uint8), np.zeros(5, np.uint8), -1)
    for wrong in (np.arange(4.0), np.arange(8)[::2], [1, 2, 3, 4], None):
        with pytest.raises((ValueError, TypeError)):
            longs.refresh(wrong, np.ones(4, np.uint8), np.zeros(4, np.uint8), 4)
    assert list(longs) == [0, 1, 2, 3]
    for place in (4, -1):
        with pytest.raises(IndexError):
            longs[place] = 1
    with pytest.raises(TypeError):
        longs[0] = True


# --- the output

TYPES = {"int64": pa.int64(), "int32": pa.int32(), "double": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
PLAIN = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "double": st.floats() | st.integers(-(2**53), 2**53),
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
}
odd = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(),
    st.binary(max_size=3),
    st.sampled_from([np.int64(3), np.float64(2.5), np.bool_(True), np.str_("x"), OutputTag("t"), (), [], {}, "\ud800"]),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Schema, list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    plain = st.tuples(*(PLAIN[name] | st.none() for name in names))
    strange = st.tuples(*(PLAIN[name] | st.none() | odd for name in names))
    others = strange.map(list) | st.dictionaries(st.text(max_size=1), odd) | strange.map(Row) | strange.map(lambda r: (*r, 1))
    rows = draw(st.lists(plain | plain | strange | others | odd, max_size=60))
    return pa.schema([(f"c{place}", TYPES[name]) for place, name in enumerate(names)]), rows


@given(tables())
def test_columns_built_in_c_are_those_of_arrow(table: tuple[pa.Schema, list[Any]]) -> None:
    schema, rows = table
    output = records.Output([records.KINDS[str(field.type)] for field in schema], Row)
    for _ in range(2):  # finishing begins anew
        taken = [row for row in rows if output.put(row)]
        assert output.count == len(taken)
        count, buffers = output.count, output.finish()
        made = pa.RecordBatch.from_arrays(
            [
                pa.Array.from_buffers(field.type, count, [None if b is None else pa.py_buffer(b) for b in each])
                for field, each in zip(schema, buffers, strict=True)
            ],
            schema=schema,
        )
        made.validate(full=True)
        # NaN differs from itself, and Arrow's own bytes are compared: -0.0 is not 0.0 either.
        assert repr(made.to_pylist()) == repr(arrow_rows.to_batch(taken, schema).to_pylist())


@pytest.mark.parametrize("name", TYPES)
def test_a_plain_value_of_its_type_is_always_taken(name: str) -> None:
    @given(st.lists(PLAIN[name] | st.none(), max_size=40))
    def check(values: list[Any]) -> None:
        output = records.Output([records.KINDS[name]], PAIR)
        assert all(output.put((value,)) for value in values)
        assert output.count == len(values)

    check()


def test_rows_of_the_input_are_taken_and_other_subclasses_are_not() -> None:
    class Own(tuple[Any, ...]):
        def __iter__(self) -> Any:
            return iter(("a", 2))

    output = records.Output([records.KINDS["string"], records.KINDS["int64"]], PAIR)
    assert output.put(PAIR(("a", 1)))
    assert not output.put(Own(("a", 1)))
    assert not output.put(["a", 1])
    # What is more than a tuple is no class of rows.
    own = records.Output([records.KINDS["string"], records.KINDS["int64"]], Own)
    assert not own.put(Own(("a", 1)))
    with pytest.raises(ValueError, match="at least one column"):
        records.Output([], PAIR)


def test_many_values_of_each_kind_survive_the_growth_of_the_buffers() -> None:
    kinds = [records.KINDS[name] for name in TYPES]
    schema = pa.schema([(name, kind) for name, kind in TYPES.items()])
    rows = [(n, n, float(n), n % 2 == 0, "x" * (n % 50)) if n % 97 else (None,) * 5 for n in range(100_000)]
    output = records.Output(kinds, PAIR)
    assert all(map(output.put, rows))
    arrays = [
        pa.Array.from_buffers(field.type, len(rows), [None if b is None else pa.py_buffer(b) for b in each])
        for field, each in zip(schema, output.finish(), strict=True)
    ]
    assert pa.RecordBatch.from_arrays(arrays, schema=schema).equals(arrow_rows.to_batch(rows, schema))


# --- the loop


def run(process: Any, rows: int, output: Any = None, cursor: Cursor | None = None, kind: type = PAIR) -> list[Any]:
    loop = records.Loop(cursor or Cursor(), Cursor, kind)
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
    loop = records.Loop(Cursor(), Cursor, PAIR)

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
    loop = records.Loop(Cursor(), Cursor, row_class(("a", "b", "c", "d")))
    read_only = pa.array([1, 2**63 - 1, -(2**63)]).to_numpy()
    sources = [
        records.Source(read_only),
        records.Source(np.array([0.5, -0.0, np.inf])),
        records.Source([None, "b"], 1),
        records.Source(None),
    ]
    numbers = records.Source([4, 5, 6])
    loop.run(lambda row, ctx: seen.append((ctx.number, ctx.stamp, row)), numbers, numbers, sources, 1, 3, None)
    assert repr(seen) == "[(5, 5, Row(a=9223372036854775807, b=-0.0, c=None, d=None)), (6, 6, Row(a=-9223372036854775808, b=inf, c='b', d=None))]"
    for wrong in (np.arange(3, dtype=np.int32), np.array([True]), np.arange(6)[::2]):
        with pytest.raises(ValueError):
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
        loop = records.Loop(cursor, Cursor, PAIR)
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
