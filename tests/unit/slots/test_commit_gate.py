"""Who may be at a slot's stores, and what waits for that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from sparkstate import clock
from sparkstate.slots.commit_gate import CommitGate

LIMIT_S = 10.0


@pytest.fixture
def prepared() -> threading.Event:
    """Whether the snapshots that were accepted are prepared."""
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def gate(prepared: threading.Event) -> CommitGate:
    return CommitGate(prepared.is_set, clock.SystemClock())


class Holding:
    """Somebody who has the gate, in a thread of its own."""

    def __init__(self, way_in: Callable[[], AbstractContextManager[Any]]) -> None:
        self._way_in = way_in
        self.inside, self.may_leave = threading.Event(), threading.Event()
        self.got: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._way_in() as self.got:
            self.inside.set()
            assert self.may_leave.wait(LIMIT_S)

    def leave(self) -> None:
        self.may_leave.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


def test_a_commit_waits_until_the_snapshots_are_prepared_and_says_how_long(
    gate: CommitGate, prepared: threading.Event
) -> None:
    prepared.clear()
    committing = Holding(gate.commit)
    assert not committing.inside.wait(0.1)
    with gate.held_within(LIMIT_S) as held:  # it waits outside
        assert held
    prepared.set()
    gate.look_again()
    assert committing.inside.wait(LIMIT_S)
    committing.leave()
    assert committing.got >= 100


@pytest.mark.parametrize("way_in", ["commit", "between_commits", "held"])
def test_the_gate_has_room_for_one(gate: CommitGate, way_in: str) -> None:
    first = Holding(getattr(gate, way_in))
    assert first.inside.wait(LIMIT_S)
    with gate.held_within(0.05) as held:
        assert not held
    second = Holding(gate.commit)
    assert not second.inside.wait(0.1)
    first.leave()
    assert second.inside.wait(LIMIT_S)
    second.leave()


def test_what_the_gate_is_free_for_is_done_at_once(gate: CommitGate) -> None:
    done: list[str] = []
    gate.when_free(lambda: done.append("at once"))
    assert done == ["at once"]


@pytest.mark.parametrize("way_in", ["commit", "between_commits"])
def test_what_came_beside_a_commit_is_done_before_the_next_and_before_a_snapshot(
    gate: CommitGate, way_in: str
) -> None:
    done: list[str] = []
    committing = Holding(gate.commit)
    assert committing.inside.wait(LIMIT_S)
    for name in ("one", "two"):
        gate.when_free(lambda name=name: done.append(name))  # type: ignore[misc]
    committing.leave()
    with gate.held():  # a look does nothing of it
        assert done == []
    with getattr(gate, way_in)():
        assert done == ["one", "two"]


def test_whoever_fails_at_the_gate_leaves_it(gate: CommitGate) -> None:
    for way_in in (gate.commit, gate.between_commits, gate.held, lambda: gate.held_within(LIMIT_S)):
        with pytest.raises(ValueError, match="at the gate"), way_in():  # type: ignore[operator]
            raise ValueError("at the gate")
    other = Holding(gate.held)
    assert other.inside.wait(LIMIT_S)
    other.leave()
