"""Operator state and own variables in the harness: declared, changed, refused, and dealt out to other subtasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.backends import own_backends
from support.operators import driven

from sparkstate import columns, errors
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.checkpoint import operator_parts
from sparkstate.checkpointed import CheckpointedFunction, CheckpointListener
from sparkstate.functions import MAX_WATERMARK, KeyedProcessFunction
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness

BUFFER = ListStateDescriptor("buffer", Types.LONG())
ALL = ListStateDescriptor("all", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Buffer(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    """Keeps numbers in a variable of its own; ``finish`` gives them back."""

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.stored = store.get_list_state(BUFFER)
        self.all = store.get_union_list_state(ALL)
        self.rules = store.get_broadcast_state(RULES)
        self.restored = ctx.is_restored(), ctx.get_restored_checkpoint_id()
        self.buffer = self.stored.get()
        self.told: list[tuple[str, int]] = []
        self.seen = ctx.get_keyed_state_store().get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.buffer.append(value)
        self.seen.update((self.seen.value() or 0) + 1)

    def snapshot_state(self, ctx: Any) -> None:
        self.stored.update(self.buffer)
        self.all.update([len(self.buffer)])
        self.rules.put("checkpoint", ctx.get_checkpoint_id())

    def finish(self) -> list[Any]:
        return list(self.buffer)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.told.append(("aborted", checkpoint_id))


def key_of(row: int) -> str:
    return f"user {row % 7}"


def harness(function: Any = None, **options: Any) -> KeyedProcessHarness:
    options = {"key": key_of, "key_type": Types.STRING(), "shards": 8} | options
    return KeyedProcessHarness(function or Buffer(), **options)


def push(made: KeyedProcessHarness, *numbers: int) -> None:
    made.process_elements([(number, None) for number in numbers])


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", own_backends.MemoryBackend])
def test_variables_come_back_from_a_snapshot_and_what_came_after_it_does_not(backend: Any) -> None:
    with harness(backend=backend) as made:
        assert made.function().restored == (False, None)
        push(made, 1, 2)
        taken = made.snapshot()
        push(made, 3)
        made.restore(taken)
        assert made.function().restored == (True, 1)
        assert made.function().buffer == [1, 2]
        assert made.operator_state("rules") == {"checkpoint": 1}
        assert (made.state("seen", key_of(1)), made.state("seen", key_of(3))) == (1, None)
        push(made, 3)
        made.end_input()
        assert made.output() == [1, 2, 3]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", own_backends.MemoryBackend])
def test_two_subtasks_become_three_and_then_one(backend: Any) -> None:
    with harness(parallelism=2, backend=backend) as made:
        push(made, *range(20))
        held = [list(made.function(subtask).buffer) for subtask in range(2)]
        assert sorted(held[0] + held[1]) == list(range(20)) and all(held)
        made.restore(made.snapshot(), parallelism=3)
        dealt = [made.function(subtask).buffer for subtask in range(3)]
        assert dealt == [(held[0] + held[1])[subtask::3] for subtask in range(3)]
        assert [made.operator_state("all", subtask) for subtask in range(3)] == [list(map(len, held))] * 3
        assert [made.operator_state("rules", subtask) for subtask in range(3)] == [{"checkpoint": 1}] * 3
        assert [made.state("seen", key_of(row)) for row in range(7)] == [3, 3, 3, 3, 3, 3, 2]
        push(made, *range(20, 30))
        made.restore(made.snapshot(), parallelism=1)
        assert sorted(made.function().buffer) == list(range(30))
        assert made.operator_state("rules") == {"checkpoint": 2}


def test_a_snapshot_of_one_backend_restores_with_the_other() -> None:
    with harness(backend="rocksdb", parallelism=2) as one, harness(parallelism=4) as other:
        push(one, *range(10))
        other.restore(one.snapshot())
        assert sorted(row for subtask in range(4) for row in other.function(subtask).buffer) == list(
            range(10)
        )


def test_functions_hear_what_became_of_checkpoints() -> None:
    with harness() as made:
        made.notify_checkpoint_complete(4)
        made.notify_checkpoint_aborted(5)
        assert made.function().told == [("complete", 4), ("aborted", 5)]


class Misuse(Buffer):
    """Uses state where it may not be used."""

    def __init__(self, step: str) -> None:
        self.step = step

    def misuse(self, step: str, ctx: Any = None) -> None:
        if step == self.step:
            self.stored.add(1)

    def open(self, ctx: Any) -> None:
        if self.step == "keyed":
            self.seen.value()
        if self.step == "late":
            self.context = ctx

    def process_element(self, value: Any, ctx: Any) -> None:
        if self.step == "first asked for later":
            self.stored = self.store.get_list_state(ListStateDescriptor("new", Types.LONG()))

    def initialize_state(self, ctx: Any) -> None:
        super().initialize_state(ctx)
        self.store = ctx.get_operator_state_store()
        if self.step == "declared twice":
            self.store.get_union_list_state(BUFFER)
        if self.step == "wrong descriptor":
            self.store.get_broadcast_state(BUFFER)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.misuse("notify")

    def finish(self) -> list[Any]:
        if self.step == "finish":
            self.seen.value()
        return []

    def close(self) -> None:
        self.misuse("close")


def test_operator_state_cannot_be_used_where_no_snapshot_would_hold_it() -> None:
    made = harness(Misuse("notify"))
    with pytest.raises(
        errors.UserCodeError, match=r"checkpoint 1: notify_checkpoint_complete\(\).*cannot be used"
    ):
        made.notify_checkpoint_complete(1)
    made.close()
    made = harness(Misuse("close"))
    with pytest.raises(errors.UserCodeError, match=r"close\(\).*'buffer'.*cannot be used here"):
        made.close()


def test_finish_has_no_key() -> None:
    made = harness(Misuse("finish"))
    with pytest.raises(errors.UserCodeError, match=r"finish\(\) raised.*'seen'.*no key is set"):
        made.process_watermark(MAX_WATERMARK)
    made.close()


def test_a_name_belongs_to_one_kind_and_is_declared_in_time() -> None:
    with pytest.raises(
        errors.DeclarationError, match="'buffer' was declared as a split list of LONG and is asked"
    ):
        harness(Misuse("declared twice"))
    with pytest.raises(errors.DeclarationError, match="expected a MapStateDescriptor"):
        harness(Misuse("wrong descriptor"))
    made = harness(Misuse("first asked for later"))
    with pytest.raises(errors.UserCodeError, match="'new' was first asked for after open"):
        push(made, 1)
    made.close()


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (("get_union_list_state", BUFFER), "a split list of LONG.*a union list of LONG"),
        (
            ("get_list_state", ListStateDescriptor("buffer", Types.STRING())),
            "LONG when it was stored.*STRING",
        ),
        (
            ("get_broadcast_state", MapStateDescriptor("rules", Types.LONG(), Types.LONG())),
            "broadcast state of STRING to LONG.*broadcast state of LONG to LONG",
        ),
    ],
    ids=["kind", "type", "key-type"],
)
def test_restored_state_of_another_kind_or_type_is_refused_with_both(
    declared: tuple[str, Any], told: str
) -> None:
    class Other(KeyedProcessFunction, CheckpointedFunction):
        def initialize_state(self, ctx: Any) -> None:
            method, descriptor = declared
            getattr(ctx.get_operator_state_store(), method)(descriptor)

        def snapshot_state(self, ctx: Any) -> None:
            pass

    with harness() as before, harness(Other()) as after:
        taken = before.snapshot()
        with pytest.raises(errors.StateMigrationError, match=told):
            after.restore(taken)


def row(names: str, *kinds: Any, **said: Any) -> Any:
    return Types.ROW_NAMED(names.split(), list(kinds), **said)


class Noted(KeyedProcessFunction, CheckpointedFunction):
    """Keeps rows of one type in operator state of every kind."""

    def __init__(self, kind: Any, value: Any = None) -> None:
        self.kind, self.value = kind, value

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.own = store.get_list_state(ListStateDescriptor("own", self.kind))
        self.all = store.get_union_list_state(ListStateDescriptor("all", self.kind))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), self.kind))

    def process_element(self, value: Any, ctx: Any) -> None:
        pass

    def snapshot_state(self, ctx: Any) -> None:
        if self.value is not None:
            self.own.add(self.value)
            self.all.add(self.value)
            self.rules.put("rule", self.value)


def test_operator_state_of_every_kind_is_migrated_to_the_declared_type() -> None:
    v1, v2 = row("id", Types.INT()), row("at id", Types.STRING(), Types.BIG_INT(), defaults={"at": "?"})
    v3 = row("number", Types.BIG_DEC(), aliases={"number": "id"})
    with harness(Noted(v1, (7,)), parallelism=2) as first, harness(Noted(v2, ("now", 10**20))) as second:
        second.restore(first.snapshot(), parallelism=3)
        assert [second.operator_state("own", n) for n in range(3)] == [[("?", 7)], [("?", 7)], []]
        assert second.operator_state("all", 2) == [("?", 7)] * 2
        assert second.operator_state("rules", 1) == {"rule": ("?", 7)}
        taken = second.snapshot()
        with harness(Noted(v3)) as third:
            third.restore(taken)
            assert sorted(third.operator_state("own")) == [(7,), (7,), (10**20,), (10**20,), (10**20,)]
            assert third.operator_state("rules") == {"rule": (10**20,)}
        with harness(Noted(row("at", Types.LONG()))) as refused:
            told = "was a split list of ROW.* and is now .*at at: STRING and LONG"
            with pytest.raises(errors.StateMigrationError, match=told):
                refused.restore(taken)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (b"\x01a", b"\0\1", "map key 0161 is not of type STRING"),
        (b"\x01a\0\0more", b"\0\1", "map key 01610000"),
        (b"\x01a\0\0", b"\0\xa1a", "a stored value is not of type LONG"),
    ],
    ids=["cut", "more", "value"],
)
def test_a_stored_value_that_is_not_of_its_type_is_damage_and_no_error_of_the_function(
    key: bytes, value: bytes, told: str
) -> None:
    stored = operator_parts.StoredState(
        uid="op",
        name="rules",
        mode="broadcast",
        value_type="LONG",
        key_type="STRING",
        values=(value,),
        keys=(key,),
    )
    with pytest.raises(errors.CorruptData, match=told):
        OperatorStates("op", [stored]).get_broadcast_state(RULES)


def test_values_that_do_not_fit_are_refused_by_name() -> None:
    with harness() as made:
        function = made.function()
        operator = made._subtasks.operators[0]
        with operator._operator_states.at_once():  # type: ignore[attr-defined]
            for write in (
                lambda: function.stored.add("text"),
                lambda: function.stored.add(None),
                lambda: function.stored.update(None),
                lambda: function.rules.put("k", "text"),
                lambda: function.rules.put(1, 1),
            ):
                with pytest.raises(errors.SerializationError, match=r"operator state '(buffer|rules)'"):
                    write()


class Closing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        pass

    def close(self) -> Iterator[int]:  # type: ignore[override]
        yield 1


def test_a_close_that_yields_is_refused_because_its_code_would_never_run() -> None:
    with pytest.raises(
        errors.SpecInvalid, match=r"'harness': close\(\) yields.*yield the last rows in finish"
    ):
        harness(Closing())


def test_a_record_cannot_be_undone_where_a_function_has_variables() -> None:
    with pytest.raises(errors.SpecInvalid, match="variables of its own, which cannot be undone"):
        harness(on_error="side-output")


def test_rows_of_finish_go_on_to_a_next_operator_without_event_time() -> None:
    for function in (Buffer(), BatchTally()):
        operator = driven.make_operator(
            function,
            row_columns=("user", "amount"),
            output_schema=pa.schema([("rows", pa.int64())]),
            emit_timestamps=True,
        )
        overlay = operator.begin(1, 0, 0)
        if isinstance(function, Buffer):
            function.buffer = [(5,)]  # type: ignore[list-item]
        operator.finish(overlay, MAX_WATERMARK)
        (batch,) = overlay.output()
        assert batch.schema.names == ["rows", columns.TIMESTAMP]
        assert batch.column(columns.TIMESTAMP).to_pylist() == [None]


class BatchTally(KeyedBatchFunction, CheckpointedFunction):
    """Counts rows in a variable; tells at the end."""

    def initialize_state(self, ctx: Any) -> None:
        self.stored = ctx.get_operator_state_store().get_list_state(BUFFER)
        self.rows = sum(self.stored)

    def process_batch(self, batch: pa.RecordBatch, keys: Any, ctx: Any) -> None:
        self.rows += batch.num_rows

    def snapshot_state(self, ctx: Any) -> None:
        self.stored.update([self.rows])

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": [self.rows]})


def test_functions_on_batches_have_the_same_life() -> None:
    with harness(BatchTally(), parallelism=2, key=lambda row: key_of(row["n"])) as made:
        made.process_elements([({"n": number}, None) for number in range(10)])
        made.restore(made.snapshot(), parallelism=1)
        made.process_elements([({"n": number}, None) for number in range(5)])
        made.end_input()
        assert made.function().rows == 15
        assert [tuple(row) if not isinstance(row, tuple) else row for row in made.output()] == [(15,)]


def test_something_pickled_within_operator_state_is_not_shown() -> None:
    states = OperatorStates("op")
    with states.at_once():
        pairs = Types.ROW([Types.PICKLED_BYTE_ARRAY()])
        states.get_list_state(ListStateDescriptor("pairs", pairs)).add((object,))
    with pytest.raises(errors.StateError, match="runs code"):
        states.shown("pairs")


def test_a_number_that_json_does_not_have_is_shown_as_text_and_not_as_missing() -> None:
    states = OperatorStates("op")
    with states.at_once():
        means = states.get_broadcast_state(MapStateDescriptor("means", Types.STRING(), Types.DOUBLE()))
        means.put_all(
            {"none": None, "nan": float("nan"), "up": float("inf"), "down": float("-inf"), "one": 1.0}
        )
    shown = {"none": None, "nan": "NaN", "up": "Infinity", "down": "-Infinity", "one": 1.0}
    assert states.shown("means") == ("broadcast", shown)
