"""Times in the status by a clock that was ahead hold no job for as long as it was ahead."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import (
    DEATH_S,
    NOW,
    acts,
    ended,
    job,
    look,
    pod,
    revision,
    running_status,
    trace,
)

from sparkstate_operator import actions, clock, command_pods, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import commanding, snapshot
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.edges import kube as k
from sparkstate_operator.observe import Observer
from sparkstate_spec.periodic import SOON_S

DAY_S = 86_400.0
NEWER: dict[str, Any] = {"image": "example/job:2", "upgradeMode": "savepoint"}
FAILED = pod(phase="Failed", ready=False, ended=ended(1, "SlotLost"))


def at(after_s: float) -> str:
    return clock.text(NOW + timedelta(seconds=after_s))


def seen(status: Any, after_s: float, **fields: Any) -> actions.Decision:
    spec = fields.pop("spec", {})
    deleting = fields.pop("deleting", False)
    one = job(status, generation=2 if spec else 1, deleting=deleting, **spec)
    return look(observed.ObservedState(one, NOW + timedelta(seconds=after_s), **fields))


def test_a_pause_before_the_next_attempt_is_as_long_as_it_was_meant_to_be() -> None:
    begun = seen(running_status(), DAY_S, drivers=(FAILED,))
    waits = seen(begun.status, 30, drivers=(FAILED,))
    assert waits.wait_s is not None
    assert waits.wait_s <= 3
    assert acts(seen(waits.status, 34, drivers=(FAILED,)), actions.StartAttempt)


def test_a_lost_driver_is_waited_for_by_the_present_clock() -> None:
    begun = seen(running_status(), DAY_S, config_maps=(trace(1),))
    waits = seen(begun.status, 0, config_maps=(trace(1),))
    early = seen(waits.status, DEATH_S - 1, config_maps=(trace(1),))
    assert not acts(waits, actions.StartAttempt)
    assert not acts(early, actions.StartAttempt)
    assert acts(seen(early.status, DEATH_S + 2, config_maps=(trace(1),)), actions.StartAttempt)


def stopping(since_s: float) -> dict[str, Any]:
    """The status while a savepoint is being taken of a driver that does not answer."""
    intent = {
        "action": "upgrade",
        "attempt": 1,
        "triggerId": "t-1",
        "revision": revision(**NEWER).name,
        "since": at(since_s),
    }
    return running_status(phase="Upgrading", intent=intent, observedGeneration=2)


def test_a_savepoint_is_given_up_by_the_present_clock() -> None:
    first = seen(stopping(DAY_S), 0, spec=NEWER, drivers=(pod(),))
    assert first.status["intent"]["since"] == at(0)
    early = seen(first.status, 590, spec=NEWER, drivers=(pod(),))
    assert not acts(early, actions.DeletePod)
    assert acts(seen(early.status, 610, spec=NEWER, drivers=(pod(),)), actions.DeletePod)


def test_another_clock_may_be_a_little_ahead() -> None:
    first = seen(stopping(SOON_S - 5), 0, spec=NEWER, drivers=(pod(),))
    assert first.status["intent"]["since"] == at(SOON_S - 5)


@pytest.mark.parametrize(("ahead_s", "tried"), [(DAY_S, True), (3600.0, False)])
def test_a_refused_revision_is_tried_again_after_the_longest_pause(ahead_s: float, tried: bool) -> None:
    refused = {"revision": revision(image="example/job:2").name, "message": "no", "nextTime": at(ahead_s)}
    status = running_status(refused=refused, observedGeneration=2)
    found = seen(status, 0, spec={"image": "example/job:2"}, drivers=(pod(),))
    assert (found.check is not None) is tried


@pytest.mark.parametrize("ahead_s", [0.0, 299.0, 301.0, DAY_S])
def test_a_deletion_has_its_whole_time_by_the_operators_clock(ahead_s: float) -> None:
    status: Any = running_status()
    report = observed.Report({"phase": "RUNNING"})
    fields: dict[str, Any] = {"deleting": True, "spec": {"deletion": {"policy": "savepoint"}}}
    for after_s in (0, 1, 290):
        found = seen(status, ahead_s + after_s, drivers=(pod(),), report=report, **fields)
        assert not acts(found, actions.RemoveFinalizer)
        assert "DeletionDegraded" not in {note.reason for note in found.notes}
        status = found.status
    late = seen(status, ahead_s + 301, drivers=(pod(),), report=report, **fields)
    assert acts(late, actions.RemoveFinalizer)


RATE: dict[str, Any] = {"maxFailuresPerInterval": 3, "failureRateInterval": "1m", "delay": "1s"}
RARELY = {"restart": {"strategy": "failure-rate", "failureRate": RATE}}


@pytest.mark.parametrize(
    ("failed_s", "phase"),
    [
        ((DAY_S, DAY_S + 3600), "Failing"),
        ((-DAY_S, DAY_S), "Failing"),
        ((-30, DAY_S), "Failed"),
        ((-30, SOON_S - 5), "Failed"),
    ],
    ids=["an hour apart", "a day ago", "half a minute ago", "a clock that is a little ahead"],
)
def test_a_failure_counts_by_the_present_clock(failed_s: tuple[float, ...], phase: str) -> None:
    """Failures that were an hour apart counted as two within the minute, until the day was over. Of the two, the newest
    counts as one of now, so that a third within the minute still ends the job."""
    restarts = {"operator": 2, "recent": [at(moment) for moment in failed_s]}
    wanted = revision(**RARELY)
    status = running_status(restarts=restarts, observedGeneration=2) | {"revision": wanted.name}
    failed = dataclasses.replace(FAILED, revision=wanted.name)
    assert seen(status, 0, spec=RARELY, drivers=(failed,)).status["phase"] == phase


def test_a_fence_counts_for_an_hour_by_the_present_clock() -> None:
    """After a day, a sixth fence ended the job."""
    fenced = [at(DAY_S + 60 * number) for number in range(5)]
    status: Any = running_status(restarts={"operator": 5, "fenced": fenced})
    runs = seen(status, 0, drivers=(pod(),))
    assert runs.status["restarts"]["fenced"] == [at(60 * number - 240) for number in range(5)]
    fences = pod(phase="Failed", ready=False, ended=ended(4, "Fenced"))
    again = seen(runs.status, 4000, drivers=(fences,))
    assert again.status["restarts"]["fenced"] == [at(4000)]


def test_a_job_is_late_by_the_present_clock() -> None:
    """Its conditions had changed a day from now, and until then it was not late."""
    spec = {"progressDeadlineSeconds": 120}
    wanted = revision(**spec).name
    starts = pod(revision=wanted, ready=False)
    begun = seen(running_status(phase="Starting") | {"revision": wanted}, DAY_S, spec=spec, drivers=(starts,))
    waits = seen(begun.status, 0, spec=spec, drivers=(starts,))
    assert {one["lastTransitionTime"] for one in waits.status["conditions"]} == {at(0)}
    late = seen(waits.status, 121, spec=spec, drivers=(starts,))
    assert "ProgressDeadlineExceeded" in [note.reason for note in late.notes]


def saved(status: Any, after_s: float, answer: dict[str, Any], **fields: Any) -> observed.Document:
    """The status of a snapshot whose driver answers this about it."""
    spec = {"jobRef": {"name": "orders"}, "timeout": "10m", "deletionPolicy": "Delete", "deadline": "5m"}
    one = observed.Snapshot("one", "s-1", "1", 1, NOW, spec, status, {}, {}, (labels.FINALIZER,), **fields)
    report = observed.Report({"phase": "RUNNING"}, answer)
    now = NOW + timedelta(seconds=after_s)
    around = observed.ObservedSnapshot(one, now, job(running_status()), pod(), report)
    return snapshot.decide(around, revision(), Config()).status


def asked(ahead_s: float) -> dict[str, Any]:
    return {"phase": "InProgress", "jobUid": "uid-1", "triggerId": "t-1", "triggeredTime": at(ahead_s)}


def test_a_savepoint_is_late_by_the_present_clock() -> None:
    """Its timeout began only when the day was over."""
    first = saved(asked(DAY_S), 0, {"status": "IN_PROGRESS"})
    assert (first["phase"], first["triggeredTime"]) == ("InProgress", at(0))
    assert saved(first, 599, {"status": "IN_PROGRESS"})["phase"] == "InProgress"
    late = saved(first, 601, {"status": "IN_PROGRESS"})
    assert (late["phase"], late["reason"]) == ("Failed", "Timeout")


def test_no_savepoint_takes_less_than_no_time() -> None:
    done = saved(asked(SOON_S - 5), 0, {"status": "COMPLETED", "location": "s3://bucket/sp-1"})
    assert (done["phase"], done["duration"]) == ("Completed", "0s")


def test_the_deletion_of_a_snapshot_ends_by_the_present_clock() -> None:
    status = {"phase": "Deleting", "uri": "s3://bucket/sp-1", "deletionStartedTime": at(DAY_S)}
    assert saved(status, 0, {}, deleting_at=NOW)["deletionStartedTime"] == at(0)


def stages(ended_s: float, *looks_s: float) -> list[Stage]:
    """Of a command that has failed, at looks after so many seconds. It was first wanted 31 s before."""
    failed = observed.Command("c", "u", "1", "purge", False, True, ended_at=NOW + timedelta(seconds=ended_s))
    looks, since, found = command_pods.FirstLooks(), NOW - timedelta(seconds=31), []
    for after_s in looks_s:
        now = NOW + timedelta(seconds=after_s)
        (command,) = looks.dated([failed], now)
        found.append(commanding.stage(command, since, now))
    return found


@pytest.mark.parametrize(
    "ended_s", [0, SOON_S, 3_700, DAY_S], ids=["just now", "a little ahead", "an hour ahead", "a day ahead"]
)
def test_a_failed_command_is_tried_again_after_its_pause_however_far_its_end_is_ahead(ended_s: float) -> None:
    """Its pause began only when the day was over, or was left out: the command was made again at each look."""
    slack_s = 2 * SOON_S if ended_s == SOON_S else 0
    assert stages(ended_s, 0, 29, 32 + slack_s) == [Stage.PAUSES, Stage.PAUSES, Stage.DUE]


def test_the_first_looks_at_ends_are_not_kept_for_ever() -> None:
    looks = command_pods.FirstLooks()
    for day in range(5):
        now = NOW + timedelta(days=day)
        one = observed.Command("c", f"u-{day}", "1", "purge", False, True, ended_at=now + timedelta(days=9))
        assert looks.dated([one], now)[0].ended_at == now
    assert list(looks._seen) == ["u-4"]


class Api:
    """An API server with the deletion of a snapshot that has failed, by its clock a day ahead."""

    async def list(self, kind: k.Kind, *_: Any) -> list[Any]:
        meta = {"name": "c", "uid": "u", "resourceVersion": "1"}
        failed = {"type": "Failed", "status": "True", "lastTransitionTime": at(DAY_S)}
        return [{"metadata": meta, "status": {"conditions": [failed]}}] if kind is k.COMMANDS else []

    async def get(self, *_: Any) -> None:
        return None


def test_each_look_at_a_snapshot_dates_the_end_of_its_command_by_the_first_one() -> None:
    observer = Observer(Api(), None, b"", None)  # type: ignore[arg-type]
    goes = observed.Snapshot("s-1", "s-uid", "1", 1, NOW, {}, {}, {}, {}, (), deleting_at=NOW)
    for after_s in (0, 20):
        now = NOW + timedelta(seconds=after_s)
        found = asyncio.run(observer.around_snapshot("shop", goes, now))
        assert [one.ended_at for one in found.commands] == [NOW]
