"""The order of epochs in a slot."""

from __future__ import annotations

import threading

import pytest

from sparkstate.slots.turns import Turns


@pytest.mark.parametrize(
    ("follows", "committed", "their_turn"),
    [
        (-1, [], True),
        (2, [], False),
        (2, [2], True),
        (2, [1], False),
        (2, [3], True),
    ],
    ids=["behind none", "behind one", "after its commit", "behind the next", "late ones"],
)
def test_rows_have_their_turn_when_the_epoch_that_they_follow_is_committed(
    follows: int, committed: list[int], their_turn: bool
) -> None:
    turns = Turns()
    assert not turns.any_committed()
    for epoch in committed:
        turns.committed(epoch)
    assert turns.behind(follows).has_come() is their_turn
    assert turns.any_committed() is bool(committed)


def test_a_commit_begins_the_turn_of_whoever_waits_for_it() -> None:
    turns = Turns()
    passed = threading.Event()

    def wait() -> None:
        turns.behind(0).wait()
        passed.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not passed.wait(0.1)
    turns.committed(0)
    assert passed.wait(10)


def test_a_commit_that_comes_late_takes_no_turn_back() -> None:
    turns = Turns()
    turns.committed(1)
    turns.committed(0)
    assert turns.behind(1).has_come()
