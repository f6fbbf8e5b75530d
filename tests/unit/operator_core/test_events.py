"""Every reason of an Event that the operator writes: what it is told for, and whether it is a warning."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.scene import decisions
from support.scene.decisions import NOW, ended, job, pod, revision, running_status, trace

from sparkstate_operator import actions, clock, errors, labels, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming, settings
from sparkstate_operator.decide import checking, decide, snapshot
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.edges import kube
from sparkstate_operator.events import Recorder

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "operator" / "src" / "sparkstate_operator"
URI = "s3://bucket/state/savepoints/savepoint-1"
NEWER = {"image": "example/job:2"}
OF_LOOKING = {"ManagedByAnother", "LeftToClass"}
"""Told before anything is decided; tests/cluster/test_two_operators.py, test_refused_writes.py."""
OF_ERRORS = {"Forbidden", "Invalid", "Refused", "Foreign", "DriverRoleMissing"}
"""Told with the error's own class where an action fails; tests/cluster/test_reconcile_events.py,
test_refused_writes.py."""


def look(
    status: dict[str, Any], *drivers: observed.Pod, invalid: str = "", **fields: Any
) -> actions.Decision:
    of_job = {
        name: fields.pop(name)
        for name in (
            "generation",
            "deleting",
            "finalizers",
            "state",
            "image",
            "upgradeMode",
            "deletion",
            "restart",
            "trigger",
            "ttlSecondsAfterFinished",
            "progressDeadlineSeconds",
        )
        if name in fields
    }
    seen = observed.ObservedState(job(status, **of_job), NOW, drivers=drivers, **fields)
    known = {one.name: one for one in (revision(), revision(**NEWER))}
    wanted = None if invalid else plan.of_spec("orders", settings.resolve(seen.job.spec))
    known |= {wanted.name: wanted} if wanted else {}
    return decide(seen, known, wanted, invalid, Config())


def intent(action: str, *, ago_s: float = 0, **fields: Any) -> dict[str, Any]:
    since = clock.text(NOW - timedelta(seconds=ago_s))
    return {"intent": {"action": action, "attempt": 1, "since": since, **fields}}


def over(code: int, reason: str = "", **word: Any) -> observed.Pod:
    phase = "Succeeded" if code == 0 else "Failed"
    return pod(phase=phase, ready=False, ended=ended(code, reason, **word))


def strategy(name: str) -> dict[str, Any]:
    spec = {"restart": {"strategy": name}}
    return {**spec, "status": running_status(revision=revision(**spec).name)}


def exhausted() -> actions.Decision:
    found = strategy("none")
    return look(found["status"], over(1, "SlotLost"), restart=found["restart"])


def contested() -> actions.Decision:
    times = [clock.text(NOW - timedelta(seconds=60 * number)) for number in range(5, 0, -1)]
    return look(running_status(restarts={"fenced": times}), over(0, "Fenced"))


def saved(status: str, **fields: Any) -> observed.Report:
    return observed.Report({"phase": "RUNNING"}, {"status": status, **fields})


def stopping(status: str, **fields: Any) -> actions.Decision:
    upgrading = intent("upgrade", triggerId="t", revision=revision(**NEWER).name)
    return look(running_status(**upgrading), pod(), report=saved(status, **fields), generation=1)


def purge_failed() -> actions.Decision:
    name = naming.command_job("orders", "uid-1", "purge")
    failed = observed.Command(name, "t", "1", "purge", False, True, {"message": "no"})
    status = running_status(phase="Deleting", **intent("delete", policy="purge"))
    return look(status, deleting=True, deletion={"policy": "purge"}, commands=(failed,))


def storage_answers(*, failed: bool) -> actions.Decision:
    name = naming.command_job("orders", "uid-1", "restore-info")
    result = {"message": "away"} if failed else {"found": False}
    command = observed.Command(name, "t", "1", "restore-info", not failed, failed, result)
    return look({"phase": "Pending", "intent": {"action": "recover"}}, commands=(command,))


def unchecked() -> actions.Decision:
    status = running_status(lastCheckpoint={"id": 1, "uri": "s3://b/1"})
    status |= intent("check", ago_s=130, revision=revision(**NEWER).name)
    draft = Draft(observed.ObservedState(job(status), NOW), {}, None)
    waits = observed.Command(checking.command_name(draft), "c", "1", "check", False, False)
    return look(status, pod(), generation=1, commands=(waits,), **NEWER)


SOON: dict[str, Any] = {"progressDeadlineSeconds": 60}
LONG_NOT_READY = [
    {
        "type": kind,
        "status": status,
        "reason": "Starting",
        "lastTransitionTime": clock.text(NOW - timedelta(hours=1)),
    }
    for kind, status in (("Ready", "False"), ("Progressing", "True"))
]
DAILY: dict[str, Any] = {"trigger": {"availableNow": True, "schedule": "@daily"}}
JOB: dict[str, Callable[[], actions.Decision]] = {
    "AttemptStarted": lambda: look(running_status(phase="Starting", **intent("start"))),
    "AttemptSkipped": lambda: look(
        running_status(phase="Starting", **intent("start")), config_maps=(trace(1),)
    ),
    "DriverFailed": lambda: look(running_status(), over(1, "SlotLost")),
    "DriverStopped": lambda: look(running_status(), over(0, "Terminated")),
    "RestartsExhausted": exhausted,
    "LineageContested": contested,
    "RestoreBlocked": lambda: look(running_status(), over(3, "RestoreBlocked")),
    "Finished": lambda: look(running_status(), over(0, "Finished")),
    "RunDue": lambda: look(
        running_status(
            phase="Finished", completionTime="2025-12-31T00:00:00Z", revision=revision(**DAILY).name
        ),
        **DAILY,
    ),
    "Expired": lambda: look(
        running_status(phase="Finished", revision=revision(ttlSecondsAfterFinished=0).name),
        ttlSecondsAfterFinished=0,
    ),
    "ProgressDeadlineExceeded": lambda: look(
        running_status(phase="Starting", revision=revision(**SOON).name, conditions=LONG_NOT_READY),
        pod(ready=False, revision=revision(**SOON).name),
        **SOON,
    ),
    "SpecInvalid": lambda: look(running_status(), pod(), generation=2, invalid="no"),
    "Upgrading": lambda: look(running_status(), pod(), generation=2, **NEWER),
    "StateNotChecked": unchecked,
    "UpgradeRefused": lambda: look(running_status(), pod(), generation=2, refused="no", **NEWER),
    "Suspending": lambda: look(running_status(), pod(), state="suspended"),
    "Suspended": lambda: look(
        running_status(phase="Suspending", **intent("suspend")), over(0, "Terminated"), state="suspended"
    ),
    "Resumed": lambda: look(running_status(phase="Suspended")),
    "SavepointCompleted": lambda: stopping("COMPLETED", location=URI),
    "SavepointFailed": lambda: stopping("FAILED", failure="no"),
    "SavepointNotPossible": lambda: look(
        running_status(), pod(), generation=2, upgradeMode="savepoint", **NEWER
    ),
    "OperatorStateNearLimit": lambda: look(
        running_status(),
        pod(),
        report=observed.Report(
            {"phase": "RUNNING", "operator_state_notice": {"used_bytes": 9, "limit_bytes": 10}}
        ),
    ),
    "DriverUnheard": lambda: look(running_status(), pod(), unheard="its status is too long"),
    "DeletionDegraded": lambda: look(
        running_status(), pod(), deleting=True, deletion={"policy": "purge"}, namespace_terminating=True
    ),
    "PurgeFailed": purge_failed,
    "StateUnderOtherName": lambda: look(
        running_status(
            phase="Deleting",
            cluster="green",
            selector=labels.pods_of("uid-1"),
            **intent("delete", policy="retain", ago_s=600),
        ),
        deleting=True,
    ),
    "StatusRebuilt": lambda: storage_answers(failed=False),
    "StorageUnknown": lambda: storage_answers(failed=True),
}


def snap(status: dict[str, Any], *, deleting: bool = False, **fields: Any) -> actions.Decision:
    spec = fields.pop("spec", {"jobRef": {"name": "orders"}, "deletionPolicy": "Delete"})
    one = observed.Snapshot(
        name="one",
        uid="s-1",
        resource_version="1",
        generation=1,
        created=NOW,
        spec=spec,
        status=status,
        labels={},
        annotations={},
        finalizers=(labels.FINALIZER,),
        deleting_at=NOW if deleting else None,
    )
    report = fields.pop("report", observed.Report({"phase": "RUNNING"}))
    around = observed.ObservedSnapshot(one, NOW, job(running_status()), pod(), report, **fields)
    return snapshot.decide(around, revision(), Config())


def command(verb: str, **result: Any) -> tuple[observed.Command, ...]:
    return (observed.Command(naming.command_job("one", "s-1", verb), "t", "1", verb, True, False, result),)


ASKED = {"phase": "InProgress", "triggerId": "t", "jobUid": "uid-1", "triggeredTime": clock.text(NOW)}
GOING = {"phase": "Deleting", "uri": URI, "jobUid": "uid-1"}
SNAPSHOT: dict[str, Callable[[], actions.Decision]] = {
    "SnapshotCompleted": lambda: snap(ASKED, report=saved("COMPLETED", location=URI)),
    "SnapshotFailed": lambda: snap(ASKED, report=saved("FAILED")),
    "SnapshotRetried": lambda: snap(
        ASKED, spec={"jobRef": {"name": "orders"}, "backoffLimit": 1}, report=saved("FAILED")
    ),
    "SnapshotRegistered": lambda: snap({}, spec={"uri": URI}, commands=command("verify", epoch=1)),
    "DataInUse": lambda: snap(GOING, deleting=True, needed_by="other"),
    "DataDeleted": lambda: snap(GOING, deleting=True, commands=command("delete", deleted=[URI])),
    "DataKept": lambda: snap(GOING, deleting=True, namespace_terminating=True),
}
NORMAL = {
    "AttemptStarted", "DriverStopped", "Finished", "RunDue", "Expired", "Upgrading", "Suspending", "Suspended",
    "Resumed", "SavepointCompleted", "StatusRebuilt", "SnapshotCompleted", "SnapshotRegistered", "DataDeleted",
}  # fmt: skip
"""The others are warnings."""


@pytest.mark.parametrize("reason", [*JOB, *SNAPSHOT])
def test_each_reason_is_told_for_what_it_names(reason: str) -> None:
    decision = {**JOB, **SNAPSHOT}[reason]()
    (note,) = (one for one in decision.notes if one.reason == reason)
    assert note.message
    assert note.warning is (reason not in NORMAL)
    about = decisions.job() if reason in JOB else None
    kind = kube.JOBS if about is not None else kube.SNAPSHOTS
    recorder = Recorder(clock.SystemClock(), "me")
    body = recorder.body(kind, about or decisions.job(), "shop", note)
    assert body is not None
    assert (body["reason"], body["type"]) == (reason, "Warning" if note.warning else "Normal")
    assert recorder.body(kind, about or decisions.job(), "shop", note) is None, "once in a while"


def in_the_code() -> Iterator[str]:
    """Reasons that stand in the code as words: in notes, and in what ends a job."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            position = {"note": 0, "Note": 0, "_end": 2}.get(name)
            if position is None or len(node.args) <= position:
                continue
            word = node.args[position]
            if isinstance(word, ast.Constant):
                yield str(word.value)
            elif isinstance(word, ast.Attribute) and word.attr == "REASON":
                yield "LineageContested"


