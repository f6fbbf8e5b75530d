"""The data of a savepoint stays while a job has to start from it, as a claim stays while a pod uses it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, revision, running_status

from sparkstate_operator import actions, clock, dependants, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide, snapshot
from sparkstate_operator.decide.snapshot_deletion import LOOK_S

URI = "s3://bucket/state/savepoints/savepoint-1"
OTHER = "s3://bucket/state/savepoints/savepoint-2"
RUNS = {"attempt": 3, "observedGeneration": 1}
BY_NAME = {"restoreFrom": {"snapshotRef": {"name": "one"}}}
BY_URI = {"restoreFrom": {"uri": f"{URI}/_metadata"}}


@pytest.mark.parametrize(
    ("status", "fields", "needed"),
    [
        ({}, {"configuration": {"execution.state-recovery.path": URI}}, True),
        ({}, {"flinkConfiguration": {"execution": {"savepoint": {"path": f"{URI}/"}}}}, True),
        (RUNS, {"configuration": {"execution.state-recovery.path": URI}}, False),
        ({}, {"configuration": {"execution.savepoint.path": URI, "state.backend.type": 7}}, True),
        ({}, {"configuration": URI, **BY_URI}, True),
        ({}, BY_NAME, True),
        ({}, BY_URI, True),
        ({}, {"restoreFrom": {"uri": OTHER}}, False),
        ({}, {"restoreFrom": {"snapshotRef": {"name": "two"}}}, False),
        ({}, {"restoreFrom": {"latest": True}}, False),
        ({}, {}, False),
        ({**RUNS, "start": {"uri": f"{URI}/"}}, BY_NAME, True),
        ({**RUNS, "start": {"uri": URI}}, {}, True),
        (RUNS, BY_NAME, False),
        (RUNS, BY_URI, False),
        ({**RUNS, "observedGeneration": 0}, BY_NAME, True),
        ({**RUNS, "intent": {"action": "upgrade"}}, BY_URI, True),
        ({**RUNS, "refused": {"revision": "r"}}, BY_NAME, True),
        ({**RUNS, "intent": {"action": "upgrade"}}, {}, False),
        ({**RUNS, "start": {"latest": True}}, {}, False),
    ],
)
def test_a_job_needs_it_until_it_has_state_of_its_own(
    status: dict[str, Any], fields: dict[str, Any], needed: bool
) -> None:
    assert dependants.needs(job(status, **fields), "one", URI) == needed
    assert not dependants.needs(job(status, deleting=True, **fields), "one", URI)


@pytest.mark.parametrize(
    ("spec", "status", "needed"),
    [
        ({"uri": f"{URI}/"}, {"uri": URI}, True),
        ({"uri": URI}, {}, True),
        ({"uri": OTHER}, {"uri": OTHER}, False),
        ({"jobRef": {"name": "orders"}}, {}, False),
    ],
)
def test_the_same_data_may_be_named_by_another_snapshot(
    spec: dict[str, Any], status: dict[str, Any], needed: bool
) -> None:
    """One was taken of a job, and the other registered its folder for the next one."""
    two = observed.Snapshot("two", "s-2", "1", 1, NOW, spec, status, {}, {}, ())
    waits = job({}, restoreFrom={"snapshotRef": {"name": "two"}})
    assert dependants.needs(waits, "one", URI, {"two": two}) == needed
    assert not dependants.needs(job(RUNS, restoreFrom=waits.spec["restoreFrom"]), "one", URI, {"two": two})


@pytest.mark.parametrize(
    ("told", "reported"),
    [
        ("/mnt/s/sp-1", "file:///mnt/s/sp-1"),
        ("/mnt//s/./sp-1/", "file:///mnt/s/sp-1"),
        ("//mnt/s/sp-1", "file:///mnt/s/sp-1"),
        ("file:///mnt/s/sp-1/_metadata", "/mnt/s/sp-1"),
        ("/mnt/s/sp-1/_metadata/", "file:///mnt/s/sp-1"),
        ("file:/mnt/s/sp-1", "file:///mnt/s/sp-1"),
        ("file://localhost/mnt/s/sp-1", "file:///mnt/s/sp-1"),
        ("/mnt/s/a b%", "file:///mnt/s/a%20b%25"),
        ("s3://b//x/", "s3://b/x"),
        ("s3a://b/x", "s3://b/x"),
        ("s3n://b/x/_metadata", "s3://b/x"),
    ],
)
def test_a_folder_is_the_same_however_it_is_written(told: str, reported: str) -> None:
    for named, uri in ((told, reported), (reported, told)):
        assert dependants.needs(job({}, restoreFrom={"uri": named}), "one", uri)
        assert dependants.needs(job({**RUNS, "start": {"uri": named}}), "one", uri)


@pytest.mark.parametrize(
    ("told", "reported"),
    [
        ("/mnt/s/sp-1", "file:///mnt/s/sp-10"),
        ("/mnt/s/a%20b", "file:///mnt/s/a%20b"),
        ("s3://b/a%20b", "s3://b/a b"),
        ("s3://mnt/x", "file:///mnt/x"),
        ("file://[", "file:///"),
        ("mnt/x", "file:///mnt/x"),
    ],
)
def test_another_folder_is_another_one(told: str, reported: str) -> None:
    assert not dependants.needs(job({}, restoreFrom={"uri": told}), "one", reported)


class Deleted:
    """A snapshot that is deleted with its data, look by look."""

    def __init__(self, **spec: Any) -> None:
        self.spec = {"uri": URI, "deletionPolicy": "Delete", **spec}
        self.status: dict[str, Any] = {"phase": "Completed", "uri": URI}
        self.now = NOW

    def look(self, needed_by: str = "", after_s: float = 0.0, **seen: Any) -> actions.Decision:
        self.now += timedelta(seconds=after_s)
        one = observed.Snapshot(
            "one", "s-1", "1", 1, NOW, self.spec, self.status, {}, {}, (labels.FINALIZER,), NOW
        )
        around = observed.ObservedSnapshot(one, self.now, needed_by=needed_by, **seen)
        decision = snapshot.decide(around, None, Config())
        self.status = dict(decision.status)
        return decision


def test_the_data_stays_beyond_the_deadline_and_the_event_comes_once() -> None:
    one = Deleted(deadline="1m")
    one.look("orders")
    told = []
    for _ in range(5):
        waits = one.look("orders", after_s=3600)
        assert (one.status["phase"], one.status["reason"]) == ("Deleting", "InUse")
        assert "the job orders has to start from it" in one.status["message"]
        assert not waits.actions and waits.wait_s == LOOK_S
        told += [(note.reason, note.warning) for note in waits.notes]
    assert told == [("DataInUse", True)]


def test_the_deadline_counts_from_when_nobody_needs_it_any_more() -> None:
    one = Deleted(deadline="1m")
    one.look("orders")
    one.look("orders", after_s=3600)
    again = one.look()
    assert not again.actions and again.wait_s == 0.0, "the jobs are read once more, when the reason is gone"
    assert "reason" not in one.status and one.status["deletionStartedTime"] == clock.text(one.now)
    (created,) = acts(one.look(), actions.CreateCommand)
    assert created.does == actions.DELETE and one.status["reason"] == dependants.GOES
    assert "DataKept" not in [note.reason for note in one.look(after_s=50).notes]
    assert "DataKept" in [note.reason for note in one.look(after_s=20).notes]


def test_whoever_wants_the_object_gone_without_its_data_waits_for_nothing() -> None:
    one = Deleted()
    one.look("orders")
    one.look("orders", after_s=10)
    one.spec["deletionPolicy"] = "Retain"
    assert acts(one.look("orders"), actions.RemoveFinalizer)


def test_a_namespace_that_ends_waits_for_no_job() -> None:
    one = Deleted()
    one.look()
    ends = one.look("orders", namespace_terminating=True)
    assert acts(ends, actions.RemoveFinalizer)
    assert [note.reason for note in ends.notes] == ["DataKept"]


@pytest.mark.parametrize(
    ("phase", "reason", "starts"),
    [
        ("Completed", None, True),
        ("Deleting", "InUse", True),
        ("Deleting", None, False),
        ("Deleting", "GivingUp", False),
        ("Deleting", "DataIsDeleted", False),
        ("Pending", None, False),
    ],
)
def test_a_job_starts_from_data_that_waits_for_it(phase: str, reason: str | None, starts: bool) -> None:
    """Else the job would wait for the snapshot, and the snapshot for the job."""
    status = {"phase": phase, "uri": URI, **({} if reason is None else {"reason": reason})}
    one = observed.Snapshot("one", "s-1", "1", 1, NOW, {"uri": URI}, status, {}, {}, ())
    begun = look(observed.ObservedState(job({}, finalizers=(), **BY_NAME), NOW, snapshots=(one,)))
    assert ((begun.status.get("start") or {}).get("uri") == URI) == starts
    assert dependants.needs(job(begun.status, **BY_NAME), "one", URI)


@pytest.mark.parametrize("mode", ["last-state", "savepoint", "stateless"])
def test_a_job_whose_spec_names_the_data_no_more_needs_it_until_it_has_its_own(mode: str) -> None:
    """The engine restores it again: nothing of the job's own is complete."""
    named = revision(upgradeMode=mode, **BY_NAME)
    status = running_status(revision=named.name, start={"uri": URI, "since": 1})
    changed = job(status, generation=2, upgradeMode=mode)
    seen = observed.ObservedState(changed, NOW, drivers=(pod(revision=named.name),))
    wanted = revision(upgradeMode=mode)
    known = {one.name: one for one in (named, wanted)}
    decided = decide(seen, known, wanted, "", Config())
    after = job(decided.status, generation=2, upgradeMode=mode)
    assert decided.status["start"]["uri"] == URI and not decided.status["start"].get("empty")
    assert dependants.needs(after, "one", URI)


