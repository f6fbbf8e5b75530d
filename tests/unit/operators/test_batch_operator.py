"""The operator whose function is called with Arrow batches: calls, outputs, timers, errors."""

from __future__ import annotations

import datetime
import decimal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.operators import driven as ops

from sparkstate import columns, errors
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.batches.functions import KeyedBatchFunction, RowError
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, OutputTag
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.state.descriptors import (
    ValueStateDescriptor,
)
from sparkstate.testing import ManualClock

TOTAL = ValueStateDescriptor("total", Types.LONG())
BIG = OutputTag("big", "user string, amount long")


class Sum(KeyedBatchFunction):
    """Running sum per user, answered for each row."""

    def open(self, ctx):
        self.total = ctx.get_state(TOTAL)
        assert ctx.get_state(TOTAL) is self.total

    def process_batch(self, batch, keys, ctx):
        before = self.total.get(keys, default=0)
        self.total.update(keys, pc.add(before, keys.sum("amount")))
        yield batch.set_column(1, "amount", keys.cumulative_sum("amount", start=before))


def process(function, *rows, **options):
    """An open operator after one epoch of these rows, and its overlay."""
    operator = ops.make_operator(function, **options)
    return operator, ops.run(operator, *rows)


def test_state_and_output_of_two_epochs():
    operator, overlay = process(Sum(), ("a", 1, 5), ("b", 2, 6), ("a", 3, 4))
    assert ops.rows_of(overlay) == [("a", 1), ("b", 2), ("a", 4)]
    assert (overlay.rows_in, overlay.max_timestamp, overlay.late_rows) == (3, 6, 0)
    assert operator.read_state("total", "a") == 4
    assert operator.read_state("total", "nobody") is None
    assert ops.rows_of(ops.run(operator, ("a", 10, 5), ("c", 1, 5))) == [("a", 14), ("c", 1)]


def test_nothing_is_state_before_the_commit():
    operator, _ = process(Sum(), ("a", 1, 5))
    overlay = operator.begin(2, MIN_WATERMARK, 0)
    operator.process_batch(overlay, ops.make_batch(("a", 10, 5)))
    operator.finish(overlay, MAX_WATERMARK)
    assert operator.read_state("total", "a") == 1
    commit_overlays([(operator, overlay)])
    assert operator.read_state("total", "a") == 11


class Yielding(KeyedBatchFunction):
    def __init__(self, make):
        self.make = make

    def process_batch(self, batch, keys, ctx):
        return self.make(batch, keys, ctx)


@pytest.mark.parametrize(
    "frame",
    [
        lambda batch: batch.select(["user", "amount"]),
        lambda batch: pa.Table.from_batches([batch.slice(0, 1), batch.slice(1)]).select(["amount", "user"]),
        lambda batch: batch.to_pandas()[["user", "amount"]],
        lambda batch: pd.DataFrame({"amount": [1, 2], "more": 0, "user": ["a", "b"]}, index=[7, 8]),
        lambda batch: pa.record_batch({"user": ["a", "b"], "amount": pa.array([1, 2], pa.int8())}),
    ],
    ids=["batch", "table", "pandas", "pandas with an index", "another type of number"],
)
def test_frames_of_other_libraries_are_outputs_by_the_names_of_their_columns(frame):
    _, overlay = process(Yielding(lambda batch, keys, ctx: [frame(batch)]), ("a", 1, 5), ("b", 2, 5))
    assert ops.rows_of(overlay) == [("a", 1), ("b", 2)]
    assert next(iter(overlay.output())).schema == ops.ROWS


def test_nothing_may_be_yielded():
    _, overlay = process(Yielding(lambda batch, keys, ctx: None), ("a", 1, 5))
    assert ops.rows_of(overlay) == []


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (lambda batch: batch.select(["user"]), "the frame lacks the columns amount; it has: user"),
        (
            lambda batch: pa.record_batch({"user": ["a"], "amount": ["many"]}),
            "column 'amount' of type string does not fit int64",
        ),
        (lambda batch: {"user": ["a"]}, "dict is not a frame of columns; yield a pa.RecordBatch"),
        (lambda batch: ("a", 1), "tuple is not a frame"),
    ],
)
def test_a_frame_that_does_not_fit_is_told(frame, message):
    with pytest.raises(
        errors.UserCodeError, match=rf"operator 'op', epoch 1: .*does not fit its output: {message}"
    ):
        process(Yielding(lambda batch, keys, ctx: [frame(batch)]), ("a", 1, 5))


