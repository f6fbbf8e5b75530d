"""Enums in state of every kind: members for functions per record, names for functions on batches and for readers."""

from __future__ import annotations

import ast
import enum
from typing import Any

import pyarrow as pa
import pytest
from support.backends.life import BACKENDS
from support.backends.own_backends import MemoryBackend

from sparkstate import errors
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.state.folding import AggregateFunction
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing import KeyedProcessHarness

ALL = [*BACKENDS, MemoryBackend]
LONG, TEXT = Types.LONG(), Types.STRING()


class Step(enum.StrEnum):
    """The text of each member is another word than its name."""

    NEW = "just in"
    PAID = "money came"
    SENT = "gone"


class Later(enum.Enum):
    """The same with a constant more, in another order."""

    LOST = 0
    SENT = 1
    PAID = 2
    NEW = 3


class Latest(AggregateFunction):
    """The value that was added last, and the number of values."""

    def create_accumulator(self):
        return (0, None)

    def add(self, value, accumulator):
        return (accumulator[0] + 1, value)

    def get_result(self, accumulator):
        return accumulator[1]


def later(one, other):
    """The step that comes later in its class."""
    order = list(type(one))
    return max(one, other, key=order.index)


def descriptors(steps: Any) -> dict[str, Any]:
    kind = Types.ENUM(steps)
    return {
        "value": ValueStateDescriptor("value", kind),
        "row": ValueStateDescriptor("row", Types.ROW_NAMED(["step", "at"], [kind, Types.MAP(kind, LONG)])),
        "list": ListStateDescriptor("list", kind),
        "map": MapStateDescriptor("map", kind, kind),
        "pairs": MapStateDescriptor("pairs", Types.TUPLE([kind, LONG]), LONG),
        "reduced": ReducingStateDescriptor("reduced", later, kind),
        "folded": AggregatingStateDescriptor("folded", Latest(), Types.ROW([LONG, kind])),
    }


class States:
    """All of them, whatever a function is called with."""

    def __init__(self, steps: Any = Step, ttl: Any = None) -> None:
        self.steps, self.ttl = steps, ttl

    def open(self, ctx: Any) -> None:
        declared = descriptors(self.steps)
        for descriptor in declared.values():
            if self.ttl is not None:
                descriptor.enable_time_to_live(self.ttl)
        self.value, self.row = ctx.get_state(declared["value"]), ctx.get_state(declared["row"])
        self.list, self.map = ctx.get_list_state(declared["list"]), ctx.get_map_state(declared["map"])
        self.pairs = ctx.get_map_state(declared["pairs"])
        self.reduced = ctx.get_reducing_state(declared["reduced"])
        self.folded = ctx.get_aggregating_state(declared["folded"])