def test_a_run_that_ends_before_its_checkpoint_was_reported_needs_it_no_more() -> None:
    named = revision(**BY_NAME)
    status = running_status(revision=named.name, start={"uri": URI, "since": 1})
    over = pod(revision=named.name, phase="Succeeded", ready=False, ended=ended(0, "Finished"))
    finished = look(observed.ObservedState(job(status, **BY_NAME), NOW, drivers=(over,)))
    assert finished.status["phase"] == "Finished"
    assert not dependants.needs(job(finished.status, **BY_NAME), "one", URI)


def test_a_savepoint_that_completes_while_its_object_goes_is_kept_for_a_job_that_waits() -> None:
    one = Deleted(jobRef={"name": "orders"}, uri=None)
    one.spec.pop("uri")
    one.status = {
        "phase": "Deleting", "reason": "SavepointInFlight", "triggerId": "t", "jobUid": "uid-1",
        "deletionStartedTime": clock.text(NOW),
    }  # fmt: skip
    complete = observed.Report({"phase": "RUNNING"}, {"status": "COMPLETED", "location": URI})
    known = one.look(job=job(running_status()), pod=pod(), report=complete)
    assert not known.actions and known.wait_s == 0.0 and one.status["uri"] == URI
    assert not one.look("other").actions
    assert one.status["reason"] == "InUse"
