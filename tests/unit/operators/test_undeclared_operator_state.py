"""Operator state that a new version of the job no longer declares: it is kept, and stays as large as it was."""

from __future__ import annotations

from typing import Any

from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor
from sparkstate.testing import KeyedProcessHarness

OWN = ListStateDescriptor("own", Types.LONG())
ALL = ListStateDescriptor("all", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Nothing(KeyedProcessFunction):
    """Declares no state."""

    def process_element(self, value: Any, ctx: Any) -> None:
        pass


class Noted(Nothing, CheckpointedFunction):
    """Notes a number in operator state of every kind at each checkpoint; None: nothing."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.own = store.get_list_state(OWN)
        self.all = store.get_union_list_state(ALL)
        self.rules = store.get_broadcast_state(RULES)

    def snapshot_state(self, ctx: Any) -> None:
        if self.number is not None:
            self.own.add(self.number)
            self.all.add(self.number)
            self.rules.put("number", self.number)


def harness(function: Any, slots: int = 1) -> KeyedProcessHarness:
    return KeyedProcessHarness(function, key=str, key_type=Types.STRING(), shards=8, parallelism=slots)


def test_it_is_kept_and_a_union_is_not_multiplied_by_the_slots() -> None:
    """Each slot holds all of a union; if all slots stored it, each restore would give all of them to all slots."""
    with harness(Noted(7), slots=2) as first:
        taken = first.snapshot()
    for slots in (2, 3, 1, 2):
        with harness(Nothing()) as without:
            without.restore(taken, parallelism=slots)
            taken = without.snapshot()
    with harness(Noted(), slots=2) as again:
        again.restore(taken)
        assert sorted(again.operator_state("own", 0) + again.operator_state("own", 1)) == [7, 7]
        assert [again.operator_state("all", slot) for slot in range(2)] == [[7, 7], [7, 7]]
        assert again.operator_state("rules", 1) == {"number": 7}
