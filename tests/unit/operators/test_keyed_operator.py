"""The operator over Arrow batches: overlays, late and rejected rows, outputs, errors."""

from __future__ import annotations

import gc
import pathlib
import re

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import columns, errors
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, KeyedProcessFunction, OutputTag
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

BIG = OutputTag("big", "user string, amount long")
REJECTED = pa.schema([*ops.ROWS, ("error", pa.string())])


class Sum(KeyedProcessFunction):
    """Running sum per user; -1 raises after it has changed everything, -2 in the timer it registers."""

    def open(self, ctx):
        self.subtask = (
            ctx.get_task_name(),
            ctx.get_index_of_this_subtask(),
            ctx.get_number_of_parallel_subtasks(),
        )
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.all = ctx.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        self.all.add(value.amount)
        self.seen.put(value.amount, ctx.timestamp())
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        yield value.user, total
        if value.amount >= 100:
            yield BIG, (value.user, value.amount)
        if value.amount == -1:
            self.all.update([0])
            self.seen.clear()
            ctx.timer_service().delete_event_time_timer(ctx.timestamp() + 1000)
            raise ValueError("no such amount")

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), -timestamp
        self.all.add(timestamp)
        if -2 in self.all.get():
            raise RuntimeError("bad timer")


def test_state_and_output_of_an_epoch():
    operator = ops.make_operator(Sum())
    overlay = ops.run(operator, ("a", 1, 5), ("b", 2, 6), ("a", 3, 4))
    assert ops.rows_of(overlay) == [("a", 1), ("b", 2), ("a", 4)]
    assert (overlay.rows_in, overlay.max_timestamp, overlay.late_rows) == (3, 6, 0)
    assert operator.read_state("total", "a") == 4
    assert operator.read_state("seen", "a") == {"1": 5, "3": 4}
    assert operator.read_state("total", "nobody") is None
    assert operator.next_timer() == (1004, None)


def test_nothing_is_state_before_the_commit_and_a_dropped_overlay_leaves_no_trace():
    operator = ops.make_operator(Sum())
    ops.run(operator, ("a", 1, 5))
    overlay = operator.begin(2, MIN_WATERMARK, 0)
    operator.process_batch(overlay, ops.make_batch(("a", 10, 5), ("b", 1, 1)))
    operator.finish(overlay, MAX_WATERMARK)
    assert overlay.timers_fired == 2
    assert operator.read_state("total", "a") == 1
    assert operator.read_state("all", "a") == [1]
    assert operator.next_timer() == (1005, None)
    assert ops.rows_of(ops.run(operator, ("a", 2, 5))) == [("a", 3)]


def test_attempts_of_one_epoch_do_not_see_one_another():
    operator = ops.make_operator(Sum())
    one, other = operator.begin(1, MIN_WATERMARK, 0), operator.begin(1, MIN_WATERMARK, 0)
    for batch in (ops.make_batch(("a", 1, 5)), ops.make_batch(("a", 2, 6))):
        operator.process_batch(one, batch)
        operator.process_batch(other, batch)
    for overlay in (one, other):
        operator.finish(overlay, MIN_WATERMARK)
        assert ops.rows_of(overlay) == [("a", 1), ("a", 3)]
    commit_overlays([(operator, other)])
    assert operator.read_state("all", "a") == [1, 2]


def test_a_row_of_a_key_group_of_another_slot_is_refused_by_its_number():
    function = Sum()
    operator = ops.make_operator(function, ops.make_stores(range(2)), subtask=0, parallelism=2)
    assert function.subtask == ("op", 0, 2)
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    for strange in (8, -1, 16, None):
        batch = ops.make_batch(("a", 1, 1), ("b", 1, 1), key_groups=[7, strange])
        with pytest.raises(errors.StateError, match=f"key group {strange}, which this slot does not own"):
            operator.process_batch(overlay, batch)


def test_a_batch_that_lacks_a_column_is_refused_by_its_name():
    operator = ops.make_operator(Sum())
    batch = ops.make_batch(("a", 1, 1)).drop_columns(["amount"])
    with pytest.raises(errors.StateError, match=r"lacks the columns \['amount'\]"):
        operator.process_batch(operator.begin(1, MIN_WATERMARK, 0), batch)


# --- late rows


def test_rows_at_or_before_the_watermark_are_counted_and_processed():
    operator = ops.make_operator(Sum())
    overlay = ops.run(operator, ("a", 1, 10), ("a", 2, 11), ("a", 3, None), before=10)
    assert overlay.late_rows == 1
    assert [row for row in ops.rows_of(overlay) if row[1] > 0] == [("a", 1), ("a", 3), ("a", 6)]


