"""How another operator's objects are told of, and how often they are looked at."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from support.scene.decisions import NOW, job

from sparkstate_operator import labels, leaving
from sparkstate_operator.custody import Custody
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Others
from sparkstate_operator.managing import Manager
from sparkstate_operator.queue import Requeue

THEIRS = Manager("ops", "theirs")


class ManualClock:
    """Goes as far as it is told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def others(uid: str = "uid-1", manager: Manager | None = THEIRS) -> Others:
    return Others(dataclasses.replace(job(), uid=uid), manager)


def test_each_of_thousands_is_told_once_an_hour_and_looked_at_less_often() -> None:
    clock = ManualClock()
    left = leaving.Leaving(clock, "ops/ours")  # type: ignore[arg-type]

    def told() -> int:
        return sum(left.note(each, others(f"uid-{each}")) is not None for each in range(5000))

    assert left.pause_s == leaving.OTHERS_S
    assert told() == 5000
    assert left.pause_s == 10 * leaving.OTHERS_S
    assert 5000 / left.pause_s == leaving.AT_ONCE / leaving.OTHERS_S
    clock.now_s += leaving.AGAIN_S - 1
    assert told() == 0
    clock.now_s += 1
    assert told() == 5000
    for each in range(5000):
        left.forget(each)
    assert left.pause_s == leaving.OTHERS_S


class Silent:
    """Takes whatever it is told."""

    def __getattr__(self, name: str) -> Any:
        async def act(*_: Any) -> None:
            return None

        return act


class Recorder:
    def body(self, *_: Any) -> None:
        return None


def test_what_is_left_to_another_class_no_longer_counts_as_another_operators() -> None:
    """Neither if nobody makes an event of it afterwards: the pauses of all others go by their number."""
    custody = Custody(Silent(), Recorder(), ManualClock(), "ops/ours")  # type: ignore[arg-type]

    async def leave(manager: Manager | None) -> set[Requeue | None]:
        return {
            await custody.leave(each, k.JOBS, others(f"uid-{each}", manager), "shop") for each in range(1000)
        }

    assert Requeue(2 * leaving.OTHERS_S) in asyncio.run(leave(THEIRS))
    assert asyncio.run(leave(None)) == {None}
    assert custody._leaving.pause_s == leaving.OTHERS_S


def test_another_object_or_another_operator_is_told_at_once() -> None:
    left = leaving.Leaving(ManualClock(), "ops/ours")  # type: ignore[arg-type]
    assert left.note("a", others()) is not None
    assert left.note("a", others()) is None
    assert left.note("a", others("uid-2")) is not None
    found = left.note("a", others("uid-2", Manager("ops", "third")))
    assert found is not None
    assert "the operator ops/third looks after it, so the operator ops/ours leaves it alone" in found.message
    assert left.note("b", others(manager=None)) is None


def test_who_waits_for_another_to_end_a_deletion_is_not_told_to_change_anything() -> None:
    left = leaving.Leaving(ManualClock(), "ops/ours")  # type: ignore[arg-type]
    found = left.note("a", Others(dataclasses.replace(job(), deleting_at=NOW), THEIRS))
    assert found is not None
    assert "the operator ops/theirs looks after it, so the operator ops/ours leaves it alone" in found.message
    assert "ends its deletion" in found.message
    assert "two operators" not in found.message


@pytest.mark.parametrize(
    ("fields", "waits", "ours"),
    [
        ({}, False, True),
        ({"annotations": {labels.MANAGER: "ops/ours@green"}}, False, True),
        ({"annotations": {labels.MANAGER: "ops/theirs@blue"}}, False, False),
        ({"annotations": {}}, False, False),
        ({"finalizers": ()}, False, False),
        ({}, True, False),
    ],
    ids=[
        "held by us",
        "held by us under another class",
        "marked by another",
        "unmarked",
        "let go already",
        "its job may come yet",
    ],
)
def test_what_was_given_another_class_is_let_go_by_whom_it_was_held(
    fields: dict[str, Any], waits: bool, ours: bool
) -> None:
    left = leaving.Leaving(ManualClock(), "ops/ours")  # type: ignore[arg-type]
    about = dataclasses.replace(job(), annotations={labels.MANAGER: "ops/ours"})
    about = dataclasses.replace(about, **fields)
    assert left.is_ours(Others(about, None, waits)) is ours
