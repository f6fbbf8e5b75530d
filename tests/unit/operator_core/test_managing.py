"""Whose a job is, where there is more than one operator."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, job

from sparkstate_operator import errors, labels, managing, observed
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges import neighbours
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

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.now_s - 1000.0)


class Leases:
    """An API server that holds one Lease: its version and annotations; None: it is not there."""

    def __init__(self) -> None:
        self.version: str | None = "1"
        self.notes: dict[str, str] = {labels.CLUSTER: "blue"}
        self.spec: dict[str, Any] = {}
        self.forbidden = False
        self.asked = 0
        self.jobs: dict[str, Any] = {}

    async def get(self, _kind: Any, namespace: str, name: str) -> dict[str, Any] | None:
        if _kind is k.JOBS:
            return self.jobs.get(name)
        assert (namespace, name) == ("ops", "theirs")
        self.asked += 1
        if self.forbidden:
            raise errors.Forbidden(403, "leases is forbidden")
        meta = {"resourceVersion": self.version, "annotations": self.notes}
        return {"metadata": meta, "spec": self.spec} if self.version is not None else None


@pytest.mark.parametrize(
    "one", [OWN, Manager("ops", "ours", "blue"), Manager("ops", "a.b-c")], ids=lambda one: one.text
)
def test_a_mark_is_read_as_it_was_written(one: Manager) -> None:
    assert Manager.of(one.text) == one


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ours",
        "/",
        "a/b/c",
        "ops/",
        "../..",
        "ops/..",
        "ops/a..b",
        "ops/a?b",
        "o.ps/a",
        "Ops/a",
        "ops/a@B",
        "a/b@c/d",
        f"ops/{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 63}",
    ],
)
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
    leases.notes.update(notes)
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
    assert asyncio.run(asked.is_there(OTHER, "shop"))
    assert leases.asked == 1, "not once for each of its jobs"
    clock.advance(10 * neighbours.GONE_S)
    assert asyncio.run(asked.is_there(OTHER, "shop"))
    leases.forbidden = False
    clock.advance(neighbours.ASK_S)
    assert asyncio.run(asked.is_there(OTHER, "shop"))
    clock.advance(neighbours.GONE_S)
    assert not asyncio.run(asked.is_there(OTHER, "shop"))


def test_a_lease_that_no_operator_has_written_holds_nothing_for_long() -> None:
    clock, leases = ManualClock(), Leases()
    leases.notes = {}
    asked = neighbours.Neighbours(leases, OWN, clock)  # type: ignore[arg-type]
    for version in ("1", "2", "3"):
        leases.version = version
        there = asyncio.run(asked.is_there(OTHER, "shop"))
        clock.advance(neighbours.GONE_S / 2)
    assert not there


@pytest.mark.parametrize(
    ("held_s", "gone_s"), [(15, neighbours.GONE_S), (300, 900.0)], ids=["the default", "the longest"]
)
def test_an_operator_with_a_long_lease_is_given_longer(held_s: int, gone_s: float) -> None:
    """Its last word is of one that lets go: that says 1 s and counts for nothing."""
    clock, leases = ManualClock(), Leases()
    asked = neighbours.Neighbours(leases, OWN, clock)  # type: ignore[arg-type]
    leases.spec = {"holderIdentity": "one", "leaseDurationSeconds": held_s}
    assert asyncio.run(asked.is_there(OTHER, "shop"))
    leases.version, leases.spec = "2", {"holderIdentity": "", "leaseDurationSeconds": 1}
    clock.advance(neighbours.ASK_S)
    assert asyncio.run(asked.is_there(OTHER, "shop"))
    clock.advance(gone_s - 1)
    assert asyncio.run(asked.is_there(OTHER, "shop"))
    clock.advance(1)
    assert not asyncio.run(asked.is_there(OTHER, "shop"))


BLUE = Manager("ops", "ours", "blue")


def body_of(name: str, marks: dict[str, str]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1}
    return {
        "metadata": {**meta, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": marks},
        "spec": {},
    }


def whose(snapshot: observed.Snapshot, own: Manager, **jobs: dict[str, str]) -> neighbours.Others | None:
    """Of a snapshot, where there are jobs with these labels."""
    leases = Leases()
    for name, marks in jobs.items():
        leases.jobs[name] = body_of(name, marks)
    asked = neighbours.Neighbours(leases, own, ManualClock())  # type: ignore[arg-type]
    return asyncio.run(asked.of_snapshot("shop", snapshot))


def snapshot_of(phase: str = "", mark: str = "") -> observed.Snapshot:
    return observed.Snapshot(
        name="one",
        uid="s-1",
        resource_version="1",
        generation=1,
        created=NOW,
        spec={"jobRef": {"name": "orders"}},
        status={"phase": phase} if phase else {},
        labels={},
        annotations={labels.MANAGER: mark} if mark else {},
        finalizers=(labels.FINALIZER,) if mark else (),
    )


def test_a_snapshot_that_comes_before_its_job_is_waited_for_by_operators_with_a_class() -> None:
    found = whose(snapshot_of(), BLUE)
    assert found is not None
    assert found.waits
    assert whose(snapshot_of(), BLUE, orders={labels.OPERATOR_CLASS: "blue"}) is None
    other = whose(snapshot_of(), BLUE, orders={})
    assert other is not None
    assert not other.waits
    over = whose(snapshot_of("Completed"), BLUE)
    assert over is not None
    assert not over.waits, "nobody looks at it for ever"


def test_a_snapshot_of_our_own_goes_with_a_job_that_was_given_away() -> None:
    gone = {"orders": {labels.OPERATOR_CLASS: "blue"}}
    pending = snapshot_of("Pending", OWN.text)
    assert whose(pending, OWN, **gone) is not None
    assert whose(pending, BLUE, **gone) is None
    assert whose(snapshot_of("Completed", OWN.text), OWN, **gone) is None


def ending(mark: Manager, **job_labels: str) -> tuple[observed.Job, observed.Snapshot]:
    """A job and a snapshot of it, both marked, both being deleted."""
    marks: dict[str, str] = {labels.OPERATOR_CLASS: job_labels["operator_class"]} if job_labels else {}
    notes = {labels.MANAGER: mark.text}
    one = dataclasses.replace(snapshot_of("Completed", mark.text), deleting_at=NOW)
    return dataclasses.replace(job(deleting=True), annotations=notes, labels=marks), one


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a job is given a class that nobody serves",
    when="it is being deleted, or one of its snapshots is",
    expected="the operator that has marked it ends the deletion",
)
@pytest.mark.parametrize("own", [OWN, BLUE], ids=["of the class of the mark", "of another one since"])
def test_who_has_marked_it_ends_its_deletion_whatever_class_it_has_now(own: Manager) -> None:
    gone, one = ending(OWN, operator_class="nobodys")
    asked = neighbours.Neighbours(Leases(), own, ManualClock())  # type: ignore[arg-type]
    assert asyncio.run(asked.of_job(gone)) is None
    assert whose(one, own, orders=dict(gone.labels)) is None
    alive = dataclasses.replace(gone, deleting_at=None)
    assert asyncio.run(asked.of_job(alive)) == neighbours.Others(alive, None)
    released = dataclasses.replace(gone, finalizers=("example.org/theirs",))
    assert asyncio.run(asked.of_job(released)) == neighbours.Others(released, None)


@pytest.mark.parametrize(
    "now", [OTHER, Manager("ops", "theirs", "green")], ids=["as marked", "another class"]
)
def test_operators_of_its_new_class_wait_while_the_one_that_has_marked_it_ends_its_deletion(
    now: Manager,
) -> None:
    gone, one = ending(OTHER, operator_class="blue")
    leases, clock = Leases(), ManualClock()
    leases.notes.update(now.notes(()))
    leases.jobs["orders"] = body_of("orders", dict(gone.labels))
    asked = neighbours.Neighbours(leases, BLUE, clock)  # type: ignore[arg-type]
    assert asyncio.run(asked.of_job(gone)) == neighbours.Others(gone, OTHER)
    assert asyncio.run(asked.of_snapshot("shop", one)) == neighbours.Others(one, OTHER)
    assert asyncio.run(asked.of_job(dataclasses.replace(gone, deleting_at=None))) is None
    clock.advance(neighbours.GONE_S)
    assert asyncio.run(asked.of_job(gone)) is None, "it is gone, so that of its class ends it"
    assert asyncio.run(asked.of_snapshot("shop", one)) is None


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="an operator is gone with its namespace",
    when="what it has marked is deleted, and the operator that is left may not read Leases there",
    expected="the operator that is left ends the deletion, some time after its deadline",
)
@pytest.mark.parametrize(
    ("operator_class", "left"), [("", OWN), ("blue", BLUE)], ids=["of its class", "given another class since"]
)
@pytest.mark.parametrize(("told", "deadline_s"), [(None, 300), ("1h", 3600)], ids=["default", "told"])
def test_a_deletion_does_not_wait_for_ever_for_an_operator_whose_lease_may_not_be_read(
    operator_class: str, left: Manager, told: str | None, deadline_s: int
) -> None:
    gone, one = ending(OTHER, operator_class=operator_class)
    spec = {"deletion": {"deadline": told}, "deadline": told} if told else {}
    gone = dataclasses.replace(gone, spec=spec)
    one = dataclasses.replace(one, spec={**one.spec, **spec})
    leases, clock = Leases(), ManualClock()
    leases.forbidden = True
    leases.jobs["orders"] = body_of("orders", dict(gone.labels))
    asked = neighbours.Neighbours(leases, left, clock)  # type: ignore[arg-type]
    clock.advance(deadline_s + neighbours.GONE_S - 1)
    assert asyncio.run(asked.of_job(gone)) == neighbours.Others(gone, OTHER)
    assert asyncio.run(asked.of_snapshot("shop", one)) == neighbours.Others(one, OTHER)
    clock.advance(1)
    assert asyncio.run(asked.of_job(gone)) is None
    assert asyncio.run(asked.of_snapshot("shop", one)) is None
    alive = dataclasses.replace(gone, deleting_at=None, labels={})
    asked = neighbours.Neighbours(leases, OWN, clock)  # type: ignore[arg-type]
    assert asyncio.run(asked.of_job(alive)) == neighbours.Others(alive, OTHER), "a person can tell"
    # Its snapshot's deletion ends all the same.
    alive_body = body_of("orders", {})
    alive_body["metadata"] |= {"finalizers": [labels.FINALIZER], "annotations": {labels.MANAGER: OTHER.text}}
    leases.jobs["orders"] = alive_body
    assert asyncio.run(asked.of_snapshot("shop", one)) is None
    pending = dataclasses.replace(one, deleting_at=None)
    assert asyncio.run(asked.of_snapshot("shop", pending)) == neighbours.Others(pending, OTHER)


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
    assert managing.selector("") == "!sparkstate.io/operator-class"
    assert managing.selector("blue") == "sparkstate.io/operator-class=blue"
