"""The end of a StateSnapshot: no savepoint is left that nobody knows of, and no data is told to be gone that is not."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, job, pod, revision, running_status

from sparkstate_operator import actions, clock, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.decide import snapshot

URI = "s3://bucket/state/savepoints/savepoint-1"
ACCESS = {"storage": "s3://bucket/state", "job": "blue/shop/orders", "serviceAccountName": "orders-spark"}
ASKED = {"triggerId": "t-1", "jobUid": "uid-1", "access": ACCESS, "triggeredTime": "2026-01-01T11:59:00Z"}


def deleted(
    status: dict[str, Any], *, periodic: bool = False, since: timedelta = timedelta(), **spec: Any
) -> observed.Snapshot:
    return observed.Snapshot(
        name="one",
        uid="s-1",
        resource_version="1",
        generation=1,
        created=NOW - timedelta(hours=1),
        spec={"jobRef": {"name": "orders"}, "deletionPolicy": "Delete", **spec},
        status=status,
        labels={labels.SNAPSHOT_TYPE: labels.PERIODIC} if periodic else {},
        annotations={},
        finalizers=(labels.FINALIZER,),
        deleting_at=NOW - since,
    )


def look(
    one: observed.Snapshot,
    *,
    saved: dict[str, Any] | None = None,
    answers: bool = True,
    there: bool = True,
    ends: bool = False,
    commands: tuple[observed.Command, ...] = (),
) -> actions.Decision:
    report = observed.Report({"phase": "RUNNING"}, saved) if answers and there else None
    of = job(running_status()) if there else None
    seen = observed.ObservedSnapshot(
        one, NOW, of, pod() if there else None, report, commands=commands, namespace_terminating=ends
    )
    return snapshot.decide(seen, revision() if there else None, Config(cluster="blue"))


def settled(one: observed.Snapshot, **how: Any) -> actions.Decision:
    """The look, and the next where it asks for one at once: the place of a savepoint is written down first."""
    first = look(one, **how)
    again = dataclasses.replace(one, status=first.status)
    return first if first.wait_s != 0.0 or first.actions else look(again, **how)


def begun(one: observed.Snapshot, **how: Any) -> observed.Snapshot:
    """After the look that begins the deletion."""
    return dataclasses.replace(one, status=look(one, **how).status)


def command(verb: str, *, failed_at: timedelta | None = None, **result: Any) -> observed.Command:
    name = naming.command_job("one", "s-1", verb)
    ended = NOW - failed_at if failed_at is not None else None
    return observed.Command(name, "t", "1", verb, failed_at is None, failed_at is not None, result, ended)


def made(decision: actions.Decision) -> list[tuple[str, ...]]:
    return [act.arguments for act in decision.actions if isinstance(act, actions.CreateCommand)]


def goes(decision: actions.Decision) -> bool:
    return actions.RemoveFinalizer() in decision.actions


def reasons(decision: actions.Decision) -> list[str]:
    return [note.reason for note in decision.notes]


BY_TRIGGER = (
    "savepoints", "delete", "--json", "--trigger-id", "t-1", "--job", "blue/shop/orders", "s3://bucket/state",
)  # fmt: skip
BY_URI = ("savepoints", "delete", "--json", URI)


@pytest.mark.parametrize("phase", ["Triggered", "InProgress"])
def test_one_that_is_being_taken_is_waited_for_and_then_deleted(phase: str) -> None:
    one = begun(deleted({"phase": phase, **ASKED}))
    assert one.status["reason"] == "SavepointInFlight"
    waits = look(one, saved={"status": "IN_PROGRESS"})
    assert (made(waits), goes(waits)) == ([], False)
    done = settled(one, saved={"status": "COMPLETED", "location": URI})
    assert (made(done), done.status["uri"], goes(done)) == ([BY_URI], URI, False)
    after = dataclasses.replace(one, status=done.status)
    assert goes(look(after, commands=(command("delete", deleted=[URI]),)))


@pytest.mark.parametrize(
    "around",
    [
        {"saved": None}, {"saved": {"status": "FAILED"}}, {"answers": False}, {"there": False},
    ],
    ids=["the driver knows nothing", "it failed", "no answer", "the job is gone"],
)  # fmt: skip
def test_what_no_driver_is_taking_is_looked_for_in_storage(around: dict[str, Any]) -> None:
    one = begun(deleted({"phase": "InProgress", **ASKED}), **around)
    found = look(one, **around)
    assert (made(found), goes(found)) == ([BY_TRIGGER], False)
    done = look(one, commands=(command("give-up", deleted=[URI]),), **around)
    assert goes(done)
    assert reasons(done) == ["DataDeleted"]


@pytest.mark.parametrize("reason", ["Timeout", "JobNotFound"])
def test_one_that_was_not_complete_in_time_is_looked_for_too(reason: str) -> None:
    one = begun(deleted({"phase": "Failed", "reason": reason, **ASKED}), there=False)
    assert made(look(one, there=False)) == [BY_TRIGGER]


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending", "reason": "JobNotRunning"},
        {"phase": "Failed", "reason": "SavepointFailed", **ASKED},
        {"phase": "Failed", "reason": "NotTaken", **ASKED},
    ],
    ids=["never asked for", "failed", "never begun"],
)
def test_what_is_known_to_be_nothing_goes_at_once(status: dict[str, Any]) -> None:
    assert goes(look(begun(deleted(status))))


def test_an_older_operators_snapshot_gets_its_storage_from_the_job() -> None:
    old = {**ASKED, "access": {"serviceAccountName": "mine"}}
    one = begun(deleted({"phase": "Triggered", **old}))
    assert one.status["access"] == {
        "storage": "s3://bucket/state",
        "job": "blue/shop/orders",
        "serviceAccountName": "mine",
    }
    lost = begun(deleted({"phase": "Triggered", **old}), there=False)
    told = look(lost, there=False)
    assert (goes(told), reasons(told)) == (True, ["DataKept"])


VOLUME = {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
MOUNT = {"name": "state", "mountPath": "/state"}
ON_CLAIM = {
    "checkpointing": {"storage": "file:///state"},
    "driverTemplate": {
        "spec": {"volumes": [VOLUME], "containers": [{"name": "driver", "volumeMounts": [MOUNT]}]}
    },
}


@pytest.mark.parametrize("phase", ["Completed", "Deleting"], ids=["before", "in the middle of it"])
def test_data_of_an_older_operators_snapshot_is_deleted_with_the_jobs_volumes(phase: str) -> None:
    uri = "file:///state/savepoints/savepoint-1"
    status = {"phase": phase, "uri": uri, "jobUid": "uid-1", "access": {"serviceAccountName": "mine"}}
    one = deleted(status)
    for _ in range(2):
        seen = observed.ObservedSnapshot(one, NOW, job(running_status(), **ON_CLAIM))
        told = snapshot.decide(seen, revision(**ON_CLAIM), Config(cluster="blue"))
        one = dataclasses.replace(one, status=told.status)
    (made_,) = (act for act in told.actions if isinstance(act, actions.CreateCommand))
    assert made_.arguments == ("savepoints", "delete", "--json", uri)
    assert made_.template["spec"]["volumes"] == [VOLUME]
    assert made_.template["spec"]["containers"][0]["volumeMounts"] == [MOUNT]
    assert one.status["access"]["serviceAccountName"] == "mine"


def test_with_retain_it_goes_and_the_trigger_is_told() -> None:
    first = look(deleted({"phase": "InProgress", **ASKED}, deletionPolicy="Retain"))
    assert reasons(first) == ["DataKept"]
    assert "t-1" in first.notes[0].message


# -- of two steps that a look might take -------------------------------------------------------------------------------

SAVING = deleted({"phase": "Deleting", "reason": "SavepointInFlight", **ASKED})
"""Nobody knows yet what has become of its savepoint."""
COMPLETE = {"status": "COMPLETED", "location": URI}


def changed(
    one: observed.Snapshot, *, since: timedelta = timedelta(), retained: bool = False, **status: Any
) -> observed.Snapshot:
    spec = {**one.spec, "deletionPolicy": "Retain"} if retained else one.spec
    return dataclasses.replace(one, status={**one.status, **status}, spec=spec, deleting_at=NOW - since)


@pytest.mark.parametrize(
    ("one", "around", "told"),
    [
        pytest.param(
            changed(SAVING, retained=True), {"saved": {"status": "PENDING"}}, "", id="retained, taken"
        ),
        pytest.param(changed(SAVING, reason=""), {"ends": True}, "", id="no data, the namespace ends"),
        pytest.param(
            changed(SAVING, since=timedelta(hours=1)),
            {"ends": True},
            "the namespace",
            id="the namespace ends, late",
        ),
        pytest.param(
            changed(SAVING, since=timedelta(hours=1)),
            {"saved": {"status": "PENDING"}},
            "by the deadline",
            id="late, taken",
        ),
        pytest.param(
            changed(SAVING, since=timedelta(hours=1)),
            {"saved": COMPLETE},
            "by the deadline",
            id="late, complete",
        ),
        pytest.param(
            changed(SAVING, access={}), {"saved": {"status": "PENDING"}}, None, id="taken, storage unknown"
        ),
        pytest.param(
            changed(SAVING, uri="s3://bucket/old"), {"saved": COMPLETE}, BY_URI, id="complete, another place"
        ),
        pytest.param(changed(SAVING, access={}), {"saved": COMPLETE}, BY_URI, id="complete, storage unknown"),
        pytest.param(
            changed(SAVING, uri=URI, access={}), {"there": False}, BY_URI, id="a place, storage unknown"
        ),
        pytest.param(
            changed(SAVING, access={}), {"there": False}, "does not say where", id="storage unknown"
        ),
    ],
)
def test_of_two_steps_of_a_deletion_the_first_is_taken(
    one: observed.Snapshot, around: dict[str, Any], told: str | tuple[str, ...] | None
) -> None:
    """``told``: the command that is made; or how the object goes, in the words of its Event, empty for none; None: it
    waits."""
    decision = settled(one, **around)
    assert made(decision) == ([told] if isinstance(told, tuple) else [])
    assert goes(decision) is isinstance(told, str)
    if told is None:
        assert "is being taken" in decision.status["message"]
    elif isinstance(told, str):
        assert [note.reason for note in decision.notes] == (["DataKept"] if told else [])
        assert told in "".join(note.message for note in decision.notes)


# -- whom a deletion holds up ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [None, {"status": "FAILED"}], ids=["the driver knows nothing", "it failed"])
def test_what_no_driver_takes_holds_up_no_other_while_its_command_fails(saved: dict[str, Any] | None) -> None:
    first = look(begun(deleted({"phase": "InProgress", **ASKED})), saved=saved)
    assert first.status["reason"] == "GivingUp"
    one = deleted(dict(first.status))
    refused = command("give-up", failed_at=timedelta(seconds=20), message="access denied")
    pauses = look(one, saved=saved, commands=(refused,))
    assert (goes(pauses), pauses.status["reason"]) == (False, "GivingUp")
    taken_again = look(one, saved={"status": "IN_PROGRESS"})
    assert (goes(taken_again), taken_again.status["reason"]) == (False, "SavepointInFlight")
    lost = look(deleted(dict(taken_again.status)), saved=saved)
    assert (lost.status["reason"], lost.status.get("message")) == ("GivingUp", None), "it is taken no more"
    complete = settled(one, saved={"status": "COMPLETED", "location": URI})
    assert (made(complete), complete.status["uri"]) == ([BY_URI], URI)


def test_while_no_driver_answers_it_may_be_taken_yet_and_is_asked_about() -> None:
    one = begun(deleted({"phase": "InProgress", **ASKED}, periodic=True), answers=False)
    one = dataclasses.replace(one, status={**one.status, "deletionStartedTime": "2025-12-31T12:00:00Z"})
    refused = command("give-up", failed_at=timedelta(seconds=20), message="access denied")
    told = look(one, answers=False, commands=(refused,))
    assert told.status["reason"] == "SavepointInFlight"
    assert told.wait_s is not None
    assert told.wait_s <= 30.0, "the job may run again, and its savepoints wait for this one"


# -- a command that fails ----------------------------------------------------------------------------------------------


def taken(**how: Any) -> observed.Snapshot:
    since = how.get("since", timedelta())
    status = {
        "phase": "Deleting",
        "uri": URI,
        "deletionStartedTime": (NOW - since).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "jobUid": "uid-1",
    }
    return deleted(status, **how)


def test_a_command_that_failed_is_tried_again_after_a_pause_that_doubles() -> None:
    one = taken(since=timedelta(minutes=4))
    failed = command("delete", failed_at=timedelta(seconds=20), message="access denied")
    pauses = look(one, commands=(failed,))
    assert (made(pauses), goes(pauses)) == ([], False)
    assert "access denied" in pauses.status["message"]
    due = look(one, commands=(command("delete", failed_at=timedelta(minutes=2, seconds=1)),))
    assert [act.command.name for act in due.actions if isinstance(act, actions.DeleteCommand)] == [
        failed.name
    ]
    assert not goes(due)
    assert made(look(one)) == [BY_URI]


def test_a_command_is_given_as_long_as_it_has_been_tried() -> None:
    again = look(taken(since=timedelta(minutes=21), deadline="1h"))
    assert [act.limit_s for act in again.actions if isinstance(act, actions.CreateCommand)] == [1260]


def test_after_the_deadline_it_goes_and_the_reason_is_told() -> None:
    failed = command("delete", failed_at=timedelta(seconds=5), message="access denied")
    done = look(taken(since=timedelta(minutes=6)), commands=(failed,))
    assert (goes(done), reasons(done)) == (True, ["DataKept"])
    assert "access denied" in done.notes[0].message
    assert URI in done.notes[0].message


@pytest.mark.parametrize(
    ("how", "since", "over"),
    [
        ({"periodic": True}, timedelta(days=6), False),
        ({"periodic": True}, timedelta(days=8), True),
        ({"periodic": True, "deadline": "1h"}, timedelta(hours=2), True),
        ({"periodic": False}, timedelta(hours=1), True),
    ],
    ids=["retention", "retention, a week later", "by its own deadline", "a person's"],
)
def test_retention_goes_on_for_a_week(how: dict[str, Any], since: timedelta, over: bool) -> None:
    assert goes(look(taken(since=since, **how))) is over


def test_a_periodic_one_whose_job_is_gone_has_the_common_deadline() -> None:
    assert goes(look(taken(since=timedelta(hours=1), periodic=True), there=False))


def deleting(work: dict[str, Any] | None, before: str | None = None) -> str | None:
    """The message of a snapshot whose data is being deleted by a command that says so much of itself."""
    one = begun(deleted({"phase": "Completed", "uri": URI, **ASKED}))
    if before is not None:
        one = dataclasses.replace(one, status={**one.status, "message": before})
    name = naming.command_job("one", "s-1", "delete")
    runs = observed.Command(
        name, "t", "1", "delete", False, False, progress={"progress": [work]} if work else {}
    )
    return look(one, commands=(runs,)).status.get("message")


def test_the_deletion_of_data_tells_how_far_it_is_in_steps_of_ten_percent() -> None:
    work = {
        "kind": "deletion",
        "name": "",
        "done_bytes": 130 << 20,
        "total_bytes": 1200 << 20,
        "left_ms": 26_600,
    }
    first = deleting(work)
    assert first == "deletion 10 %: 130Mi of 1200Mi, 27s left"
    assert deleting({**work, "done_bytes": 239 << 20}, first) == first
    assert deleting({**work, "done_bytes": 600 << 20}, first) == "deletion 50 %: 600Mi of 1200Mi, 27s left"
    assert deleting(None, "the data could not be deleted (x)") == "the data could not be deleted (x)"
    assert deleting(None, first) is None, (
        "of a pod that is gone, or does not answer any more, nothing is told"
    )


def test_a_command_that_runs_is_asked_every_two_seconds_and_one_that_waits_for_a_node_seldom() -> None:
    """Retention may let thousands of snapshots go."""
    one = begun(deleted({"phase": "Completed", "uri": URI, **ASKED}))
    runs = dataclasses.replace(command("delete"), succeeded=False)
    assert look(one, commands=(runs,)).wait_s == 15.0
    assert look(one, commands=(dataclasses.replace(runs, pod=pod()),)).wait_s == 2.0


@pytest.mark.parametrize(
    ("since", "commands"),
    [(timedelta(), (command("delete", deleted=[URI]),)), (timedelta(hours=1), ())],
    ids=["deleted", "too-late"],
)
def test_when_it_has_ended_nothing_says_how_far_it_is(
    since: timedelta, commands: tuple[observed.Command, ...]
) -> None:
    """Somebody else's finalizer may hold the object much longer."""
    one = begun(deleted({"phase": "Completed", "uri": URI, **ASKED}, since=since))
    told = {
        "message": "deletion 50 %: 600Mi of 1200Mi, 27s left",
        "deletionStartedTime": clock.text(NOW - since),
    }
    one = dataclasses.replace(one, status={**one.status, **told})
    decision = look(one, commands=commands)
    assert goes(decision)
    assert "message" not in decision.status
    assert all("left" not in condition["message"] for condition in decision.status["conditions"])
