"""A function's own variables in slots: exact whatever attempts came, in checkpoints, and dealt out anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots import checkpointed, slots

from sparkstate import errors
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.slots import protocol

Make = Callable[..., slots.Slot]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Starts slots in this process, and ends them with the test."""
    made = []

    def start(function: Any = None, **options: Any) -> slots.Slot:
        made.append(checkpointed.slot_with(tmp_path, function or checkpointed.Buffer(), **options))
        return made[-1]

    yield start
    for slot in made:
        slot.close()


def test_rows_of_an_attempt_that_is_dropped_leave_no_trace_in_the_variables(make: Make) -> None:
    slot = make()
    slot.restore()
    slot.feed(0, 1, slots.rows(("a", 1)))
    slot.feed(0, 2, slots.rows(("a", 1), ("!limit", 5)))
    slot.feed(0, 3, slots.rows(("a", 100)), anew=True)
    slot.finish(0, 2)
    slot.commit(0)
    function = checkpointed.function_of(slot)
    assert function.seen == [("a", 1), ("!limit", 5)]


def test_a_checkpoint_holds_variables_and_all_kinds_of_operator_state(make: Make, tmp_path: Path) -> None:
    slot = make()
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1), ("!limit", 5)))
    state = slot.snapshot(1, 0)
    slot.epoch(1, slots.rows(("a", 1)))  # after the checkpoint
    assert [(meta.name, meta.kind) for meta in state.states] == [
        ("total", "value"),
        ("rows", "operator list"),
        ("owners", "operator union list"),
        ("rules", "broadcast"),
    ]
    again = make(incarnation=2)
    checkpointed.restore(again, [state], tmp_path, 1)
    function = checkpointed.function_of(again)
    assert function.seen == [("a", 1), ("!limit", 5)]
    assert function.restored == (True, 1, [2])
    again.epoch(0, slots.rows(("b", 3)))
    assert function.seen == [("a", 1), ("!limit", 5), ("b", 3)]


class Silent(slots.Sum, CheckpointedFunction):
    """Declares no operator state, and notes when it is asked to write some."""

    def initialize_state(self, ctx: Any) -> None:
        self.asked: list[int] = []

    def snapshot_state(self, ctx: Any) -> None:
        self.asked.append(ctx.get_checkpoint_id())


def test_a_function_that_declares_nothing_is_asked_at_each_checkpoint_too(make: Make, tmp_path: Path) -> None:
    slot = make(Silent())
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1)))
    state = slot.snapshot(4, 0)
    assert checkpointed.function_of(slot).asked == [4]
    again = make(incarnation=2)
    checkpointed.restore(again, [state], tmp_path, 4)
    assert checkpointed.function_of(again).restored == (True, 4, [])


def test_damaged_operator_state_stops_the_restore_with_its_name(make: Make, tmp_path: Path) -> None:
    slot = make()
    slot.restore()
    slot.epoch(0, slots.rows(*[(f"key {number}", 1) for number in range(2_000)]))
    state = slot.snapshot(1, 0)
    assert state.operator_state is not None and state.operator_state.path
    path = tmp_path / "storage" / slots.LINEAGE / state.operator_state.path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    path.write_bytes(data)
    again = make(incarnation=2)
    with pytest.raises(errors.CorruptData, match=rf"{path.name}.*operator-state-0.*restoreFrom"):
        checkpointed.restore(again, [state], tmp_path, 1)


def test_a_snapshot_of_variables_that_are_ahead_of_the_committed_state_is_refused(make: Make) -> None:
    slot = make()
    slot.restore()
    slot.feed(0, 1, slots.rows(("a", 1)))
    slot.finish(0, 1)
    with pytest.raises(AssertionError, match="began between the end of epoch 0 and its commit"):
        slot.snapshot(1, 0)
    slot.commit(0)
    assert slot.snapshot(2, 0).operator_state is not None


def test_a_function_is_called_only_for_the_chosen_attempt(make: Make) -> None:
    slot = make()
    slot.restore()
    for attempt in (1, 2, 3):
        slot.feed(0, attempt, slots.rows(*[(f"k{number}", 1) for number in range(50)]))
    assert checkpointed.function_of(slot).seen == []
    slot.finish(0, 3)
    assert len(checkpointed.function_of(slot).seen) == 50


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_from_two_slots_to_three_to_one_nothing_is_lost(make: Make, tmp_path: Path, backend: str) -> None:
    # Key groups 0 to 7 in 4 shards: two slots have two shards each.
    two = [make(share=(number, 2), backend=backend) for number in range(2)]
    for number, slot in enumerate(two):
        slot.restore()
        slot.epoch(
            0, slots.rows(*[(f"{number}-{row}", row) for row in range(5)], ("!limit", 7), group=4 * number)
        )
    states = [slot.snapshot(1, 0) for slot in two]
    owners = [6, 6]
    rows = [row for slot in two for row in checkpointed.function_of(slot).seen]
    for slots_now, incarnation in ((3, 2), (1, 3)):
        now = [
            make(share=(number, slots_now), incarnation=incarnation, backend=backend)
            for number in range(slots_now)
        ]
        for slot in now:
            checkpointed.restore(slot, states, tmp_path, incarnation - 1)
        functions = [checkpointed.function_of(slot) for slot in now]
        held = [len(function.seen) for function in functions]
        assert max(held) - min(held) <= 1
        assert sorted(row for function in functions for row in function.seen) == sorted(rows)
        assert all(function.restored == (True, incarnation - 1, sorted(owners)) for function in functions)
        states = [slot.snapshot(incarnation, 0) for slot in now]
        owners = held
        for slot in now:
            slot.close()