def test_side_outputs():
    def make(batch, keys, ctx):
        yield BIG, batch.filter(pc.greater(batch.column("amount"), 99))
        yield batch.filter(pc.less(batch.column("amount"), 100))
        yield OutputTag("nobody"), batch

    _, overlay = process(Yielding(make), ("a", 1, 5), ("b", 200, 5), side_schemas={"big": ops.ROWS})
    assert ops.rows_of(overlay) == [("a", 1)]
    assert ops.rows_of(overlay, "big") == [("b", 200)]
    assert overlay.dropped_rows == 2


def test_late_rows_are_not_part_of_the_batch():
    operator = ops.make_operator(Sum(), late_tag="late", side_schemas={"late": ops.ROWS})
    overlay = ops.run(operator, ("a", 1, 5), ("a", 2, 11), before=10)
    assert ops.rows_of(overlay) == [("a", 2)]
    assert ops.rows_of(overlay, "late") == [("a", 1)]


def test_rows_are_sorted_by_event_time_first():
    operator = ops.make_operator(Sum(), sort_by_event_time=True)
    overlay = ops.run(operator, ("a", 1, 9), ("a", 2, 3), ("b", 4, 1))
    assert ops.rows_of(overlay) == [("b", 4), ("a", 2), ("a", 3)]


def test_timestamps_of_rows_reach_the_next_operator():
    def make(batch, keys, ctx):
        assert ctx.timestamps().to_pylist() == [5, None]
        yield ctx.with_timestamps(batch.to_pandas(), [7, None])
        yield batch.slice(0, 1)

    _, overlay = process(Yielding(make), ("a", 1, 5), ("b", 2, None), emit_timestamps=True)
    assert ops.rows_of(overlay) == [("a", 1, 7), ("b", 2, None), ("a", 1, None)]
    assert next(iter(overlay.output())).schema.names[-1] == columns.TIMESTAMP
    with pytest.raises(errors.UserCodeError, match="1 timestamps for a frame of 2 rows"):
        process(
            Yielding(lambda batch, keys, ctx: [ctx.with_timestamps(batch, [1])]), ("a", 1, 5), ("b", 2, 5)
        )


def test_keys_of_several_columns():
    class Count(KeyedBatchFunction):
        def open(self, ctx):
            self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_batch(self, batch, keys, ctx):
            assert keys.values.to_pylist() == [{"f0": "a", "f1": 1}, {"f0": "b", "f1": 1}]
            self.count.update(keys, keys.size())

    operator, _ = process(
        Count(),
        ("a", 1, 5),
        ("b", 1, 5),
        ("a", 1, 5),
        key_columns=("user", "amount"),
        key_type=Types.TUPLE([Types.STRING(), Types.LONG()]),
    )
    assert operator.read_state("count", ("a", 1), key_group=ops.key_group("a")) == 2


def test_event_times_are_whole_milliseconds():
    def make(stamps):
        return Yielding(lambda batch, keys, ctx: [ctx.with_timestamps(batch, stamps)])

    for stamps in (pa.array([5], pa.timestamp("us")), pd.Series(pd.to_datetime([5])), [True], [1.5]):
        with pytest.raises(errors.UserCodeError, match="give whole milliseconds"):
            process(make(stamps), ("a", 1, 5))

    def twice(batch, keys, ctx):
        yield ctx.with_timestamps(ctx.with_timestamps(batch, [1]), [2])

    _, overlay = process(Yielding(twice), ("a", 1, 5), emit_timestamps=True)
    assert ops.rows_of(overlay) == [("a", 1, 2)]


