"""Whose a job is, where there is more than one operator."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from support.decisions import job

from sparkstate_operator import errors, labels, managing
from sparkstate_operator.edges import neighbours
from sparkstate_operator.edges.handlers import of_class
from sparkstate_operator.managing import Manager

OWN, OTHER = Manager("ops", "ours"), Manager("ops", "theirs")


class ManualClock:
    """Goes as far as it is told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def monotonic(self) -> float:
        return self.now_s


class Leases:
    """An API server that holds one Lease: its version and annotations; None: it is not there."""

    def __init__(self) -> None:
        self.version: str | None = "1"
        self.notes: dict[str, str] = {}
        self.forbidden = False

    async def get(self, _kind: Any, namespace: str, name: str) -> dict[str, Any] | None:
        assert (namespace, name) == ("ops", "theirs")
        if self.forbidden:
            raise errors.Forbidden(403, "leases is forbidden")
        meta = {"resourceVersion": self.version, "annotations": self.notes}
        return {"metadata": meta} if self.version is not None else None


@pytest.mark.parametrize("one", [OWN, Manager("ops", "ours", "blue")], ids=lambda one: one.text)
def test_a_mark_is_read_as_it_was_written(one: Manager) -> None:
    assert Manager.of(one.text) == one


@pytest.mark.parametrize("text", ["", "ours", "/", "a/b/c", "ops/"])
def test_what_no_operator_has_written_is_nobody_s_mark(text: str) -> None:
    assert Manager.of(text) is None


@pytest.mark.parametrize(
    ("mark", "operator_class", "finalizers", "found"),
    [
        ("ops/theirs", "", (labels.FINALIZER,), OTHER),
        ("ops/theirs", "", (), None),
        ("ops/ours", "", (labels.FINALIZER,), None),
        ("ops/ours@green", "", (labels.FINALIZER,), None),
        ("", "", (labels.FINALIZER,), None),
        ("nonsense", "", (labels.FINALIZER,), None),
        ("ops/theirs", "blue", (labels.FINALIZER,), None),
        ("ops/theirs@blue", "blue", (labels.FINALIZER,), Manager("ops", "theirs", "blue")),
    ],
    ids=[
        "another's",
        "let go",
        "own",
        "own of before",
        "unmarked",
        "odd",
        "of a class it has left",
        "of its class",
    ],
)
def test_whose_it_is(
    mark: str, operator_class: str, finalizers: tuple[str, ...], found: Manager | None
) -> None:
    one = dataclasses.replace(job(), finalizers=finalizers, annotations={labels.MANAGER: mark})
    assert managing.other_manager(one, operator_class, OWN) == found


@pytest.mark.parametrize(
    ("notes", "there"),
    [
        ({}, True),
        (OTHER.notes(()), True),
        (OTHER.notes(("bank", "shop")), True),
        (OTHER.notes(("bank",)), False),
        (Manager("ops", "theirs", "blue").notes(()), False),
    ],
    ids=["says nothing", "all namespaces", "this one", "others", "another class"],
)
def test_an_operator_that_was_given_another_class_or_other_namespaces_holds_nothing_there(
    notes: dict[str, str], there: bool
) -> None:
    leases = Leases()
    leases.notes = notes
    asked = neighbours.Neighbours(leases, OWN, ManualClock())  # type: ignore[arg-type]
    assert asyncio.run(asked.is_there(OTHER, "shop")) == there


@pytest.mark.parametrize("version", ["1", None], ids=["not renewed", "not there"])
def test_an_operator_counts_as_gone_when_its_lease_says_nothing_for_long(version: str | None) -> None:
    clock, leases = ManualClock(), Leases()
    asked = neighbours.Neighbours(leases, OWN, clock)  # type: ignore[arg-type]

    def is_there(after_s: float) -> bool:
        clock.advance(after_s)
        return asyncio.run(asked.is_there(OTHER, "shop"))

    assert is_there(0)
    assert is_there(neighbours.GONE_S - 1)
    leases.version = "2"
    assert is_there(neighbours.ASK_S)
    leases.version = version
    assert is_there(neighbours.ASK_S)
    assert is_there(neighbours.GONE_S - 1)
    assert not is_there(1)


def test_an_operator_whose_lease_may_not_be_read_counts_as_there() -> None:
    clock, leases = ManualClock(), Leases()
    leases.forbidden = True
    asked = neighbours.Neighbours(leases, OWN, clock)  # type: ignore[arg-type]
    assert asyncio.run(asked.is_there(OTHER, "shop"))
    clock.advance(10 * neighbours.GONE_S)
    assert asyncio.run(asked.is_there(OTHER, "shop"))


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("", True),
        ("blue", True),
        ("team-a", True),
        ("Blue", False),
        ("-a", False),
        ("a" * 64, False),
        ("a,b", False),
    ],
    ids=repr,
)
def test_a_class_is_what_a_label_may_be(value: str, valid: bool) -> None:
    assert bool(managing.CLASS.fullmatch(value)) == valid


def test_jobs_of_the_own_class_alone_are_watched() -> None:
    assert of_class("") == "!sparkstate.io/operator-class"
    assert of_class("blue") == "sparkstate.io/operator-class=blue"