def test_with_a_late_tag_they_go_there_instead():
    operator = ops.make_operator(Sum(), late_tag="late", side_schemas={"late": ops.ROWS})
    overlay = ops.run(operator, ("a", 1, 10), ("a", 2, 11), ("b", 3, -5), before=10)
    assert ops.rows_of(overlay) == [("a", 2)]
    assert ops.rows_of(overlay, "late") == [("a", 1), ("b", 3)]
    assert (overlay.rows_in, overlay.late_rows, overlay.max_timestamp) == (3, 2, 11)


# --- errors


def test_an_exception_names_operator_key_epoch_and_row():
    operator = ops.make_operator(Sum())
    overlay = operator.begin(7, MIN_WATERMARK, 0)
    with pytest.raises(errors.UserCodeError) as caught:
        operator.process_batch(overlay, ops.make_batch(("a", 5, 1), ("b", -1, 2)))
    assert re.fullmatch(
        r"operator 'op', key 'b', epoch 7, row Row\(user='b', amount=-1\): ValueError: no such amount "
        r"\(.*test_keyed_operator.py:\d+ in process_element\)",
        str(caught.value),
    )
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_exception_in_a_timer_names_the_timer():
    operator = ops.make_operator(Sum())
    overlay = operator.begin(7, MIN_WATERMARK, 0)
    operator.process_batch(overlay, ops.make_batch(("b", -2, 2)))
    with pytest.raises(
        errors.UserCodeError, match="key 'b', epoch 7, event-time timer 1002: RuntimeError: bad timer"
    ):
        operator.finish(overlay, 5000)


def rejecting():
    return ops.make_operator(
        Sum(), on_error="side-output", side_schemas={"errors": REJECTED, "big": ops.ROWS}
    )


def test_a_rejected_record_leaves_its_row_and_error_and_nothing_else():
    operator = rejecting()
    ops.run(operator, ("a", 1, 5))
    overlay = ops.run(operator, ("a", -1, 5), ("a", 10, 6), ("a", -1, 7), ("new", -1, 8), ("a", 100, 9))
    assert ops.rows_of(overlay) == [("a", 11), ("a", 111)]
    assert ops.rows_of(overlay, "big") == [("a", 100)]
    rejected = ops.rows_of(overlay, "errors")
    assert [row[:2] for row in rejected] == [("a", -1), ("a", -1), ("new", -1)]
    assert rejected[0][2].startswith(
        "operator 'op', key 'a', epoch 1, row Row(user='a', amount=-1): ValueError: no such amount ("
    )
    assert overlay.row_count("errors") == 3
    assert operator.read_state("total", "a") == 111
    assert operator.read_state("all", "a") == [1, 10, 100]
    assert operator.read_state("seen", "a") == {"1": 5, "10": 6, "100": 9}
    assert operator.read_state("total", "new") is None
    assert operator.read_state("all", "new") is None
    fired = ops.run(operator, after=MAX_WATERMARK)
    assert sorted(ops.rows_of(fired)) == [("a", -1009), ("a", -1006), ("a", -1005)]


def test_a_rejected_record_gives_the_same_state_as_none_at_all():
    with_bad, without = rejecting(), rejecting()
    ops.run(with_bad, ("a", 3, 1), ("a", -1, 1), ("b", -1, 2), ("a", 4, 3), ("a", -1, 3))
    ops.run(without, ("a", 3, 1), ("a", 4, 3))
    for state in ("total", "all", "seen"):
        for key in ("a", "b"):
            assert with_bad.read_state(state, key) == without.read_state(state, key)
    assert with_bad.next_timer() == without.next_timer()


def test_a_rejected_timer_is_undone_but_stays_fired():
    operator = rejecting()
    ops.run(operator, ("a", -2, 5))
    overlay = ops.run(operator, after=5000, epoch=2)
    assert ops.rows_of(overlay) == []
    ((user, amount, error),) = ops.rows_of(overlay, "errors")
    assert (user, amount) == (None, None)
    assert "key 'a', epoch 2, event-time timer 1005: RuntimeError: bad timer" in error
    assert operator.read_state("all", "a") == [-2]
    assert operator.next_timer() == (None, None)


def test_a_failure_of_the_engine_is_not_blamed_on_the_user():
    class Broken(KeyedProcessFunction):
        def process_element(self, value, ctx):
            raise errors.CorruptData("a block is damaged")

    operator = ops.make_operator(Broken(), on_error="side-output", side_schemas={"errors": REJECTED})
    with pytest.raises(errors.CorruptData):
        operator.process_batch(operator.begin(1, MIN_WATERMARK, 0), ops.make_batch(("a", 1, 1)))


