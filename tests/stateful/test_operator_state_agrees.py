"""The random life of operator state in many slots, against lists and a dict of plain Python: epochs, attempts that are
dropped, snapshots, and restores into other numbers of slots."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import stateful

from sparkstate.checkpoint import operator_parts
from sparkstate.checkpoint.operator_parts import OperatorPart
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor

SPLIT = ListStateDescriptor("split", Types.LONG())
UNION = ListStateDescriptor("union", Types.LIST(Types.STRING()))
BROADCAST = MapStateDescriptor("broadcast", Types.STRING(), Types.MAP(Types.STRING(), Types.LONG()))

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.lists(st.text(max_size=3), max_size=2)
KEYS = st.sampled_from(["", "a", "b", "\0"])
MAPS = st.none() | st.dictionaries(st.text(max_size=2), NUMBERS, max_size=2)


class Model:
    """One slot's state as plain Python has it."""

    def __init__(self, split: list[Any], union: list[Any], broadcast: dict[str, Any]) -> None:
        self.split, self.union, self.broadcast = list(split), list(union), dict(broadcast)

    def copy(self) -> Model:
        return Model(self.split, self.union, self.broadcast)


class OneSlot:
    """Handles as a function has them, and the model beside them."""

    def __init__(self, states: OperatorStates, model: Model) -> None:
        self.states, self.model = states, model
        self.split = states.get_list_state(SPLIT)
        self.union = states.get_union_list_state(UNION)
        self.broadcast = states.get_broadcast_state(BROADCAST)

    def check(self, model: Model) -> None:
        assert self.split.get() == model.split
        assert list(self.union) == model.union
        assert dict(self.broadcast.items()) == model.broadcast
        assert self.broadcast.is_empty() is (not model.broadcast)
        for key in ("", "a", "b", "\0"):
            assert (key in self.broadcast) is (key in model.broadcast)
            assert self.broadcast[key] == model.broadcast.get(key)


class Life(stateful.RuleBasedStateMachine):
    """``attempt`` is what the epoch at hand has done so far, and ``changes`` what the handles have noted of it."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = [OneSlot(OperatorStates("op"), Model([], [], {})) for _ in range(2)]
        self.begin()

    def begin(self) -> None:
        self.changes: list[Any] = [{} for _ in self.slots]
        self.attempt = [slot.model.copy() for slot in self.slots]
        self.bind()

    def bind(self) -> None:
        for slot, changes in zip(self.slots, self.changes, strict=True):
            slot.states.bind(changes)

    def at(self, number: int) -> tuple[OneSlot, Model]:
        place = number % len(self.slots)
        return self.slots[place], self.attempt[place]

    @stateful.rule(number=st.integers(0, 4), values=st.lists(NUMBERS, max_size=3))
    def add_numbers(self, number: int, values: list[int]) -> None:
        slot, model = self.at(number)
        for value in values[:1]:
            slot.split.add(value)
        slot.split.add_all(values[1:])
        model.split += values

    @stateful.rule(number=st.integers(0, 4), values=st.lists(TEXTS, max_size=3))
    def add_texts(self, number: int, values: list[list[str]]) -> None:
        slot, model = self.at(number)
        slot.union.add_all(values)
        model.union += [list(value) for value in values]
        for value in values:
            value.append("what the user does to it afterwards changes nothing")

    @stateful.rule(number=st.integers(0, 4), values=st.lists(NUMBERS, max_size=3))
    def replace(self, number: int, values: list[int]) -> None:
        slot, model = self.at(number)
        slot.split.update(values)
        model.split = list(values)

    @stateful.rule(number=st.integers(0, 4))
    def clear_lists(self, number: int) -> None:
        slot, model = self.at(number)
        slot.split.clear()
        slot.union.clear()
        model.split, model.union = [], []

    @stateful.rule(key=KEYS, value=MAPS)
    def put(self, key: str, value: Any) -> None:
        """Every slot makes the same change."""
        for slot, model in zip(self.slots, self.attempt, strict=True):
            slot.broadcast[key] = value
            model.broadcast[key] = value

    @stateful.rule(key=KEYS)
    def remove(self, key: str) -> None:
        for slot, model in zip(self.slots, self.attempt, strict=True):
            del slot.broadcast[key]
            model.broadcast.pop(key, None)

    @stateful.rule()
    def clear_map(self) -> None:
        for slot, model in zip(self.slots, self.attempt, strict=True):
            slot.broadcast.clear()
            model.broadcast.clear()

    @stateful.rule()
    def lose_the_attempt(self) -> None:
        self.begin()

    @stateful.rule()
    def commit(self) -> None:
        for slot, changes, model in zip(self.slots, self.changes, self.attempt, strict=True):
            slot.states.commit(changes)
            slot.model = model
        self.begin()

    @stateful.rule(number=st.integers(0, 4))
    def write_at_once(self, number: int) -> None:
        """As ``snapshot_state`` does, between two epochs."""
        self.begin()
        slot, _ = self.at(number)
        with slot.states.at_once():
            slot.split.update([number])
        slot.model.split = [number]
        self.begin()

    @stateful.rule(slots=st.integers(1, 5))
    def restore(self, slots: int) -> None:
        """Snapshot, and go on from it with so many slots; the attempt at hand is lost."""
        parts = []
        for number, slot in enumerate(self.slots):
            images = slot.states.images(is_first=number == 0)
            slot.states.commit(self.changes[number])  # what comes after a snapshot is not in it
            stored = tuple(image.encode() for image in images)
            part = OperatorPart(slot=number, slots=len(self.slots), states=stored)
            parts.append(operator_parts.decode(operator_parts.encode(part), "part"))
        operator_parts.check_together(parts, ["part"] * len(parts))
        models = [slot.model for slot in self.slots]
        dealt = [value for model in models for value in model.split]
        union = [value for model in models for value in model.union]
        self.slots = [
            OneSlot(
                OperatorStates("op", operator_parts.dealt_to(number, slots, parts)),
                Model(
                    models[number].split if slots == len(models) else dealt[number::slots],
                    union,
                    models[0].broadcast,
                ),
            )
            for number in range(slots)
        ]
        self.begin()

    @stateful.invariant()
    def handles_show_the_attempt(self) -> None:
        for slot, model in zip(self.slots, self.attempt, strict=True):
            slot.check(model)


def test_operator_state_is_what_lists_and_dicts_say_in_any_number_of_slots() -> None:
    stateful.run_state_machine_as_test(Life)
