"""Frames of other libraries: those that give their columns by Arrow's PyCapsule interface alone, as Polars does."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import polars
import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import columns, errors
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MAX_WATERMARK
from sparkstate.operators.rows import frames
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor

CATEGORIES = pa.array(["x", None]).dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.string_view()))


class ForeignFrame:
    """All that is known of a DataFrame of Polars, or of another library: a stream of its columns, in several chunks.
    Polars keeps text as views."""

    def __init__(self, *chunks: dict[str, pa.Array]) -> None:
        self._table = pa.concat_tables([pa.table(chunk) for chunk in chunks])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def frame_of(batch: pa.RecordBatch) -> ForeignFrame:
    """The rows of a batch, one chunk for each."""
    return ForeignFrame(
        *(
            {
                "more": pa.array([True]),
                "amount": row.column("amount"),
                "user": row.column("user").cast(pa.string_view()),
            }
            for row in (batch.slice(at, 1) for at in range(batch.num_rows))
        )
    )


class Yielding(KeyedBatchFunction):
    """Puts out what ``make`` makes of each batch, and of ``last`` when the input has ended."""

    def __init__(self, make: Callable[..., Any], last: pa.RecordBatch | None = None) -> None:
        self._make = make
        self._last = last

    def process_batch(self, batch, keys, ctx):
        return self._make(batch, ctx)

    def finish(self):
        return None if self._last is None else frame_of(self._last)


@pytest.mark.parametrize(
    "make",
    [lambda batch, ctx: frame_of(batch), lambda batch, ctx: [frame_of(batch)]],
    ids=["returned", "yielded"],
)
def test_a_frame_of_another_library_is_output_by_the_names_of_its_columns(make):
    overlay = ops.run(ops.make_operator(Yielding(make)), ("a", 1, 5), ("b", 2, 5))
    assert ops.rows_of(overlay) == [("a", 1), ("b", 2)]
    assert next(iter(overlay.output())).schema == ops.ROWS


def test_its_rows_may_have_event_times():
    function = Yielding(lambda batch, ctx: [ctx.with_timestamps(frame_of(batch), [7, None])])
    overlay = ops.run(ops.make_operator(function, emit_timestamps=True), ("a", 1, 5), ("b", 2, 5))
    assert ops.rows_of(overlay) == [("a", 1, 7), ("b", 2, None)]
    assert next(iter(overlay.output())).schema.names[-1] == columns.TIMESTAMP


def test_it_may_be_the_last_one():
    operator = ops.make_operator(Yielding(lambda batch, ctx: None, ops.make_batch(("c", 3, 5))))
    overlay = ops.run(operator, ("a", 1, 5), after=MAX_WATERMARK)
    assert ops.rows_of(overlay) == [("c", 3)]


def test_a_frame_without_rows_is_nothing():
    empty = ForeignFrame({"user": pa.array([], pa.string_view()), "amount": pa.array([], pa.int8())})
    assert ops.rows_of(ops.run(ops.make_operator(Yielding(lambda batch, ctx: [empty])), ("a", 1, 5))) == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.array(["x", None], pa.large_string()), pa.string()),
        (pa.array([b"x", None], pa.binary_view()), pa.binary()),
        (pa.array([["x", None], []], pa.large_list(pa.string_view())), pa.list_(pa.string())),
        (pa.array([decimal.Decimal("1.50"), None], pa.decimal128(38, 2)), pa.decimal128(10, 2)),
        (CATEGORIES, pa.string()),
        (pa.array([0, 1], pa.timestamp("ms", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([{"f": "x"}, None], pa.struct([("f", pa.string_view())])), pa.struct([("f", pa.string())])),
    ],
    ids=lambda each: str(getattr(each, "type", "")),
)
def test_columns_have_the_types_of_the_output(given, wanted):
    schema = pa.schema([("found", wanted)])
    operator = ops.make_operator(
        Yielding(lambda batch, ctx: [ForeignFrame({"found": given})]), output_schema=schema
    )
    (found,) = ops.run(operator, ("a", 1, 5)).output()
    assert found.schema == schema
    assert found.column("found").to_pylist() == given.to_pylist()


@pytest.mark.parametrize(
    ("given", "wanted", "remedy"),
    [
        (pa.int64(), pa.timestamp("us", "UTC"), r"cast\(pa.timestamp\('ms', 'UTC'\)\)"),
        (pa.int32(), pa.date32(), "declare it as bigint"),
        (pa.timestamp("us"), pa.int64(), r"cast\(pa.int64\(\)\) gives milliseconds"),
    ],
    ids=str,
)
def test_numbers_are_no_times_and_times_no_numbers(given, wanted, remedy):
    for within in (
        lambda kind: kind,
        pa.list_,
        lambda kind: pa.map_(pa.string(), kind),
        lambda kind: pa.struct([("f", kind)]),
    ):
        frame = pa.record_batch({"found": pa.nulls(1, within(given))})
        with pytest.raises(frames.FrameError, match=f"column 'found': .* has no unit .*{remedy}"):
            frames.fitted(frame, pa.schema([("found", within(wanted))]))


def test_its_categories_are_written_into_state_as_text():
    class Keep(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(ValueStateDescriptor("kept", Types.STRING()))

        def process_batch(self, batch, keys, ctx):
            self.kept.update(keys, CATEGORIES)
            assert self.kept.get(keys).to_pylist() == ["x", None]

    ops.run(ops.make_operator(Keep()), ("a", 1, 5), ("b", 2, 5))


def test_a_column_that_is_not_there_is_told():
    function = Yielding(lambda batch, ctx: [ForeignFrame({"user": pa.array(["a"])})])
    with pytest.raises(errors.UserCodeError, match="the frame lacks the columns amount; it has: user"):
        ops.run(ops.make_operator(function), ("a", 1, 5))


@pytest.mark.extra
def test_a_column_of_more_bytes_than_an_array_has_is_refused():
    """The test takes 4 GiB."""
    text = pa.chunked_array([pa.array(["x" * 2**20] * 1024)] * 3)
    frame = pa.table({"user": text, "amount": range(len(text))})
    with pytest.raises(errors.UserCodeError, match=r"the frame of 3,072 rows has more than 2 GiB.*in parts"):
        ops.run(ops.make_operator(Yielding(lambda batch, ctx: [frame])), ("a", 1, 5))


def in_polars(batch, ctx):
    return polars.from_arrow(batch).select("amount", "user", more=polars.lit(True))


@pytest.mark.parametrize("make", [in_polars, lambda batch, ctx: [in_polars(batch, ctx)]])
def test_a_frame_of_polars_is_output_by_the_names_of_its_columns(make):
    overlay = ops.run(ops.make_operator(Yielding(make)), ("a", 1, 5), ("b", 2, 5))
    assert ops.rows_of(overlay) == [("a", 1), ("b", 2)]
    assert next(iter(overlay.output())).schema == ops.ROWS


def test_state_is_written_from_columns_of_polars():
    class Keep(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(ValueStateDescriptor("kept", Types.STRING()))

        def process_batch(self, batch, keys, ctx):
            categories = polars.Series(["x", None], dtype=polars.Categorical)
            for given in (polars.Series(["x", None]), categories):
                self.kept.update(keys, given)
                assert self.kept.get(keys).to_pylist() == ["x", None]

    ops.run(ops.make_operator(Keep()), ("a", 1, 5), ("b", 2, 5))


DOUBLE, FLOAT = pa.float64(), pa.float32()
SHAPES: dict[str, tuple[Callable[[pa.DataType], pa.DataType], Callable[[Any], Any]]] = {
    "alone": (lambda kind: kind, lambda value: value),
    "list": (pa.list_, lambda value: [1.0, value]),
    "list of one": (lambda kind: pa.list_(kind, 1), lambda value: [value]),
    "struct": (lambda kind: pa.struct({"n": pa.int64(), "v": kind}), lambda value: {"n": 1, "v": value}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("a", value)]),
    "list of structs": (lambda kind: pa.list_(pa.struct({"v": kind})), lambda value: [{"v": value}]),
}


@pytest.mark.parametrize(("kind", "made"), SHAPES.values(), ids=SHAPES)
def test_a_number_that_would_become_infinite_is_refused_as_it_is_in_a_row(kind: Any, made: Any) -> None:
    wanted = pa.schema([("v", kind(FLOAT))])

    def fitted(*values: Any) -> list[Any]:
        given = [None if value is None else made(value) for value in values]
        column = pa.concat_arrays(
            [pa.array([made(1e300)], kind(DOUBLE)), pa.array(given, kind(DOUBLE))]
        ).slice(1)
        return frames.fitted(pa.record_batch([column], names=["v"]), wanted).column(0).to_pylist()

    fine = [1.5, None, float("inf"), -3.0]
    assert fitted(*fine) == pa.array([None if v is None else made(v) for v in fine], kind(FLOAT)).to_pylist()
    with pytest.raises(
        frames.FrameError, match=r"'v': -1e\+300 would become infinite in .*declare it as double"
    ):
        fitted(1.5, None, float("inf"), -1e300)
