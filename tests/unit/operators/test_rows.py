"""Rows in and out: columns and keys of every type, and what may be yielded."""

from __future__ import annotations

import datetime
import math

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import errors
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction, OutputTag
from sparkstate.operators import compiled
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor


class Sum(KeyedProcessFunction):
    """Running sum per key, and a timer a second after each record."""

    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.amount)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)


class Yields(KeyedProcessFunction):
    def __init__(self, *rows):
        self.rows = rows

    def process_element(self, value, ctx):
        return list(self.rows)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(("u", 1), id="tuple"),
        pytest.param(["u", 1], id="list"),
        pytest.param({"amount": 1, "user": "u"}, id="dict by name"),
    ],
)
def test_a_row_may_be_yielded_as(row):
    assert ops.rows_of(ops.run(ops.make_operator(Yields(row, ("v", None))), ("a", 1, 1))) == [
        ("u", 1),
        ("v", None),
    ]


@pytest.mark.parametrize("is_compiled", ["0", "1"])
def test_a_row_of_the_input_goes_by_its_names_wherever_the_output_has_them(is_compiled, monkeypatch):
    """Both columns hold whole numbers, so that nothing but the names tells them apart."""

    class Same(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value
            yield value.low, value.high

    monkeypatch.setenv(compiled.VARIABLE, is_compiled)
    batch = ops.make_batch(("a", 9, 1), ("b", 8, 1))
    batch = batch.append_column("high", batch.column("amount")).append_column("low", pa.array([1, 2]))
    for names in (["low", "high"], ["lowest", "high"]):
        schema = pa.schema([(name, pa.int64()) for name in names])
        keyed = {"key_columns": ("low",), "key_type": Types.LONG(), "row_columns": ("high", "low")}
        operator = ops.make_operator(Same(), output_schema=schema, **keyed)
        overlay = operator.begin(1, MIN_WATERMARK, 0)
        if names[0] == "low":
            operator.process_batch(overlay, batch)
            assert ops.rows_of(overlay) == [(1, 9)] * 2 + [(2, 8)] * 2
        else:
            with pytest.raises(errors.UserCodeError, match=r"the row Row\(high=9, low=1\) has other names"):
                operator.process_batch(overlay, batch)


def test_a_single_column_may_be_yielded_bare():
    schema = pa.schema([("n", pa.float64())])
    operator = ops.make_operator(Yields(1.5, 2), output_schema=schema)
    assert ops.rows_of(ops.run(operator, ("a", 1, 1))) == [(1.5,), (2.0,)]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        pytest.param(("u",), r"\('u',\) has 1 values; the output has 2 columns: user, amount", id="short"),
        pytest.param(("u", 1, 2), "has 3 values", id="long"),
        pytest.param(("u", "x"), "'x' .*str.* does not fit column 'amount' of type int64", id="wrong type"),
        pytest.param(("u", 2**63), "9223372036854775808 .* does not fit column 'amount'", id="too large"),
        pytest.param(
            ("u", 1.5), "1.5 .* does not fit column 'amount' of type int64: it would", id="fraction"
        ),
        pytest.param({"user": "u"}, "other names than the output", id="missing name"),
        pytest.param("u", "'u' is not a row", id="no row"),
    ],
)
def test_a_row_that_does_not_fit_names_the_operator_and_what_is_wrong(row, complaint):
    operator = ops.make_operator(Yields(("good", 1), row), side_schemas={"big": ops.ROWS})
    with pytest.raises(errors.UserCodeError, match=f"(?s)operator 'op', epoch 1.*{complaint}"):
        ops.run(operator, ("a", 1, 1))


@pytest.mark.parametrize(
    "row", [("u", "x" * 100_000), ("u" * 100_000,), {"user": "u" * 100_000}, "u" * 100_000]
)
def test_a_large_value_that_does_not_fit_is_shown_in_part(row):
    with pytest.raises(errors.UserCodeError) as raised:
        ops.run(ops.make_operator(Yields(row)), ("a", 1, 1))
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("sides", [{}, {"big": ops.ROWS}], ids=["none is read", "another is read"])
def test_rows_for_a_side_output_that_nobody_reads_are_counted_and_dropped(sides):
    rows = (("good", 1), (OutputTag("nobody"), ("u", 1)), (OutputTag("nobody"), ("u", 2)))
    operator = ops.make_operator(Yields(*rows), side_schemas=sides)
    overlay = ops.run(operator, ("a", 1, 1), ("b", 1, 1))
    assert ops.rows_of(overlay) == [("good", 1), ("good", 1)]
    assert overlay.dropped_rows == 4


