"""The deletion of a job, step by step: of two that a look might take, the one that comes first."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, look, pod, revision, running_status, trace

from sparkstate_operator import actions, dependants, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import deadlines, naming
from sparkstate_operator.decide import deletion, snapshot_deletion

BEGUN = {"action": "delete", "attempt": 1, "since": "2026-01-01T12:00:00Z"}
DENIED = {"message": "access denied"}


def deleted(policy: str = "purge", *drivers: observed.Pod, **fields: Any) -> observed.ObservedState:
    """A look at a job whose deletion has begun."""
    status = running_status(phase="Deleting", intent={**BEGUN, "policy": policy})
    return observed.ObservedState(job(status, deleting=True), NOW, drivers=drivers, **fields)


def unjudged(policy: str) -> observed.ObservedState:
    """The revision of a driver that lives is gone."""
    seen = deleted(policy, pod())
    return dataclasses.replace(
        seen, job=dataclasses.replace(seen.job, status={**seen.job.status, "revision": "gone"})
    )


def purging(*, failed: bool = False, succeeded: bool = False, **result: Any) -> observed.Command:
    name = naming.command_job("orders", "uid-1", "purge")
    return observed.Command(name, "t", "1", "purge", succeeded, failed, result, NOW)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("7s", 7), ("", 300), ("soon", 300), ("9" * 31 + "h", 100 * 365 * 86_400)],
    ids=["readable", "none", "not readable", "without end"],
)
def test_every_deletion_has_a_deadline_that_comes(told: str, seconds: int) -> None:
    assert deadlines.of_deletion(told) == timedelta(seconds=seconds)


@pytest.mark.parametrize("told", ["soon", {"deadline": "soon"}, {"deadline": 5}, ["x"]], ids=str)
def test_a_deletion_whose_spec_cannot_be_read_is_overdue_by_the_built_in_deadline(told: Any) -> None:
    seen = deleted()
    seen = dataclasses.replace(seen, job=dataclasses.replace(seen.job, spec={"deletion": told}))
    assert not deletion.overdue(seen)
    assert deletion.overdue(later(seen))
    assert acts(look(later(seen), "cannot be read"), actions.RemoveFinalizer)


def later(seen: observed.ObservedState) -> observed.ObservedState:
    """After the deadline."""
    return dataclasses.replace(seen, now=NOW + timedelta(days=1))


def taken(decision: actions.Decision) -> str:
    """Which step it was, by what it does."""
    if acts(decision, actions.RemoveFinalizer):
        return "given up" if any(note.reason == "DeletionDegraded" for note in decision.notes) else "ended"
    if acts(decision, actions.CreateCommand):
        return "purged"
    (act,) = decision.actions
    assert isinstance(act, actions.DeletePod)
    return "cleared" if act.why == "the job is deleted" else "stopped"


OLDER = deleted("purge", pod())
OLDER = dataclasses.replace(
    OLDER, job=dataclasses.replace(OLDER.job, status={**OLDER.job.status, "attempt": 2})
)
"""An attempt that has left nothing, and the driver of the one before."""


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        pytest.param(later(deleted("purge", pod())), "given up", id="late, before the attempt has ended"),
        pytest.param(later(deleted("purge")), "given up", id="late, before the data is deleted"),
        pytest.param(deleted("purge", pod()), "stopped", id="an attempt that lives, before its data"),
        pytest.param(OLDER, "stopped", id="an older driver that lives, before the data"),
        pytest.param(deleted("purge"), "purged", id="data"),
        pytest.param(deleted("retain"), "ended", id="nothing is left"),
        pytest.param(deleted("purge", commands=(purging(succeeded=True),)), "ended", id="the data is gone"),
        pytest.param(deleted("purge", namespace_terminating=True), "given up", id="no command can be made"),
        pytest.param(deleted("retain", namespace_terminating=True), "ended", id="no command is needed"),
    ],
)
def test_of_two_steps_of_a_deletion_the_first_is_taken(seen: observed.ObservedState, step: str) -> None:
    assert taken(look(seen)) == step


def test_a_purge_that_the_end_of_the_namespace_cuts_off_is_told() -> None:
    seen = deleted("purge", namespace_terminating=True)
    (note,) = look(seen).notes
    assert (note.reason, note.warning) == ("DeletionDegraded", True)
    assert "the namespace is being deleted" in note.message
    assert "stays" in note.message


@pytest.mark.parametrize("policy", ["purge", "savepoint", "retain"])
def test_a_driver_of_which_nothing_is_known_is_ended_without_a_policy(policy: str) -> None:
    seen = unjudged(policy)
    waits = look(seen, invalid="the spec is wrong")
    assert (taken(waits), waits.wait_s) == ("cleared", 2.0)
    assert taken(look(later(seen), invalid="the spec is wrong")) == "given up"


def test_a_purge_whose_revision_is_lost_is_made_by_the_one_of_the_spec() -> None:
    """The command is made by the revision that the status names, and nobody could read that one."""
    seen = deleted("purge")
    lost = dataclasses.replace(seen.job, status={**seen.job.status, "revision": "gone"})
    asked = look(dataclasses.replace(seen, job=lost))
    assert taken(asked) == "purged"
    assert asked.status["revision"] == revision().name
    assert acts(asked, actions.EnsureChildren) == [actions.EnsureChildren(revision().name)]


def snapshots(ages_h: range, *, deleting: int = 0) -> tuple[observed.Snapshot, ...]:
    """One for each age; the oldest of them, ``deleting``, are being deleted."""
    own = {labels.JOB_UID: "uid-1"}
    return tuple(
        observed.Snapshot(
            name=f"s{age_h}",
            uid=f"s-{age_h}",
            resource_version="1",
            generation=1,
            created=NOW - timedelta(hours=age_h),
            spec={},
            status={},
            labels=own,
            annotations={},
            finalizers=(),
            deleting_at=NOW if age_h > ages_h[-1] - deleting else None,
        )
        for age_h in ages_h
    )


def gone(decision: actions.Decision) -> list[str]:
    return [one.snapshot.name for one in acts(decision, actions.DeleteSnapshot)]


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a job with thousands of StateSnapshots",
    when="it is purged",
    expected="20 of them are being deleted at once, and the job goes with the last ones",
)
def test_a_purge_deletes_the_jobs_snapshots_some_at_a_time() -> None:
    seen = deleted(commands=(purging(succeeded=True),), snapshots=snapshots(range(50)))
    first = look(seen)
    assert gone(first) == [f"s{age_h}" for age_h in range(49, 29, -1)], "the oldest ones"
    assert not acts(first, actions.RemoveFinalizer)
    assert (first.status["message"], first.wait_s) == (
        "the job's StateSnapshots are deleted, some at a time",
        15.0,
    )
    waits = look(dataclasses.replace(seen, snapshots=snapshots(range(50), deleting=20)))
    assert (gone(waits), acts(waits, actions.RemoveFinalizer)) == ([], [])
    ends = look(dataclasses.replace(seen, snapshots=snapshots(range(20), deleting=12)))
    assert gone(ends) == [f"s{age_h}" for age_h in range(7, -1, -1)]
    assert acts(ends, actions.RemoveFinalizer)


@pytest.mark.parametrize("fields", [{}, {"namespace_terminating": True}], ids=["late", "no namespace"])
def test_the_rest_of_the_snapshots_goes_at_once_where_the_deletion_may_not_wait(fields: Any) -> None:
    seen = deleted(commands=(purging(succeeded=True),), snapshots=snapshots(range(50)), **fields)
    found = look(seen if fields else later(seen))
    assert len(gone(found)) == 50
    assert acts(found, actions.RemoveFinalizer)
    told = "the deletion's deadline passed: the data is deleted, and the rest of the job goes at once"
    assert [note.message for note in found.notes] == ([] if fields else [told])


def test_nothing_is_done_before_the_policy_is_written_down() -> None:
    begins = look(later(observed.ObservedState(job(running_status(), deleting=True), NOW, drivers=(pod(),))))
    assert begins.actions == ()
    assert begins.status["intent"]["action"] == "delete"


def test_a_purge_that_failed_is_told_and_made_again_after_its_pause() -> None:
    pauses = look(deleted(commands=(purging(failed=True, **DENIED),)))
    assert pauses.actions == ()
    assert [note.reason for note in pauses.notes] == ["PurgeFailed"]
    assert "access denied" in pauses.status["message"]
    due = dataclasses.replace(
        deleted(commands=(purging(failed=True, **DENIED),)), now=NOW + timedelta(seconds=31)
    )
    assert [type(act) for act in look(due).actions] == [actions.DeleteCommand]


def test_the_last_word_of_the_driver_is_taken_while_its_data_is_deleted() -> None:
    word = '{"reason": "Suspended", "savepoint": {"location": "s3://bucket/sp-1"}}'
    over = pod(phase="Succeeded", ready=False, ended=observed.Termination(0, "Completed", word, NOW))
    told = look(deleted("purge", over))
    assert taken(told) == "purged"
    assert told.status["lastSavepoint"]["uri"] == "s3://bucket/sp-1"


@pytest.mark.parametrize(
    ("traces", "secrets"), [((), [1]), ((0,), [1]), ((1,), [])], ids=["none", "of a command", "its own"]
)
def test_the_secret_of_an_attempt_whose_config_map_was_never_made_goes_with_the_job(
    traces: tuple[int, ...], secrets: list[int]
) -> None:
    """A quota refused the ConfigMap: nothing that can be listed leads to the Secret."""
    seen = later(deleted("retain", config_maps=tuple(trace(attempt) for attempt in traces)))
    for decision in (look(seen), deletion.by_force(seen, Config(), "a defect")):
        assert [one.attempt for one in acts(decision, actions.DeleteSecret)] == secrets
        assert isinstance(decision.actions[-1], actions.RemoveFinalizer)


@pytest.mark.parametrize("attempt", [0, naming.MAX_ATTEMPT + 1], ids=["none yet", "no name has room for it"])
def test_no_secret_is_looked_for_under_a_number_that_no_attempt_has(attempt: int) -> None:
    seen = deleted("retain")
    status = {**seen.job.status, "attempt": attempt}
    seen = dataclasses.replace(seen, job=dataclasses.replace(seen.job, status=status))
    assert acts(deletion.by_force(later(seen), Config(), "a defect"), actions.DeleteSecret) == []


@pytest.mark.parametrize(
    ("commands", "wait_s"),
    [
        pytest.param((), 2.0, id="the command is made"),
        pytest.param((purging(),), 15.0, id="it waits for a node: its begin is an event"),
        pytest.param((dataclasses.replace(purging(), pod=pod()),), 2.0, id="it runs"),
        pytest.param((purging(failed=True, **DENIED),), 2.0, id="it pauses"),
    ],
)
def test_a_purge_beside_a_pod_whose_end_nobody_confirms_looks_at_its_own_pace(
    commands: tuple[observed.Command, ...], wait_s: float
) -> None:
    """The pod became harmless long ago. Taken for the time of the next look, that moment asked for five looks a second
    as long as the purge took."""
    lost = pod(deleting_at=NOW - timedelta(hours=1), ready=False)
    assert look(deleted("purge", lost, commands=commands)).wait_s == wait_s


# -- a purge of data that another job has to start from ----------------------------------------------------------------


def test_a_purge_waits_for_a_job_that_has_to_start_from_the_data_and_says_so_once() -> None:
    seen = deleted("purge", needed_by="copy", commands=())
    waits = look(seen)
    assert not waits.actions and waits.wait_s == snapshot_deletion.LOOK_S
    assert "the job copy has to start from the data" in waits.status["message"]
    assert [(note.reason, note.warning) for note in waits.notes] == [("DataInUse", True)]
    again = dataclasses.replace(seen, job=dataclasses.replace(seen.job, status=waits.status))
    assert look(again).notes == ()
    free = look(dataclasses.replace(again, needed_by=""))
    assert taken(free) == "purged" and "message" not in free.status
    begun = look(dataclasses.replace(seen, commands=(purging(),)))
    assert "message" not in begun.status, "a part of the data may be gone"


def test_at_the_deadline_the_data_that_a_job_needs_stays() -> None:
    ends = look(later(deleted("purge", needed_by="copy")))
    assert acts(ends, actions.RemoveFinalizer) and not acts(ends, actions.CreateCommand)
    (told,) = (note.message for note in ends.notes if note.reason == "DeletionDegraded")
    assert "(the job copy has to start from the data): " in told and "stays" in told


def test_at_the_deadline_the_snapshots_stay_with_the_data_that_a_job_needs() -> None:
    """The job knows the data by the name of a StateSnapshot with ``Retain``, which was deleted."""
    meta = {labels.JOB_UID: "uid-1"}
    mine = observed.Snapshot("one", "s-1", "1", 1, NOW, {"deletionPolicy": "Retain"}, {}, meta, {}, ())
    needed = later(deleted("purge", needed_by="copy", snapshots=(mine,)))
    free = dataclasses.replace(needed, needed_by="")
    for seen, snapshots in ((needed, []), (free, [mine])):
        for ends in (look(seen), deletion.by_force(seen, Config(), "a defect")):
            assert [one.snapshot for one in acts(ends, actions.DeleteSnapshot)] == snapshots


def test_a_purge_that_has_begun_waits_for_nobody_between_two_tries() -> None:
    """Half of the data was gone, and the command was deleted for the next try."""
    seen = deleted("purge")
    assert dependants.is_whole(seen.job, ()) and not dependants.is_whole(seen.job, (purging(),))
    old = dataclasses.replace(purging(failed=True, **DENIED), ended_at=NOW - timedelta(hours=1))
    tries = look(dataclasses.replace(seen, commands=(old,)))
    assert acts(tries, actions.DeleteCommand)
    between = dataclasses.replace(seen.job, status=tries.status)
    assert not dependants.is_whole(between, ())
    assert taken(look(dataclasses.replace(seen, job=between))) == "purged"
    assert not dependants.is_whole(deleted("retain").job, ()) and not dependants.is_whole(job({}), ())


PLACE = "s3://b/state/savepoints/savepoint-"
SOURCE = job(
    {
        "lastCheckpoint": {"uri": "s3://b/state/5f3a01234567/chk-9"},
        "lastSavepoint": {"uri": f"{PLACE}5f3a01-9"},
    }
)
RAN = {"attempt": 3, "observedGeneration": 1}


def named(name: str, place: str = "", **spec: Any) -> observed.Snapshot:
    return observed.Snapshot(name, name, "1", 1, NOW, spec, {"uri": place} if place else {}, {}, {}, ())


OWN = named("own", "s3://elsewhere/sp/savepoint-5f3a01-1", jobRef={"name": "orders"})
NAMED = {
    one.name: one
    for one in (
        OWN,
        named("unfinished", jobRef={"name": "orders"}),
        named("registered", f"{PLACE}5f3a01-9"),
        named("unread", uri=f"{PLACE}aaaaaa-1"),
        named("another's", f"{PLACE}aaaaaa-2", jobRef={"name": "bills"}),
    )
}


def of_purge(source: observed.Job = SOURCE) -> dependants.PurgedData:
    own = [OWN] if source is SOURCE else []
    return dependants.PurgedData.of(source, own, "s3://b/state/", "s3://b/saved", ["", "dddddd111111"])


@pytest.mark.parametrize(
    ("status", "restored", "needed"),
    [
        ({}, {"snapshotRef": {"name": "own"}}, True),
        ({}, {"snapshotRef": {"name": "unfinished"}}, False),
        ({}, {"snapshotRef": {"name": "unknown"}}, False),
        ({}, {"snapshotRef": {"name": "registered"}}, True),
        ({}, {"snapshotRef": {"name": "unread"}}, True),
        ({}, {"snapshotRef": {"name": "another's"}}, False),
        ({}, {"uri": f"{PLACE}5f3a01-9/_metadata"}, True),
        ({}, {"uri": f"{PLACE}5f3a01-8/"}, True),
        ({}, {"uri": f"{PLACE}aaaaaa-8"}, True),
        ({}, {"uri": "s3://b/saved/savepoint-5f3a01-7"}, True),
        ({}, {"uri": "s3://elsewhere/sp/savepoint-5f3a01-1"}, True),
        ({}, {"uri": "s3://elsewhere/sp/savepoint-5f3a01-2"}, True),
        ({}, {"uri": "s3://elsewhere/other/savepoint-5f3a01-2"}, False),
        ({}, {"uri": f"{PLACE}dddddd-8"}, False),
        ({}, {"uri": "s3://b//state/5f3a01234567/chk-7"}, True),
        ({}, {"uri": "s3://b/state/aaaaaa111111/chk-7"}, True),
        ({}, {"uri": "s3://b/state/dddddd111111/chk-7"}, False),
        ({}, {"uri": "s3://b/state/team/dddddd111111/chk-7"}, False),
        ({}, {"uri": "s3://b/stateful/5f3a01234567/chk-7"}, False),
        (RAN, {"uri": f"{PLACE}5f3a01-9"}, False),
        ({**RAN, "start": {"uri": f"{PLACE}5f3a01-9"}}, {"latest": True}, True),
        ({**RAN, "start": {"latest": True}}, {"latest": True}, False),
    ],
)
def test_a_purge_deletes_every_checkpoint_and_savepoint_of_the_job(
    status: dict[str, Any], restored: dict[str, Any], needed: bool
) -> None:
    """It waited only for the newest lineage, the last savepoint and the job's own objects."""
    other = job(status, restoreFrom=restored)
    assert of_purge().is_needed_by(other, NAMED) == needed
    assert not of_purge().is_needed_by(job(status, deleting=True, restoreFrom=restored), NAMED)


def test_a_purge_knows_the_place_of_a_job_that_reports_no_checkpoint() -> None:
    """Its status was lost. A place that nobody knows has nothing of it."""
    waits = job(restoreFrom={"uri": "s3://b/state/5f3a01234567/chk-7"})
    assert of_purge(job({})).is_needed_by(waits, {})
    assert not dependants.PurgedData.of(job({}), []).is_needed_by(waits, {})
