"""The decision about a snapshot: whose it is, and when its savepoint is asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.decisions import NOW, job, pod, revision, running_status

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import snapshot

RUNNING = observed.Report({"phase": "RUNNING"})


def one(uid: str = "s-1", phase: str = "", **fields: Any) -> observed.Snapshot:
    made = observed.Snapshot(
        name=f"savepoint-{uid}",
        uid=uid,
        resource_version="1",
        generation=1,
        created=NOW,
        spec={"jobRef": {"name": "orders"}},
        status={"phase": phase} if phase else {},
        labels={},
        annotations={},
        finalizers=(),
    )
    return dataclasses.replace(made, **fields)


def look(found: observed.Snapshot, *others: observed.Snapshot) -> actions.Decision:
    seen = observed.AroundSnapshot(found, NOW, job(running_status()), pod(), RUNNING, others)
    return snapshot.decide(seen, revision(), Config())


def test_a_snapshot_that_somebody_made_gets_the_labels_of_its_job() -> None:
    (action,) = look(one()).before
    marks = {labels.JOB: "orders", labels.JOB_UID: "uid-1"}
    assert action == actions.AddFinalizer(marks)
    assert look(one(finalizers=(labels.FINALIZER,))).before == (action,), "without labels it is not found"
    assert look(one(finalizers=(labels.FINALIZER,), labels=marks)).before == ()


@pytest.mark.parametrize("phase", ["Triggered", "InProgress"])
def test_a_savepoint_waits_for_another_that_is_in_flight(phase: str) -> None:
    waits = look(one(), one("s-2", phase))
    assert (waits.status["phase"], waits.status["reason"]) == ("Pending", "SavepointInFlight")
    assert "triggerId" not in waits.status
    assert waits.wait_s is not None
    assert waits.wait_s < 10


@pytest.mark.parametrize("phase", ["", "Pending", "Completed", "Failed"])
def test_a_savepoint_waits_for_no_other(phase: str) -> None:
    assert look(one(), one("s-2", phase)).status["phase"] == "Triggered"