def test_rejected_and_late_rows_that_nobody_reads_are_counted_and_dropped():
    class Picky(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value.amount < 0:
                raise ValueError("negative")
            yield value.user, value.amount

    operator = ops.make_operator(Picky(), on_error="side-output", late_tag="late")
    overlay = operator.begin(1, 100, 0)
    operator.process_batch(overlay, ops.make_batch(("a", -1, 200), ("a", 1, 200), ("a", 1, 50)))
    operator.finish(overlay, 200)
    assert ops.rows_of(overlay) == [("a", 1)]
    assert (overlay.late_rows, overlay.dropped_rows) == (1, 2)  # the other one is the rejected row


def test_columns_of_every_kind_reach_the_function_with_their_nulls():
    seen = []

    class Collect(KeyedProcessFunction):
        def process_element(self, value, ctx):
            seen.append(tuple(value))

    values = {
        "i": pa.array([1, None, 3], pa.int16()),
        "f": pa.array([0.5, None, math.inf]),
        "s": pa.array(["x", None, ""]),
        "b": pa.array([True, None, False]),
        "d": pa.array([datetime.date(2013, 1, 1), None, None]),
        "l": pa.array([[1], None, []], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "r": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())])),
    }
    batch = ops.make_batch(("a", 1, 1), (None, 2, 2), ("c", 3, 3))
    for name, array in values.items():
        batch = batch.append_column(name, array)
    operator = ops.make_operator(Collect(), row_columns=("user", *values))
    operator.process_batch(operator.begin(1, MIN_WATERMARK, 0), batch)
    assert seen == [
        ("a", 1, 0.5, "x", True, datetime.date(2013, 1, 1), [1], {"k": 1}, {"x": 1}),
        (None,) * 9,
        ("c", 3, math.inf, "", False, None, [], {}, {"x": None}),
    ]


def test_null_and_nan_are_keys_like_others():
    class Count(KeyedProcessFunction):
        def open(self, ctx):
            self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield repr(ctx.get_current_key()), self.count.value()

    operator = ops.make_operator(Count(), key_columns=("k",), key_type=Types.DOUBLE())
    for expected in (1, 2):
        batch = ops.make_batch(("x", 1, 1), ("y", 1, 1), key_groups=[3, 4])
        batch = batch.append_column("k", pa.array([float("nan"), None]))
        overlay = operator.begin(expected, MIN_WATERMARK, 0)
        operator.process_batch(overlay, batch)
        operator.finish(overlay, MIN_WATERMARK)
        commit_overlays([(operator, overlay)])
        assert ops.rows_of(overlay) == [("nan", expected), ("None", expected)]


def test_state_under_a_composite_key_with_a_null_can_be_read():
    key_type = Types.TUPLE([Types.STRING(), Types.LONG()])
    operator = ops.make_operator(Sum(), key_columns=("user", "amount"), key_type=key_type)
    ops.run(operator, (None, 5, 1), ("a", 7, 1), (None, 5, 1))
    assert [operator.read_state("total", key) for key in ((None, 5), ("a", 7), ("a", None))] == [10, 7, None]


@pytest.mark.parametrize(
    ("declared", "column"),
    [
        pytest.param(
            Types.INSTANT(), pa.array([0, 10**15], pa.timestamp("us", tz="Europe/Berlin")), id="with a zone"
        ),
        pytest.param(Types.SQL_TIMESTAMP(), pa.array([0, 10**15], pa.timestamp("us")), id="without a zone"),
        pytest.param(Types.BIG_DEC(), pa.array([1, 2]).cast(pa.decimal128(22, 2)), id="decimal"),
        pytest.param(Types.SQL_DATE(), pa.array([1, 2], pa.int32()).cast(pa.date32()), id="date"),
        pytest.param(Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.array([b"", b"\0"]), id="binary"),
        pytest.param(Types.BOOLEAN(), pa.array([True, None]), id="boolean"),
    ],
)
def test_keys_of_every_type_survive_a_snapshot(declared, column, tmp_path):
    function, stores = Sum(), ops.make_stores()
    operator = ops.make_operator(function, stores, key_columns=("k",), key_type=declared)
    batch = ops.make_batch(("a", 1, 1), ("b", 2, 1), key_groups=[0, 1]).append_column("k", column)
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    operator.process_batch(overlay, batch)
    operator.finish(overlay, MIN_WATERMARK)
    commit_overlays([(operator, overlay)])
    taken = stores[0].prepare_snapshot(1, tmp_path, True)
    restored = ops.make_stores()
    restored[0].restore({file.name: file.path for file in taken.files()}, taken.format)
    again = ops.make_operator(Sum(), restored, key_columns=("k",), key_type=declared)
    keys = column.to_pylist()
    assert [again.read_state("total", key) for key in keys] == [1, 2]
    assert again.next_timer() == (1001, None)


def test_several_key_columns_make_a_tuple():
    class Keys(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key()

    operator = ops.make_operator(
        Keys(), key_columns=("user", "amount"), key_type=Types.TUPLE([Types.STRING(), Types.LONG()])
    )
    assert ops.rows_of(ops.run(operator, ("a", 1, 1), ("a", 2, 1))) == [("a", 1), ("a", 2)]
