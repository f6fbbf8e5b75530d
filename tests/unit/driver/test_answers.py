"""What the slots answer when they are asked for a snapshot, and how long they may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.driver.answers import Answers
from sparkstate.slots import protocol

Replies = Mapping[int, protocol.SnapshotState]


class Group:
    """Slots of which each is done from one round of questions on; a round takes a second."""

    def __init__(self, clock: ManualClock, *done_in_round: int) -> None:
        self._clock = clock
        self._done_in_round = done_in_round
        self.asked: list[list[int]] = []
        self.says: Callable[[int], protocol.SnapshotState] = lambda slot: protocol.SnapshotState(done=True)

    def __len__(self) -> int:
        return len(self._done_in_round)

    def snapshot_states(self, waiting: Sequence[int], request: protocol.SnapshotPoll) -> Replies:
        self._clock.sleep(1.0)
        self.asked.append(list(waiting))
        assert request.checkpoint_id == 5
        return {slot: self._state(slot) for slot in waiting}

    def _state(self, slot: int) -> protocol.SnapshotState:
        done = len(self.asked) > self._done_in_round[slot]
        return self.says(slot) if done else protocol.SnapshotState(done=False)


def answers(group: Group, clock: ManualClock, abandoned: Callable[[], bool] = lambda: False) -> Answers:
    any_group: Any = group
    return Answers(any_group, 5, clock, abandoned)


def test_a_snapshot_is_done_when_every_slot_has_answered_and_none_is_asked_twice_for_its_files() -> None:
    clock = ManualClock()
    group = Group(clock, 0, 2, 1)
    assert len(answers(group, clock).in_time(60.0)) == 3
    assert group.asked == [[0, 1, 2], [1, 2], [1]], "one slot that has answered is one slot"


def test_a_checkpoint_that_takes_too_long_is_given_up_and_the_setting_is_named() -> None:
    clock = ManualClock()
    group = Group(clock, 0, 1000)
    began = clock.monotonic()
    with pytest.raises(
        errors.StorageError, match=r"checkpoint 5 took longer than checkpointing.timeout \(60 s\)"
    ):
        answers(group, clock).in_time(60.0)
    assert 60.0 <= clock.monotonic() - began <= 62.0
    assert group.asked[-1] == [1]


def test_a_savepoint_that_is_not_stored_in_so_long_has_not_failed() -> None:
    clock = ManualClock()
    group = Group(clock, 0, 5)
    asked = answers(group, clock)
    assert asked.within(3.0) is None
    assert len(asked.in_time(60.0)) == 2, "what the others have said is kept"


def test_what_a_slot_says_went_wrong_is_raised_with_the_slot() -> None:
    clock = ManualClock()
    group = Group(clock, 0, 1)
    group.says = lambda slot: protocol.SnapshotState(
        done=True, failure="the disk is full" if slot == 1 else "", failure_reason="StorageError"
    )
    with pytest.raises(errors.StorageError, match="slot 1: the disk is full"):
        answers(group, clock).in_time(60.0)


def test_nobody_waits_for_the_answers_of_an_incarnation_that_is_over() -> None:
    clock = ManualClock()
    with pytest.raises(errors.SlotLost, match="checkpoint 5 was given up"):
        answers(Group(clock, 1000), clock, lambda: True).in_time(60.0)


def test_each_round_of_questions_tells_how_much_all_slots_have_stored() -> None:
    clock = ManualClock()
    group = Group(clock, 0, 2)
    group.says = lambda slot: protocol.SnapshotState(done=True, done_bytes=100 + slot, total_bytes=120)
    told: list[tuple[int, int]] = []
    any_group: Any = group
    asked = Answers(any_group, 5, clock, lambda: False, lambda done, total: told.append((done, total)))
    asked.in_time(60.0)
    assert told == [(100, 120), (100, 120), (201, 240)]  # a slot that has answered still counts