class PerRecord(States, KeyedProcessFunction):
    """Writes the row's step to every state, and yields what it reads."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        step = self.steps[value[1]]
        self.value.update(step)
        self.row.update((step, {step: 1}))
        self.list.add(step)
        self.map.put(step, step)
        self.pairs.put((step, 7), 1)
        self.reduced.add(step)
        self.folded.add(step)
        yield from self.read()

    def read(self) -> Any:
        yield "value", self.value.value()
        yield "row", self.row.value()
        yield "list", self.list.get()
        yield "map", dict(self.map.items()), list(self.map.keys()), self.map.get("NEW")
        yield "pairs", dict(self.pairs.items())
        yield "reduced", self.reduced.get()
        yield "folded", self.folded.get()


class PerBatch(States, KeyedBatchFunction):
    """The same on batches."""

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Any:
        steps = keys.column("step")
        self.value.update(keys, steps.dictionary_encode())
        rows = [{"step": step, "at": [(step, 1)]} for step in steps.to_pylist()]
        self.row.update(keys, pa.array(rows, self.row.get(keys).type))
        self.list.add(keys, steps)
        self.map.put(keys, steps, steps)
        fields = pa.array([{"f0": step, "f1": 7} for step in steps.to_pylist()])
        self.pairs.put(keys, fields, [1] * len(steps))
        self.reduced.add(keys, steps)
        # The values of an aggregate are of no declared type: its function gets them as Arrow gives them.
        self.folded.add(keys, steps)
        states = {"value": self.value, "row": self.row, "list": self.list, "reduced": self.reduced}
        found = {name: state.get(keys) for name, state in states.items()}
        found |= {
            "map": self.map.items(keys),
            "pairs": self.pairs.items(keys),
            "folded": self.folded.get(keys),
        }
        yield pa.record_batch(
            {"state": list(found), "type": [str(each.type) for each in found.values()]}
            | {"values": [repr(each.to_pylist()) for each in found.values()]}
        )


def harness(function: Any, backend: Any = "hashmap", **options: Any) -> KeyedProcessHarness:
    def key(row: Any) -> Any:
        return row[0] if isinstance(row, tuple) else row["k"]

    return KeyedProcessHarness(function, key=key, key_type=TEXT, backend=backend, **options)


def push(made: KeyedProcessHarness, step: str) -> list[Any]:
    made.clear_output()
    made.process_element(("a", step))
    return [tuple(row) for row in made.output()]


def seen(made: KeyedProcessHarness) -> dict[str, Any]:
    return {name: made.state(name, "a") for name in descriptors(Step)}


def of(steps: Any) -> dict[str, Any]:
    """All states after the steps NEW, SENT and PAID."""
    new, paid, sent = steps["NEW"], steps["PAID"], steps["SENT"]
    return {
        "value": paid,
        "row": (paid, {paid: 1}),
        "list": [new, sent, paid],
        "map": {new: new, sent: sent, paid: paid},
        "pairs": {(new, 7): 1, (sent, 7): 1, (paid, 7): 1},
        "reduced": sent,
        "folded": (3, paid),
    }


@pytest.mark.parametrize("backend", ALL)
def test_a_function_per_record_sees_members(backend: Any) -> None:
    with harness(PerRecord(), backend) as made:
        for step in ("NEW", "SENT"):
            push(made, step)
        found = {name: rest for name, *rest in push(made, "PAID")}
        wanted = of(Step)
        assert found["map"][1] == list(found["map"][0])
        assert (found["map"][0], set(found["map"][1]), found["map"][2]) == (
            wanted["map"],
            set(Step),
            Step.NEW,
        )
        for name in ("value", "row", "list", "pairs", "reduced"):
            assert found[name] == [wanted[name]]
        assert found["folded"] == [Step.PAID]
        assert found["row"][0].step is Step.PAID
        assert {type(each) for each in [*found["list"][0], *found["map"][0]]} == {Step}
        assert seen(made) == wanted


@pytest.mark.parametrize("second", ALL)
@pytest.mark.parametrize("first", ALL)
def test_a_savepoint_goes_on_in_any_backend_with_more_constants_in_another_order(
    first: Any, second: Any
) -> None:
    with harness(PerRecord(), first) as before, harness(PerRecord(Later), second) as after:
        for step in ("NEW", "SENT", "PAID"):
            push(before, step)
        after.restore(before.snapshot(), parallelism=2)
        assert seen(after) == of(Later)
        found = {name: rest for name, *rest in push(after, "LOST")}
        assert set(found["map"][1]) == set(Later)
        assert found["list"] == [[*of(Later)["list"], Later.LOST]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_on_batches_sees_names_and_stores_the_same(backend: Any) -> None:
    text, pairs = "string", "map<string, string>"
    with harness(PerBatch(), backend) as batches, harness(PerRecord(), backend) as records:
        for step in ("NEW", "SENT", "PAID"):
            batches.clear_output()
            batches.process_elements([({"k": "a", "step": step}, 0)])
            push(records, step)
        found = {row[0]: tuple(row[1:]) for row in batches.output()}
        assert found["value"] == (text, "['PAID']")
        assert found["reduced"] == (text, "['SENT']")
        assert found["folded"] == (text, "['PAID']")
        assert found["list"][1] == "[['NEW', 'SENT', 'PAID']]"
        assert found["map"][0] == pairs
        assert set(ast.literal_eval(found["map"][1])[0]) == {(name, name) for name in Step.__members__}
        assert found["row"] == (
            "struct<step: string, at: map<string, int64>>",
            "[{'step': 'PAID', 'at': [('PAID', 1)]}]",
        )
        assert {key["f0"] for key, _ in ast.literal_eval(found["pairs"][1])[0]} == set(Step.__members__)
        assert seen(batches) == seen(records) == of(Step)
        files = [each.snapshot().shards for each in (batches, records)]
        assert files[0] == files[1]
    for before, after in ((PerBatch(), PerRecord()), (PerRecord(), PerBatch())):
        with harness(before, backend) as first, harness(after, backend) as second:
            for step in ("NEW", "SENT", "PAID"):
                row = {"k": "a", "step": step} if isinstance(before, PerBatch) else ("a", step)
                first.process_elements([(row, 0)])
            second.restore(first.snapshot())
            assert seen(second) == of(Step)


def test_a_batch_fills_gaps_with_a_member_and_names_what_is_no_constant() -> None:
    class Steps(KeyedBatchFunction):
        def open(self, ctx: Any) -> None:
            self.step = ctx.get_state(ValueStateDescriptor("step", Types.ENUM(Step)))

        def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Any:
            assert self.step.get(keys, default=Step.SENT).to_pylist() == ["SENT"]
            self.step.update(keys, ["just in"])

    told = "state 'step' of operator 'harness', key 'a': 'just in' .* a member of Step"
    with harness(Steps()) as made, pytest.raises(errors.UserCodeError, match=told):
        made.process_elements([({"k": "a"}, 0)])


def test_an_unknown_constant_is_refused_at_the_write_with_state_key_and_value() -> None:
    class Writes(PerRecord):
        def process_element(self, value: Any, ctx: Any) -> Any:
            getattr(self, value[1])(value[2])
            yield value

        def one(self, value: Any) -> None:
            self.value.update(value)

        def field(self, value: Any) -> None:
            self.map.put(value, Step.NEW)

    with harness(Writes()) as made:
        for how, wrong, told in (
            ("one", Later.LOST, r"state 'value' of operator 'harness', key 'a': <Later.LOST: 0>"),
            ("one", "LOST", r"'LOST' .* ENUM<\"NEW\",\"PAID\",\"SENT\">; give a member of Step"),
            ("field", "gone", "state 'map' .* map key 'gone'"),
        ):
            with pytest.raises(errors.UserCodeError, match=told):
                made.process_element(("a", how, wrong))


@pytest.mark.parametrize("backend", ALL)
def test_enums_expire_and_change_at_once(backend: Any) -> None:
    hour, day = (StateTtlConfig.new_builder(length).build() for length in ("1 hour", "1 day"))
    for before_ttl, after_ttl in ((hour, day), (None, hour), (hour, None)):
        with (
            harness(PerRecord(Step, before_ttl), backend) as before,
            harness(PerRecord(Later, after_ttl), backend) as after,
        ):
            for step in ("NEW", "SENT", "PAID"):
                push(before, step)
            after.restore(before.snapshot())
            assert seen(after) == of(Later)
            if after_ttl is None:
                continue
            after.set_processing_time(25 * 3_600_000)
            found = {name: rest for name, *rest in push(after, "LOST")}
            assert found["list"] == [[Later.LOST]]
            assert found["map"][:2] == [{Later.LOST: Later.LOST}, [Later.LOST]]


class Operator(KeyedProcessFunction, CheckpointedFunction):
    """Enums in operator state of every kind."""

    def __init__(self, steps: Any, *added: Any) -> None:
        self.steps, self.added = steps, added

    def initialize_state(self, ctx: Any) -> None:
        store, kind = ctx.get_operator_state_store(), Types.ENUM(self.steps, **dict(self.added))
        self.own = store.get_list_state(ListStateDescriptor("own", kind))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", kind, kind))
        self.found = self.own.get(), dict(self.rules.items()), list(self.rules.keys())

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.own.add(self.steps[value[1]])
        self.rules.put(self.steps[value[1]], self.steps["NEW"])
        yield value

    def snapshot_state(self, ctx: Any) -> None:
        """Nothing is kept elsewhere."""


def test_operator_state_and_broadcast_state_have_members_too() -> None:
    with harness(Operator(Step)) as first, harness(Operator(Later)) as second:
        first.process_element(("a", "SENT"))
        assert first.operator_state("own") == [Step.SENT]
        assert first.operator_state("rules") == {Step.SENT: Step.NEW}
        taken = first.snapshot()
        second.restore(taken)
        assert second.function().found == ([Later.SENT], {Later.SENT: Later.NEW}, [Later.SENT])

    class Fewer(enum.Enum):
        NEW = 1
        PAID = 2

    with (
        harness(Operator(Fewer)) as third,
        pytest.raises(
            errors.StateMigrationError,
            match=r"'own' of operator 'harness' was a split list of ENUM.*'SENT' is gone",
        ),
    ):
        third.restore(taken)


@pytest.mark.parametrize("backend", BACKENDS)
def test_readers_from_outside_see_names(backend: Any) -> None:
    with harness(PerRecord(), backend) as made:
        push(made, "NEW")
        operator = made._subtasks.operators[made.subtask_of("a")]
        assert {name: operator.read_state(name, "a") for name in descriptors(Step)} == {
            "value": "NEW",
            "row": ["NEW", {"NEW": 1}],
            "list": ["NEW"],
            "map": {"NEW": "NEW"},
            "pairs": {"['NEW', 7]": 1},
            "reduced": "NEW",
            "folded": [1, "NEW"],
        }
