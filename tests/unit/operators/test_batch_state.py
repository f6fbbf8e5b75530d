"""State on columns: values of every type, masks and nulls, lists, maps, aggregates, namespaces."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.operators import driven as ops

from sparkstate import errors
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.serde import scalars
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.state.folding import AggregateFunction

TOTAL = ValueStateDescriptor("total", Types.LONG())


def process(function, *rows):
    """An open operator after one epoch of these rows, and its overlay."""
    operator = ops.make_operator(function)
    return operator, ops.run(operator, *rows)


VALUES = [
    (Types.BOOLEAN(), pa.array([True, False])),
    (Types.BYTE(), pa.array([-128, 127], pa.int8())),
    (Types.LONG(), pa.array([-(2**63), 2**63 - 1])),
    (Types.DOUBLE(), pa.array([float("inf"), -0.5])),
    (Types.STRING(), pa.array(["", "ä"])),
    (Types.BIG_INT(), pa.array([decimal.Decimal(10**30), decimal.Decimal(-1)], pa.decimal256(76, 0))),
    (Types.BIG_DEC(), pa.array([decimal.Decimal("1.50"), decimal.Decimal(10) ** 24], pa.decimal256(76, 38))),
    (Types.SQL_DATE(), pa.array([datetime.date(2026, 1, 2), datetime.date(1969, 1, 1)])),
    (Types.SQL_TIME(), pa.array([datetime.time(1, 2, 3, 4), datetime.time()], pa.time64("us"))),
    (
        Types.SQL_TIMESTAMP(),
        pa.array([datetime.datetime(2026, 1, 2, 3), datetime.datetime(1, 1, 1)], pa.timestamp("us")),
    ),
    (Types.INSTANT(), pa.array([0, 1], pa.timestamp("us", "UTC"))),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), pa.array([b"", b"\x00"])),
    (Types.ENUM("RED", "GREEN"), pa.array(["GREEN", "RED"])),
    (Types.LIST(Types.ENUM("RED", "GREEN")), pa.array([["GREEN"], []])),
    (Types.LIST(Types.LONG()), pa.array([[], [1, 2]])),
    (Types.MAP(Types.STRING(), Types.LONG()), pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), pa.array([{"f0": 1, "f1": "a"}, {"f0": 2, "f1": "b"}])),
    (
        Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.LIST(Types.STRING())]),
        pa.array([{"x": 1, "y": ["a"]}, {"x": None, "y": None}]),
    ),
]


@pytest.mark.parametrize(
    ("declared", "values"), VALUES, ids=lambda each: str(getattr(each, "describe", str)())
)
def test_values_of_every_type_come_back_as_they_were_written(declared, values):
    found = []

    class Keep(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(ValueStateDescriptor("kept", declared))

        def process_batch(self, batch, keys, ctx):
            found.append(self.kept.get(keys))
            self.kept.update(keys, values)
            found.append(self.kept.get(keys))

    operator, _ = process(Keep(), ("a", 1, 5), ("b", 2, 5))
    ops.run(operator, ("a", 1, 5), ("b", 2, 5))
    assert found[0].to_pylist() == [None, None]
    assert found[1] == found[2]
    assert found[1].to_pylist() == values.to_pylist()


@pytest.mark.parametrize("declared", [Types.FLOAT(), Types.DOUBLE()], ids=["FLOAT", "DOUBLE"])
def test_every_nan_is_stored_as_the_one(declared):
    """Computed ones have other bits, and equal state gives equal bytes."""
    computed = np.array([0xFFF8 << 48, (0x7FF8 << 48) + 1], np.uint64).view(np.float64)

    class Keep(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(ValueStateDescriptor("kept", declared))

        def process_batch(self, batch, keys, ctx):
            self.kept.update(keys, [*computed, None, 1.5])

    operator, _ = process(Keep(), *((name, 1, 5) for name in "abcd"))
    found = [operator.read_value("kept", name, None, ops.key_group(name)) for name in "abcd"]
    assert found == [scalars.NAN, scalars.NAN, None, 1.5]
    assert found[0] is found[1] is scalars.NAN


def test_masks_defaults_and_nulls_of_a_value_state():
    class Steps(KeyedBatchFunction):
        def open(self, ctx):
            self.total = ctx.get_state(TOTAL)

        def process_batch(self, batch, keys, ctx):
            self.total.update(keys, [1, 2, 3])
            self.total.update(keys, [10, 20, None], mask=[True, None, True])
            assert self.total.get(keys).to_pylist() == [10, 2, None]
            assert self.total.get(keys, default=7).to_pylist() == [10, 2, 7]
            assert self.total.get(keys, default=pa.array([0, 0, 9])).to_pylist() == [10, 2, 9]
            self.total.clear(keys, mask=[False, True, False])
            assert self.total.get(keys).to_pylist() == [10, None, None]

    operator, _ = process(Steps(), ("a", 1, 5), ("b", 2, 5), ("c", 3, 5))
    assert [operator.read_state("total", key) for key in "abc"] == [10, None, None]


def test_lists_and_maps():
    class Steps(KeyedBatchFunction):
        def open(self, ctx):
            self.all = ctx.get_list_state(ListStateDescriptor("all", Types.LONG()))
            self.last = ctx.get_map_state(MapStateDescriptor("last", Types.LONG(), Types.STRING()))

        def process_batch(self, batch, keys, ctx):
            self.all.add(keys, "amount")
            self.all.add_all(keys, pa.array([[7, 8], None]))
            assert self.all.get(keys).to_pylist() == [[1, 3, 7, 8], [2]]
            self.all.update(keys, pa.array([[0], [5]]), mask=[True, False])
            self.last.put(keys, "amount", ["x", "y", None])
            assert self.last.get(keys, [1, 1, 9]).to_pylist() == ["x", None, None]
            assert self.last.contains(keys, [1, 1, 3]).to_pylist() == [True, False, True]
            self.last.remove(keys, pa.array([1, 0, 0]))
            assert self.last.items(keys).to_pylist() == [[(3, None)], [(2, "y")]]

    operator, _ = process(Steps(), ("a", 1, 5), ("b", 2, 5), ("a", 3, 5))
    assert [operator.read_state("all", key) for key in "ab"] == [[0], [2]]


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_aggregates():
    class Steps(KeyedBatchFunction):
        def open(self, ctx):
            kept = Types.TUPLE([Types.LONG(), Types.LONG()])
            self.average = ctx.get_aggregating_state(AggregatingStateDescriptor("average", Average(), kept))

        def process_batch(self, batch, keys, ctx):
            self.average.add(keys, "amount")
            assert self.average.get(keys).to_pylist() == [2.0, 2.0]

    operator, _ = process(Steps(), ("a", 1, 5), ("b", 2, 5), ("a", 3, 5))
    assert operator.read_value("average", "a") == (4, 2)


def test_namespaces_end_with_the_call():
    class Steps(KeyedBatchFunction):
        def open(self, ctx):
            self.total = ctx.get_state(TOTAL)

        def process_batch(self, batch, keys, ctx):
            assert self.total.get(keys).to_pylist() == [None]
            self.total.set_current_namespace("room")
            self.total.update(keys, pc.add(self.total.get(keys, default=0), keys.sum("amount")))

    operator, _ = process(Steps(), ("a", 1, 5))
    ops.run(operator, ("a", 2, 5))
    assert operator.read_state("total", "a") is None
    assert operator.read_state("total", "a", namespace="room") == 3


@pytest.mark.parametrize(
    "number", ["1.50", "12345678901234567890.123456789012345678", "0.12345678901234567891", "-7"]
)
def test_a_decimal_is_stored_as_a_function_per_record_stores_it(number):
    value = decimal.Decimal(number)
    kind = pa.decimal128(38, -value.as_tuple().exponent)
    kept = ValueStateDescriptor("kept", Types.BIG_DEC())

    class Keep(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(kept)

        def process_batch(self, batch, keys, ctx):
            self.kept.update(keys, pa.array([value], kind))
            assert self.kept.get(keys).to_pylist() == [value]

    operator, _ = process(Keep(), ("a", 1, 5))
    assert str(operator.read_value("kept", "a")) == str(value)


@pytest.mark.parametrize(
    "struct",
    [{"lo": 1, "hi": 2.0}, {"low": 1}, {"low": 1, "high": 2.0, "more": 3}],
    ids=["other", "fewer", "more"],
)
def test_a_struct_with_other_fields_is_refused(struct):
    declared = Types.ROW_NAMED(["low", "high"], [Types.LONG(), Types.DOUBLE()])

    class Keep(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(ValueStateDescriptor("kept", declared))

        def process_batch(self, batch, keys, ctx):
            self.kept.update(keys, pa.array([struct]))

    with pytest.raises(errors.UserCodeError, match=r"does not fit ROW<.*where the fields are: low, high"):
        process(Keep(), ("a", 1, 5))


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        (Types.LONG(), pa.array(["12"])),
        (Types.LONG(), pa.array([True])),
        (Types.LONG(), pa.array([0], pa.timestamp("us"))),
        (Types.BOOLEAN(), pa.array([7])),
        (Types.STRING(), pa.array([7])),
        (Types.INSTANT(), pa.array([0], pa.timestamp("us"))),
        (Types.SQL_TIMESTAMP(), pa.array([0], pa.timestamp("us", "UTC"))),
        (Types.LIST(Types.LONG()), pa.array([["a"]])),
    ],
)
def test_values_of_another_kind_are_refused_as_a_function_per_record_does_it(declared, given):
    class Keep(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(ValueStateDescriptor("kept", declared))

        def process_batch(self, batch, keys, ctx):
            self.kept.update(keys, given)

    with pytest.raises(errors.UserCodeError, match="does not fit"):
        process(Keep(), ("a", 1, 5))


def test_a_value_that_the_mask_leaves_out_need_not_fit():
    class Small(KeyedBatchFunction):
        def open(self, ctx):
            self.kept = ctx.get_state(ValueStateDescriptor("kept", Types.BYTE()))

        def process_batch(self, batch, keys, ctx):
            self.kept.update(keys, [1, 1000], mask=[True, False])
            self.kept.update(keys, [2, 2], mask=[None, None])

    operator, _ = process(Small(), ("a", 1, 5), ("b", 1, 5))
    assert [operator.read_state("kept", key) for key in "ab"] == [1, None]