def documented() -> set[str]:
    page = (ROOT / "docs" / "operator.md").read_text("utf-8")
    section = (
        page.split("\n## Events\n")[1].split("\n## ")[0].split("The reason of a failure by the engine")[0]
    )
    return set(re.findall(r"`([A-Z][A-Za-z]+)`", section))


def test_no_reason_is_without_its_row_here_or_its_word_in_the_page() -> None:
    assert set(in_the_code()) == {*JOB, *SNAPSHOT, *OF_LOOKING}
    assert documented() == {*JOB, *SNAPSHOT, *OF_LOOKING, *OF_ERRORS}


def test_a_failed_action_is_told_by_its_error() -> None:
    found = {kind.__name__: kind for kind in (errors.Forbidden, errors.Invalid, errors.Refused)}
    assert {error(403, "no").reason for error in found.values()} == set(found)
    others = {kind("no").reason for kind in (errors.Foreign, errors.DriverRoleMissing)}
    assert others == {"Foreign", "DriverRoleMissing"}
    assert {*found, *others} == OF_ERRORS
    assert {kind.__name__ for kind in errors.TOLD} == OF_ERRORS | {"SpecInvalid"}


class Clock:
    now_s = 1000.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.now_s)

    def monotonic(self) -> float:
        return self.now_s


@pytest.mark.parametrize("jobs", [1, 5000])
def test_a_note_about_every_job_is_an_event_once_in_ten_minutes_however_many_jobs_there_are(
    jobs: int,
) -> None:
    """As when a webhook is away. With 4,097 jobs each look at each of them made an Event."""
    moving = Clock()
    recorder = Recorder(moving, "me")
    note = actions.Note("Refused", "the webhook is away", warning=True)
    about = [dataclasses.replace(job(), uid=f"uid-{number}") for number in range(jobs)]

    def told() -> int:
        return sum(recorder.body(kube.JOBS, one, "shop", note) is not None for one in about)

    assert told() == jobs
    for _ in range(2):
        moving.now_s += 299
        assert told() == 0
    moving.now_s += 2
    assert told() == jobs
