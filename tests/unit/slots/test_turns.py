"""The order of epochs in a slot."""

from __future__ import annotations

import threading

import pytest

from sparkstate.slots.turns import Turns


@pytest.mark.parametrize(
    ("came", "committed", "its_turn"),
    [
        ({3}, [], True),
        ({2, 3}, [], False),
        ({2, 3}, [2], True),
        ({1, 2, 3}, [1], False),
        ({3, 4}, [], True),
        ({0, 3}, [2], True),
    ],
    ids=[
        "alone",
        "behind one",
        "after its commit",
        "behind the next",
        "before a later",
        "after a late attempt",
    ],
)
def test_an_epoch_has_its_turn_when_every_earlier_one_that_came_is_committed(
    came: set[int], committed: list[int], its_turn: bool
) -> None:
    turns = Turns(lambda: came)
    assert not turns.any_committed()
    for epoch in committed:
        turns.committed(epoch)
    assert turns.of(3).has_come() is its_turn
    assert turns.any_committed() is bool(committed)


def test_a_commit_begins_the_turn_of_whoever_waits_for_it() -> None:
    turns = Turns(lambda: {0, 1})
    passed = threading.Event()

    def wait() -> None:
        turns.of(1).wait()
        passed.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not passed.wait(0.1)
    turns.committed(0)
    assert passed.wait(10)


def test_a_commit_that_comes_late_takes_no_turn_back() -> None:
    turns = Turns(lambda: {1, 2})
    turns.committed(1)
    turns.committed(0)
    assert turns.of(2).has_come()
