"""The decision about a snapshot: whose it is, and when its savepoint is asked for."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, job, pod, revision, running_status

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.decide import snapshot, snapshot_asking, snapshot_following
from sparkstate_operator.decide.draft import POLL_S
from sparkstate_operator.model.snapshot import StateSnapshotStatus

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
    seen = observed.ObservedSnapshot(found, NOW, job(running_status()), pod(), RUNNING, others)
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


def test_a_savepoint_waits_for_another_that_was_not_complete_in_time() -> None:
    """Its driver may still be taking it. Once the driver knows the outcome, its reason is another one."""
    late = one("s-2", status={"phase": "Failed", "reason": "Timeout"})
    assert look(one(), late).status["reason"] == "SavepointInFlight"
    over = one("s-2", status={"phase": "Failed", "reason": "NotTaken"})
    assert look(one(), over).status["phase"] == "Triggered"


@pytest.mark.parametrize("phase", ["", "Pending", "Completed", "Failed"])
def test_a_savepoint_waits_for_no_other(phase: str) -> None:
    assert look(one(), one("s-2", phase)).status["phase"] == "Triggered"


def test_a_savepoint_waits_for_one_that_is_taken_though_its_object_is_being_deleted() -> None:
    going = one("s-2", status={"phase": "Deleting", "reason": "SavepointInFlight"})
    assert look(one(), going).status["reason"] == "SavepointInFlight"


def test_a_savepoint_waits_for_no_other_that_no_driver_takes_any_more() -> None:
    given_up = one("s-2", status={"phase": "Deleting", "reason": "GivingUp"})
    assert look(one(), given_up).status["phase"] == "Triggered"


READY = observed.ObservedSnapshot(one(), NOW, job(running_status()), pod(), RUNNING)
BUSY = job(running_status(intent={"action": "upgrade"}))
OTHERS = (one("s-2", "InProgress"),)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param({"job": None, "report": None, "others": OTHERS}, "JobNotFound", id="no job"),
        pytest.param({"job": job(deleting=True), "report": None}, "JobNotFound", id="a job that goes"),
        pytest.param({"job": BUSY, "report": None, "others": OTHERS}, "JobNotRunning", id="no answer"),
        pytest.param({"job": BUSY, "pod": None, "others": OTHERS}, "JobNotRunning", id="no driver"),
        pytest.param({"job": BUSY, "others": OTHERS}, "JobBusy", id="a job that is changed"),
        pytest.param({"others": OTHERS}, "SavepointInFlight", id="another savepoint"),
    ],
)
def test_of_several_things_that_a_savepoint_waits_for_the_first_is_told(
    seen: dict[str, Any], reason: str
) -> None:
    found = snapshot.decide(dataclasses.replace(READY, **seen), revision(), Config())
    assert (found.status["phase"], found.status["reason"]) == ("Pending", reason)


# -- one that is being taken -------------------------------------------------------------------------------------------


def taken_so_far(done: int, message: str | None, trigger: str = "t-1", attempt: int = 1) -> str | None:
    status = {
        "phase": "InProgress",
        "triggerId": "t-1",
        "jobUid": "uid-1",
        "message": message,
        "attempt": attempt,
    }
    work = {"kind": "savepoint", "name": trigger, "done_bytes": done << 20, "total_bytes": 1200 << 20}
    report = observed.Report(
        {"phase": "RUNNING", "progress": [{**work, "left_ms": 26_600}]}, {"status": "IN_PROGRESS"}
    )
    found = one(status={"triggeredTime": "2026-01-01T11:59:59Z", **status}, finalizers=(labels.FINALIZER,))
    seen = observed.ObservedSnapshot(found, NOW, job(running_status()), pod(), report)
    return snapshot.decide(seen, revision(), Config()).status.get("message")


def test_a_savepoint_that_is_taken_tells_how_far_it_is_in_steps_of_ten_percent() -> None:
    first = taken_so_far(130, None)
    assert first == "10 %: 130Mi of 1200Mi, 27s left"
    assert taken_so_far(239, first) == first, "each change is a write"
    assert taken_so_far(240, first) == "20 %: 240Mi of 1200Mi, 27s left"
    assert taken_so_far(1200, first) == "100 %: 1200Mi of 1200Mi, 27s left"
    assert taken_so_far(130, "old", trigger="another") is None


@pytest.mark.parametrize(
    ("newest", "report", "stays"),
    [
        pytest.param(pod(1), None, True, id="silent"),
        pytest.param(pod(1), RUNNING, False, id="began-anew-in-its-pod"),
        pytest.param(pod(1, phase="Failed"), None, False, id="ended"),
        pytest.param(pod(2), None, False, id="the-next-attempt"),
        pytest.param(None, None, False, id="no-driver"),
    ],
)
def test_what_a_driver_told_of_a_savepoint_is_not_shown_for_the_next_one(
    newest: observed.Pod | None, report: observed.Report | None, *, stays: bool
) -> None:
    told = "50 %: 600Mi of 1200Mi, 27s left"
    status = {"phase": "InProgress", "triggerId": "t-1", "jobUid": "uid-1", "attempt": 1, "message": told}
    begun = one(status={**status, "triggeredTime": "2026-01-01T11:59:59Z"})
    seen = observed.ObservedSnapshot(begun, NOW, job(running_status()), newest, report)
    assert snapshot.decide(seen, revision(), Config()).status.get("message") == (told if stays else None)


def test_the_words_of_the_attempt_before_are_replaced_though_it_had_come_as_far() -> None:
    first = taken_so_far(130, None)
    assert taken_so_far(239, first, attempt=1) == first
    assert taken_so_far(239, first, attempt=0) == "10 %: 239Mi of 1200Mi, 27s left"


# -- one that was not complete in time ---------------------------------------------------------------------------------

URI = "s3://bucket/state/savepoints/savepoint-1"
LATE = {
    "phase": "Failed",
    "reason": "Timeout",
    "triggerId": "t-1",
    "jobUid": "uid-1",
    "triggeredTime": "2026-01-01T11:00:00Z",
}


def later(saved: dict[str, Any] | None, *, phase: str = "RUNNING", there: bool = True) -> actions.Decision:
    found = one(status=LATE, finalizers=(labels.FINALIZER,))
    of = job(running_status()) if there else None
    report = observed.Report({"phase": phase}, saved)
    return snapshot.decide(observed.ObservedSnapshot(found, NOW, of, pod(), report), revision(), Config())


def test_a_savepoint_that_completes_after_its_timeout_is_known() -> None:
    done = later({"status": "COMPLETED", "location": URI, "epoch": 7})
    assert (done.status["phase"], done.status["uri"], done.status["epoch"]) == ("Completed", URI, 7)
    assert "reason" not in done.status
    assert [note.reason for note in done.notes] == ["SnapshotCompleted"]


def test_a_savepoint_is_asked_about_after_its_timeout_until_its_end_is_known() -> None:
    taken = later({"status": "IN_PROGRESS"})
    assert (taken.status["reason"], taken.wait_s) == ("Timeout", snapshot_following.LATE_S)
    restarting = later(None, phase="RESTORING")
    assert (restarting.status["reason"], restarting.wait_s) == ("Timeout", snapshot_following.LATE_S)
    failed = later({"status": "FAILED", "failure": "disk full"})
    assert (failed.status["reason"], failed.status["message"], failed.wait_s) == (
        "SavepointFailed",
        "disk full",
        None,
    )
    assert (later(None).status["reason"], later(None).wait_s) == ("NotTaken", None)
    gone = later(None, there=False)
    assert (gone.status["reason"], gone.wait_s) == ("JobNotFound", None)


# -- one that is in storage already ------------------------------------------------------------------------------------


def registered(*commands: observed.Command, **spec: Any) -> actions.Decision:
    found = one(spec={"uri": URI, **spec}, finalizers=(labels.FINALIZER,))
    return snapshot.decide(observed.ObservedSnapshot(found, NOW, commands=commands), None, Config())


def verified(*, failed: bool = False, seconds_ago: int = 0, **result: Any) -> observed.Command:
    name = naming.command_job("savepoint-s-1", "s-1", "verify")
    ended = NOW - timedelta(seconds=seconds_ago)
    return observed.Command(name, "t", "1", "verify", not failed, failed, result, ended)


def test_a_savepoint_that_is_registered_is_read_by_the_engine_first() -> None:
    asked = registered()
    (command,) = (act for act in asked.actions if isinstance(act, actions.CreateCommand))
    assert command.arguments == ("savepoints", "verify", "--json", URI)
    assert (asked.status["phase"], asked.status["reason"]) == ("Pending", "Verifying")
    done = registered(verified(ok=True, epoch=7, lineage="00aa", slots=2, state_bytes=20 << 20))
    assert {name: done.status[name] for name in ("phase", "uri", "epoch", "lineage", "slots", "size")} == {
        "phase": "Completed",
        "uri": URI,
        "epoch": 7,
        "lineage": "00aa",
        "slots": 2,
        "size": "20Mi",
    }


def test_a_savepoint_that_takes_long_to_read_is_given_more_time() -> None:
    """The engine begins anew with each try. With the same limit for all, a large savepoint could never be
    registered."""
    found = one(spec={"uri": URI}, finalizers=(labels.FINALIZER,), created=NOW - timedelta(seconds=1260))
    asked = snapshot.decide(observed.ObservedSnapshot(found, NOW), None, Config())
    assert [act.limit_s for act in asked.actions if isinstance(act, actions.CreateCommand)] == [1260]


@pytest.mark.parametrize("reason", ["StorageError", "CorruptData", "UnknownFormat", "SpecInvalid"])
def test_what_the_engine_cannot_restore_is_not_registered(reason: str) -> None:
    told = registered(verified(failed=True, reason=reason, message="is no savepoint"))
    assert (told.status["phase"], told.status["reason"]) == ("Failed", "NotRestorable")
    assert told.status["message"] == "is no savepoint"
    assert "uri" not in told.status


REFUSED = {"phase": "Failed", "reason": "NotRestorable", "message": "access denied", "observedGeneration": 1}


def changed(*commands: observed.Command, status: dict[str, Any], generation: int = 2) -> actions.Decision:
    template = {"spec": {"nodeSelector": {"disk": "ssd"}}}
    spec = {"uri": URI, "template": template}
    found = one(spec=spec, generation=generation, finalizers=(labels.FINALIZER,), status=status)
    return snapshot.decide(observed.ObservedSnapshot(found, NOW, commands=commands), None, Config())


@pytest.mark.parametrize("reason", ["NotRestorable", "SpecInvalid"])
def test_a_savepoint_that_was_refused_is_read_again_when_the_spec_changes(reason: str) -> None:
    again = changed(status={**REFUSED, "reason": reason})
    (command,) = (act for act in again.actions if isinstance(act, actions.CreateCommand))
    assert command.arguments == ("savepoints", "verify", "--json", URI)
    assert command.template == {"spec": {"nodeSelector": {"disk": "ssd"}}}
    found = [again.status[name] for name in ("phase", "reason", "observedGeneration")]
    assert found == ["Pending", "Verifying", 2]
    assert changed(status=REFUSED, generation=1).actions == (), "nothing has changed"


@pytest.mark.parametrize("status", [REFUSED, {**REFUSED, "phase": "Pending", "reason": "NotVerified"}])
def test_an_answer_to_the_spec_of_before_does_not_count(status: dict[str, Any]) -> None:
    """Also where the operator ends between the status and the deletion of the command."""
    old = verified(failed=True, reason="StorageError", message="access denied")
    told = changed(old, status=status)
    assert told.actions == (actions.DeleteCommand(old),)
    assert (told.status["phase"], told.status["observedGeneration"]) == ("Pending", 1)
    assert changed(old, status=dict(told.status)).actions == told.actions
    after = changed(status=dict(told.status))
    assert [type(act) for act in after.actions] == [actions.CreateCommand]
    assert after.status["observedGeneration"] == 2


@pytest.mark.parametrize(
    "result",
    [{}, {"reason": "StorageUnavailable", "message": "away"}, {"reason": "StorageRefused", "message": "403"}],
)
def test_a_savepoint_that_could_not_be_looked_at_is_looked_at_again(result: dict[str, Any]) -> None:
    told = registered(verified(failed=True, seconds_ago=10, **result))
    assert (told.status["phase"], told.status["reason"]) == ("Pending", "NotVerified")
    assert told.actions == ()
    due = registered(verified(failed=True, seconds_ago=31, **result))
    assert [type(act) for act in due.actions] == [actions.DeleteCommand]


def test_a_template_that_cannot_be_merged_is_told() -> None:
    told = registered(template={"spec": {"containers": "none"}})
    assert (told.status["phase"], told.status["reason"]) == ("Failed", "SpecInvalid")
    assert "spec.template.spec.containers" in told.status["message"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"s3": "minio"}, "spec.s3: must be an object (name: value pairs)"),
        ({"s3": {"secretRef": "keys"}}, "spec.s3.secretRef: must be an object (name: value pairs)"),
        (
            {"s3": {"endpoint": "minio"}},
            "spec.s3.endpoint: must be a URL that starts with http:// or https://",
        ),
        ({"template": []}, "spec.template: must be an object"),
        ({"uri": 5}, "spec.uri: must be a string"),
        ({"serviceAccountName": ["robot"]}, "spec.serviceAccountName: must be a string"),
    ],
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)
def test_a_spec_that_cannot_be_read_is_told_by_its_field(spec: dict[str, Any], said: str) -> None:
    told = registered(**spec)
    assert (told.status["phase"], told.status["reason"], told.actions) == ("Failed", "SpecInvalid", ())
    assert said in told.status["message"]
    found = one(spec={"jobRef": {"name": "orders"}, **spec, "uri": None})
    assert "uri" in spec or look(found).status["reason"] == "SpecInvalid"


def test_a_field_of_a_later_version_is_passed_over() -> None:
    assert registered(compressed=True).status["reason"] == "Verifying"


def test_a_savepoint_that_is_taken_is_followed_though_its_spec_cannot_be_read_any_more() -> None:
    status = {
        "phase": "InProgress",
        "triggerId": "t-1",
        "jobUid": "uid-1",
        "triggeredTime": "2026-01-01T12:00:00Z",
    }
    found = one(spec={"jobRef": {"name": "orders"}, "timeout": 5}, status=status)
    report = observed.Report({"phase": "RUNNING"}, {"status": "COMPLETED", "location": URI})
    seen = observed.ObservedSnapshot(found, NOW, job(running_status()), pod(), report)
    assert snapshot.decide(seen, revision(), Config()).status["phase"] == "Completed"


def test_how_the_data_is_reached_is_written_down_with_the_trigger() -> None:
    asked = look(one())
    assert asked.status["access"] == {
        "serviceAccountName": "orders-spark",
        "storage": "s3://bucket/state",
        "job": "default/shop/orders",
    }
    placed = revision(driverTemplate={"spec": {"nodeSelector": {"disk": "ssd"}}})
    seen = observed.ObservedSnapshot(one(), NOW, job(running_status(cluster="green")), pod(), RUNNING)
    access = snapshot.decide(seen, placed, Config()).status["access"]
    assert access["template"] == {"spec": {"nodeSelector": {"disk": "ssd"}}}
    assert access["job"] == "default/shop/orders"
    found = snapshot.decide(seen, placed, Config(cluster_found=True)).status["access"]
    assert found["job"] == "green/shop/orders", "where nobody has told this installation another name"


@pytest.mark.parametrize(
    ("waited_s", "again_s"),
    [(0.0, POLL_S), (5.0, 5.0), (600.0, snapshot_asking.WAIT_S)],
    ids=["first", "then", "later"],
)
def test_a_savepoint_of_a_job_that_recovers_looks_again_soon_and_then_less_often(
    waited_s: float, again_s: float
) -> None:
    """A recovery takes seconds, a suspension days."""
    recovers = observed.ObservedSnapshot(
        one(),
        NOW + timedelta(seconds=waited_s),
        job(running_status()),
        pod(),
        observed.Report({"phase": "RESTARTING"}),
        (),
    )
    waits = snapshot.decide(recovers, revision(), Config())
    assert (waits.status["reason"], waits.wait_s) == ("JobNotRunning", again_s)


@pytest.mark.parametrize("length", [32_768, 32_769, 1_000_000])
def test_the_failure_of_a_savepoint_fits_in_the_status_whatever_its_length(length: int) -> None:
    """The API server refused the status, at each look again, and the snapshot stayed in progress for ever."""
    failed = observed.Report({"phase": "RUNNING"}, {"status": "FAILED", "failure": "x" * length})
    taken = {"phase": "InProgress", "triggerId": "t", "jobUid": "uid-1"}
    seen = observed.ObservedSnapshot(one(status=taken), NOW, job(running_status()), pod(), failed)
    found = snapshot.decide(seen, revision(), Config())
    assert found.status["phase"] == "Failed"
    StateSnapshotStatus.model_validate_json(json.dumps(found.status))


def test_the_faults_of_a_template_fit_in_the_status_however_many_there_are() -> None:
    wrong = {"spec": {"containers": [{"name": "command", "env": [{} for _ in range(500)]}]}}
    registered = one(spec={"uri": "s3://bucket/savepoint", "template": wrong}, finalizers=(labels.FINALIZER,))
    found = snapshot.decide(observed.ObservedSnapshot(registered, NOW), None, Config())
    StateSnapshotStatus.model_validate_json(json.dumps(found.status))