def test_a_struct_column_with_other_fields_is_no_output():
    schema = pa.schema([("s", pa.struct([("low", pa.int64())]))])
    with pytest.raises(
        errors.UserCodeError, match="column 's': a struct of lo is given where the fields are: low"
    ):
        process(
            Yielding(lambda batch, keys, ctx: [pa.record_batch({"s": pa.array([{"lo": 1}])})]),
            ("a", 1, 5),
            output_schema=schema,
        )


def test_a_small_slice_does_not_keep_its_batch_in_memory():
    rows = [(f"user-{number}", number, 1) for number in range(20_000)]
    _, overlay = process(Yielding(lambda batch, keys, ctx: [batch.slice(0, 1), batch.slice(0, 0)]), *rows)
    (batch,) = overlay.output()
    assert batch.num_rows == 1
    assert batch.get_total_buffer_size() < 10_000


def test_a_frame_may_be_returned():
    _, overlay = process(Yielding(lambda batch, keys, ctx: batch.to_pandas()), ("a", 1, 5))
    assert ops.rows_of(overlay) == [("a", 1)]


# --- timers


class Timed(KeyedBatchFunction):
    """Each row sets a timer for its amount; a timer of 10 sets one for 15 and deletes that for 20."""

    def open(self, ctx):
        self.calls = []

    def process_batch(self, batch, keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, keys.last("amount"))

    def on_timers(self, timestamps, keys, ctx):
        self.calls.append((ctx.time_domain().name, timestamps.to_pylist(), keys.values.to_pylist()))
        is_ten = pc.equal(timestamps, 10)
        ctx.timer_service().register_event_time_timers(keys, pa.array([15] * len(keys)), mask=is_ten)
        ctx.timer_service().delete_event_time_timers(keys, pa.array([20] * len(keys)), mask=is_ten)
        yield pa.record_batch({"user": keys.values, "amount": timestamps})


def test_timers_fire_in_sets_that_hold_each_key_once():
    function = Timed()
    operator = ops.make_operator(function)
    for amount in (10, 20, 30):
        ops.run(operator, ("a", amount, 1), ("b", amount + 1, 1))
    overlay = ops.run(operator, before=5, after=100)
    assert function.calls == [
        ("EVENT_TIME", [10, 11], ["a", "b"]),
        ("EVENT_TIME", [15, 21], ["a", "b"]),
        ("EVENT_TIME", [30, 31], ["a", "b"]),
    ]
    assert overlay.timers_fired == 6
    assert operator.next_timer() == (None, None)


def test_a_timestamp_has_to_be_whole():
    def make(batch, keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, [1.5])

    with pytest.raises(
        errors.UserCodeError, match="timestamps are an array of double; give whole milliseconds"
    ):
        process(Yielding(make), ("a", 1, 5))


