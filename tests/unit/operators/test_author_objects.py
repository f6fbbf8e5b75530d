"""Objects of an author that a function of sparkstate calls, ``map`` or a window: they take part in checkpoints too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sparkstate import errors, windows
from sparkstate.checkpointed import CheckpointedFunction, CheckpointListener
from sparkstate.functions import KeyedFunction
from sparkstate.keyed_functions import per_record
from sparkstate.keyed_functions.interval_join import IntervalJoin, JoinSide, ProcessJoinFunction
from sparkstate.operators import kinds
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor
from sparkstate.testing import KeyedCoProcessHarness, KeyedProcessHarness

ROW = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
SEEN = ListStateDescriptor("seen", Types.LONG())
SIDE = JoinSide(row_type=ROW, late=None, least=0, most=0)


class Variables(CheckpointedFunction, CheckpointListener):
    """Keeps what it is called with in a list of its own."""

    def initialize_state(self, ctx: Any) -> None:
        self.stored = ctx.get_operator_state_store().get_list_state(SEEN)
        self.seen = self.stored.get()
        self.told: list[int] = []

    def snapshot_state(self, ctx: Any) -> None:
        self.stored.update(self.seen)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told.append(checkpoint_id)


class Mapped(per_record.MapFunction, Variables):
    def map(self, value: Any) -> Any:
        self.seen.append(value.v)
        return value


class OfWindows(windows.ProcessWindowFunction, Variables):
    def process(self, key: Any, context: Any, elements: Any) -> None:
        self.seen += [element.v for element in elements]


class Joined(ProcessJoinFunction, Variables):
    def process_element(self, left: Any, right: Any, ctx: Any) -> None:
        self.seen.append(left.v)


MADE: dict[str, Callable[[], KeyedFunction]] = {
    "map": lambda: per_record.Map(Mapped()),
    "window": lambda: windows.over(windows.TumblingEventTimeWindows.of(10)).process(
        OfWindows(), element_type=ROW
    ),
    "interval join": lambda: IntervalJoin(Joined(), SIDE, SIDE),
}


def harness(function: Any) -> KeyedProcessHarness:
    made = KeyedCoProcessHarness if isinstance(function, IntervalJoin) else KeyedProcessHarness
    return made(function, key=lambda row: row.k, key_type=Types.STRING())


def push(made: KeyedProcessHarness, value: int) -> None:
    """A row, its window's end, and its pair where there are two inputs."""
    row = {"k": "a", "v": value}
    if isinstance(made, KeyedCoProcessHarness):
        made.process_rows_of_both([(0, row, 10 * value), (1, row, 10 * value)])
    else:
        made.process_elements([(row, 10 * value)], watermark=10 * value + 9)


@pytest.mark.parametrize("kind", MADE)
def test_its_variables_are_in_checkpoints_and_it_hears_of_them(kind: str) -> None:
    with harness(MADE[kind]()) as made:
        push(made, 1)
        taken = made.snapshot()
        made.notify_checkpoint_complete(1)
        assert made.function().author_object.told == [1]
        push(made, 2)
        assert made.function().author_object.seen == [1, 2]
        made.restore(taken)
        assert made.function().author_object.seen == [1]
        assert made.operator_state("seen") == [1]


@pytest.mark.parametrize("kind", MADE)
def test_its_rows_wait_until_the_attempt_is_chosen(kind: str) -> None:
    with harness(MADE[kind]()) as made:
        assert made._spec.rows_wait_for_choice


@pytest.mark.parametrize("kind", ["map", "window"])
def test_a_record_that_changed_its_variables_cannot_be_undone(kind: str) -> None:
    with pytest.raises(errors.SpecInvalid, match="CheckpointedFunction has variables of its own"):
        kinds.check(MADE[kind](), "op", "side-output")


class Yields(Mapped):
    def close(self) -> Any:
        yield 1


def test_its_methods_that_put_nothing_out_must_not_yield() -> None:
    with pytest.raises(
        errors.SpecInvalid, match=r"process\(Yields\) of 'op': close\(\) yields, .* let it return"
    ):
        kinds.check(per_record.Map(Yields()), "op", "fail")