def test_the_committed_operator_state_of_a_slot_can_be_read_from_outside(make: Make) -> None:
    slot = make()
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1), ("!limit", 5)))
    slot.snapshot(1, 0)

    def read(state: str, operator: str = "sum") -> tuple[str, Any]:
        request = protocol.ReadOperatorState(operator=operator, state=state)
        answer = slot.client.call(request, protocol.StateValue)
        return answer.kind, json.loads(answer.value)

    assert read("rules") == ("broadcast", {"limit": 5})
    assert read("owners")[0] == "operator union list"
    assert read("rows")[0] == "operator list"
    assert len(read("rows")[1]) == 2
    with pytest.raises(errors.SpecInvalid, match="no operator state 'total'"):
        read("total")


class Hoarder(checkpointed.Buffer):
    """Keeps a kilobyte for each row."""

    def snapshot_state(self, ctx: Any) -> None:
        self.rows.update([(key * 1024, value) for key, value in self.seen])


def with_room(make: Make, size_bytes: int, function: Any = None, **options: Any) -> slots.Slot:
    """A slot that has so much memory for operator state."""
    made = make(function, room=size_bytes, **options)
    made.restore()
    return made


def test_a_slot_tells_the_operator_states_that_it_has_and_their_bound(make: Make) -> None:
    slot = with_room(make, 1 << 20)
    slot.epoch(0, slots.rows(("a", 1), ("!limit", 5)))
    slot.snapshot(1, 0)
    told = slot.client.call(protocol.Status(), protocol.SlotStatus)
    assert [(one.operator, one.state, one.mode, one.elements) for one in told.operator_states] == [
        ("sum", "rows", "split", 2),
        ("sum", "owners", "union", 1),
        ("sum", "rules", "broadcast", 1),
    ]
    assert told.memory["operator_state"] == sum(one.size_bytes for one in told.operator_states) > 200
    assert told.memory["operator_state_limit"] == 1 << 20


def test_an_epoch_that_would_outgrow_the_memory_of_operator_state_fails_and_the_checkpoint_stays(
    make: Make, tmp_path: Path
) -> None:
    slot = with_room(make, 100_000)
    slot.epoch(0, slots.rows(("!first", 1)))
    state = slot.snapshot(1, 0)
    slot.feed(1, 1, slots.rows(*[(f"!{number}", 1) for number in range(1_000)]))
    with pytest.raises(errors.OperatorStateTooLarge, match=r"operator 'sum': operator state 'rules'.*Raise"):
        slot.finish(1, 1)
    again = make(incarnation=2, room=1 << 20)  # as the message asks
    checkpointed.restore(again, [state], tmp_path, 1)
    again.epoch(0, slots.rows(*[(f"!{number}", 1) for number in range(1_000)]))
    assert len(checkpointed.function_of(again).seen) == 1_001


def test_a_snapshot_that_would_outgrow_the_memory_of_operator_state_fails_with_its_name(make: Make) -> None:
    slot = with_room(make, 100_000, Hoarder())
    slot.epoch(0, slots.rows(*[("a", 1) for _ in range(200)]))
    request = protocol.Snapshot(incarnation=1, checkpoint_id=1, epoch=0)
    slot.client.call(request, protocol.Ok)
    state = slot.client.call(protocol.SnapshotPoll(checkpoint_id=1, wait_s=10), protocol.SnapshotState)
    assert state.done
    assert state.failure_reason == "OperatorStateTooLarge"
    assert "operator state 'rows'" in state.failure


def test_state_that_does_not_fit_into_fewer_slots_stops_the_restore_and_is_not_lost(
    make: Make, tmp_path: Path
) -> None:
    slot = with_room(make, 1 << 20, Hoarder())
    slot.epoch(0, slots.rows(*[("a", 1) for _ in range(200)]))
    state = slot.snapshot(1, 0)
    small = make(Hoarder(), incarnation=2, room=100_000)
    with pytest.raises(errors.OperatorStateTooLarge, match="'rows'"):
        checkpointed.restore(small, [state], tmp_path, 1)