@pytest.mark.parametrize(
    ("kind", "key_type", "value"),
    [
        (pa.int32(), Types.INT(), 7),
        (pa.float32(), Types.DOUBLE(), 0.5),
        (pa.large_string(), Types.STRING(), "a"),
        (pa.decimal128(38, 0), Types.BIG_DEC(), decimal.Decimal(10) ** 26),
        (pa.decimal128(38, 20), Types.BIG_DEC(), decimal.Decimal("0.12345678901234567891")),
        (pa.timestamp("us", "UTC"), Types.INSTANT(), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
    ],
    ids=str,
)
def test_keys_have_one_type_in_both_calls(kind, key_type, value):
    seen = []

    class Timed(KeyedBatchFunction):
        def process_batch(self, batch, keys, ctx):
            seen.append(keys.values)
            ctx.timer_service().register_event_time_timers(keys, [10])

        def on_timers(self, timestamps, keys, ctx):
            seen.append(keys.values)

    operator = ops.make_operator(
        Timed(), row_columns=("k",), key_columns=("k",), key_type=key_type, event_time_column=None
    )
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    group = pa.array([ops.key_group(value)], pa.int32())
    operator.process_batch(overlay, pa.record_batch({"k": pa.array([value], kind), columns.KEY_GROUP: group}))
    operator.finish(overlay, 100)
    assert len(seen) == 2
    assert seen[0].equals(seen[1])


def test_one_key_with_many_timers_gives_few_batches_of_output():
    class Many(KeyedBatchFunction):
        def process_batch(self, batch, keys, ctx):
            for at in range(9000):
                ctx.timer_service().register_event_time_timers(keys, [at])

        def on_timers(self, timestamps, keys, ctx):
            yield pa.record_batch({"user": keys.values, "amount": timestamps})

    operator = ops.make_operator(Many())
    overlay = ops.run(operator, ("a", 1, 1), after=10_000)
    batches = list(overlay.output())
    assert [batch.num_rows for batch in batches] == [8192, 808]
    assert ops.rows_of(overlay) == [("a", at) for at in range(9000)]


# --- errors


def test_an_error_names_operator_epoch_and_the_row_that_the_function_names():
    def broken(batch, keys, ctx):
        raise ValueError("no")

    def negative(batch, keys, ctx):
        raise RowError(1, "negative amount")

    with pytest.raises(
        errors.UserCodeError, match="operator 'op', epoch 1, a batch of 2 rows: ValueError: no"
    ):
        process(Yielding(broken), ("a", 1, 5), ("b", -2, 5))
    with pytest.raises(
        errors.UserCodeError, match=r"epoch 1, row \{'user': 'b', 'amount': -2\}: RowError: negative"
    ):
        process(Yielding(negative), ("a", 1, 5), ("b", -2, 5))


def test_keys_of_another_call_are_refused():
    kept = []

    class Keep(Sum):
        def process_batch(self, batch, keys, ctx):
            kept.append(keys)
            self.total.get(kept[0])

    operator, _ = process(Keep(), ("a", 1, 5))
    with pytest.raises(errors.UserCodeError, match="these keys are not those of the call at hand"):
        ops.run(operator, ("a", 1, 5))
    with pytest.raises(errors.UserCodeError, match="the first argument is the call's keys, not 3"):
        process(
            Yielding(lambda batch, keys, ctx: ctx.timer_service().register_event_time_timers(3, [1])),
            ("a", 1, 5),
        )


def test_pickled_state_has_no_columns():
    class Pickled(KeyedBatchFunction):
        def open(self, ctx):
            ctx.get_state(ValueStateDescriptor("anything", Types.PICKLED_BYTE_ARRAY()))

    with pytest.raises(
        errors.DeclarationError, match="state 'anything' of operator 'op': values of type PICKLED"
    ):
        ops.make_operator(Pickled())


def test_a_value_that_does_not_fit_its_state_is_refused():
    class Small(Sum):
        def open(self, ctx):
            self.total = ctx.get_state(ValueStateDescriptor("total", Types.BYTE()))

    with pytest.raises(errors.UserCodeError, match=r"state 'total' of operator 'op': .*does not fit BYTE"):
        process(Small(), ("a", 1000, 5))


# --- beyond memory


def test_an_overlay_beyond_memory_gives_the_same(tmp_path):
    settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=16 * MIB)
    factory = RocksDBStoreFactory(settings, tmp_path / "factory", ManualClock())
    stores = {
        n: factory.create(n, ops.KEY_SPACE.key_groups_of_shard(n), tmp_path / f"shard-{n}") for n in range(4)
    }
    budget = EpochBudget(tmp_path / "overlays", factory, limit_bytes=200_000)
    operator = ops.make_operator(Sum(), stores, budget=budget)
    rows = [(f"user-{number % 700}", number, number) for number in range(9000)]
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    for start in range(0, len(rows), 3000):
        operator.process_batch(overlay, ops.make_batch(*rows[start : start + 3000]))
    operator.finish(overlay, MIN_WATERMARK)
    answers = ops.rows_of(overlay)
    commit_overlays([(operator, overlay)])
    assert budget.spilled > 0
    _, plain = process(Sum(), *rows)
    assert answers == ops.rows_of(plain)
    assert operator.read_state("total", "user-3") == sum(range(3, 9000, 700))
    operator.close()
    for store in stores.values():
        store.close()
    factory.close()