def test_exceptions_in_open_and_close_name_the_operator():
    class FailsToOpen(KeyedProcessFunction):
        def open(self, ctx):
            raise KeyError("setting")

    class FailsToClose(KeyedProcessFunction):
        def close(self):
            raise OSError("busy")

    with pytest.raises(errors.UserCodeError, match=r"operator 'op': open\(\) raised KeyError: 'setting'"):
        ops.make_operator(FailsToOpen())
    with pytest.raises(errors.UserCodeError, match=r"operator 'op': close\(\) raised OSError: busy"):
        ops.make_operator(FailsToClose()).close()


# --- order and time


def test_rows_are_sorted_by_event_time_over_the_whole_epoch_if_asked_for():
    operator = ops.make_operator(Sum(), sort_by_event_time=True)
    overlay = operator.begin(1, MIN_WATERMARK, 0)
    operator.process_batch(overlay, ops.make_batch(("a", 1, 30), ("b", 2, 10)))
    operator.process_batch(overlay, ops.make_batch(("a", 3, 20), ("a", 4, None)))
    operator.finish(overlay, 25)
    commit_overlays([(operator, overlay)])
    assert ops.rows_of(overlay) == [("a", 4), ("b", 2), ("a", 7), ("a", 8)]
    assert operator.read_state("all", "a") == [4, 3, 1]


def test_emitted_timestamps_are_those_of_the_record_or_timer_behind_each_row():
    operator = ops.make_operator(Sum(), emit_timestamps=True, side_schemas={"big": ops.ROWS})
    overlay = ops.run(operator, ("a", 1, 5), ("b", 500, None), ("a", 2, 6), after=1005)
    found = [row for batch in overlay.output() for row in batch.to_pylist()]
    assert [(row["amount"], row[columns.TIMESTAMP]) for row in found] == [
        (1, 5),
        (500, None),
        (3, 6),
        (-1005, 1005),
    ]
    assert ops.rows_of(overlay, "big") == [("b", 500)]


def test_without_event_time_timestamps_are_none():
    class Stamps(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return [(value.user, ctx.timestamp())]

    operator = ops.make_operator(Stamps(), event_time_column=None)
    assert ops.rows_of(ops.run(operator, ("a", 1, 5), before=100)) == [("a", None)]


# --- looking in, and what surrounds a batch


def test_reading_an_unknown_or_a_pickled_state_is_refused():
    class Pickles(KeyedProcessFunction):
        def open(self, ctx):
            ctx.get_state(ValueStateDescriptor("any", Types.PICKLED_BYTE_ARRAY()))

    operator = ops.make_operator(Pickles())
    with pytest.raises(errors.StateError, match="its states are: any"):
        operator.read_state("other", "a")
    with pytest.raises(errors.StateError, match="runs code"):
        operator.read_state("any", "a")


class Bomb:
    """An object whose unpickling leaves a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (pathlib.Path.touch, (self.path,))


PICKLED = Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize(
    ("declared", "made"),
    [
        (Types.LIST(PICKLED), lambda bomb: [bomb]),
        (Types.ROW([PICKLED]), lambda bomb: (bomb,)),
        (Types.TUPLE([Types.LONG(), PICKLED]), lambda bomb: (1, bomb)),
        (Types.MAP(Types.STRING(), PICKLED), lambda bomb: {"a": bomb}),
        (Types.LIST(Types.ROW([Types.LIST(PICKLED)])), lambda bomb: [([bomb],)]),
    ],
    ids=["list", "row", "tuple", "map", "deeper"],
)
def test_reading_a_state_with_something_pickled_in_it_runs_no_code(tmp_path, declared, made):
    class Pickles(KeyedProcessFunction):
        def open(self, ctx):
            self.any = ctx.get_state(ValueStateDescriptor("any", declared))

        def process_element(self, value, ctx):
            self.any.update(made(Bomb(tmp_path / "trace")))
            return ()

    operator = ops.make_operator(Pickles())
    ops.run(operator, ("a", 1, 1))
    with pytest.raises(errors.StateError, match="runs code"):
        operator.read_state("any", "a")
    assert not (tmp_path / "trace").exists()


def test_the_cycle_collector_is_back_after_a_batch_also_after_a_failure():
    operator = ops.make_operator(Sum())
    with pytest.raises(errors.UserCodeError):
        ops.run(operator, ("a", -1, 1))
    assert gc.isenabled()
