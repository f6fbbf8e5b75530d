"""Operator state that only some subtasks declare: restores and changes of its type neither lose nor double it."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor
from sparkstate.testing import KeyedProcessHarness


class Some(KeyedProcessFunction, CheckpointedFunction):
    """Subtask ``who`` notes the number of each checkpoint in a list of ``kind``; the others do not ask for it."""

    def __init__(self, mode: str, kind: Any, who: int) -> None:
        self.mode, self.kind, self.who = mode, kind, who

    def initialize_state(self, ctx: Any) -> None:
        self.store = ctx.get_operator_state_store()

    def open(self, ctx: Any) -> None:
        self.noted = None
        if ctx.get_index_of_this_subtask() == self.who:
            self.noted = getattr(self.store, f"get_{self.mode}_state")(
                ListStateDescriptor("noted", self.kind)
            )

    def process_element(self, value: Any, ctx: Any) -> None:
        pass

    def snapshot_state(self, ctx: Any) -> None:
        if self.noted is not None:
            self.noted.add(ctx.get_checkpoint_id())


def harness(mode: str, kind: Any, who: int, parallelism: int = 2) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        Some(mode, kind, who), key=str, key_type=Types.STRING(), parallelism=parallelism
    )


@pytest.mark.parametrize("mode", ["list", "union_list"])
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("later", [Types.INT(), Types.LONG()], ids=["same", "widened"])
def test_a_list_of_one_subtask_lives_on_through_restores_and_a_wider_type(
    mode: str, who: int, later: Any
) -> None:
    with harness(mode, Types.INT(), who) as made:
        taken = made.snapshot()
    for checkpoint in (2, 3, 4):
        with harness(mode, later, who) as made:
            made.restore(taken)
            assert made.operator_state("noted", who) == list(range(1, checkpoint))
            taken = made.snapshot()
    with harness(mode, later, 0, parallelism=1) as made:
        made.restore(taken)
        assert made.operator_state("noted") == [1, 2, 3, 4]


def test_elements_of_two_types_are_joined_in_the_one_that_is_declared_now() -> None:
    with harness("list", Types.INT(), 1) as made:
        taken = made.snapshot()
    with harness("list", Types.BIG_INT(), 0) as made:
        made.restore(taken)  # the element of subtask 1 stays an INT
        taken = made.snapshot()
    with harness("list", Types.BIG_INT(), 5, parallelism=1) as made:
        made.restore(taken)  # nobody declares the list, and a subtask has both types
        taken = made.snapshot()
    with harness("list", Types.BIG_DEC(), 0, parallelism=1) as made:
        made.restore(taken)
        assert sorted(made.operator_state("noted")) == [1, 2]
