"""A changed spec that starts from a StateSnapshot which is not Completed: the job goes on by its old revision."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import DEATH_S, NOW, acts, ended, job, pod, revision, running_status, stored

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide
from sparkstate_operator.observe import Observer

HOURLY: dict[str, Any] = {"savepoints": {"interval": "1h"}}
NAMED: dict[str, Any] = {**HOURLY, "restoreFrom": {"snapshotRef": {"name": "s-1"}}}
OLD = revision(**HOURLY)
DEAD = {"phase": "Failed", "ready": False}
SAVED = {"id": 4, "epoch": 9, "trigger_ms": 1_767_225_600_000, "duration_ms": 400, "path": "s3://b/chk-4"}
RUNNING = observed.Report({"phase": "RUNNING", "last_checkpoint": SAVED})


def status(**fields: Any) -> dict[str, Any]:
    return running_status(**{"revision": OLD.name, **fields})


def snapshot(phase: str) -> observed.Snapshot:
    told = {"phase": phase, **({"uri": "s3://bucket/savepoints/one"} if phase == "Completed" else {})}
    return observed.Snapshot("s-1", "s-uid", "1", 1, NOW, {}, told, {}, {}, ())


def look(before: Any, phase: str = "InProgress", later_s: float = 0, **seen: Any) -> actions.Decision:
    wanted = revision(**NAMED)
    around = observed.ObservedState(
        job(before, generation=2, **NAMED),
        NOW + timedelta(seconds=later_s),
        snapshots=(snapshot(phase),),
        **seen,
    )
    return stored(decide(around, {OLD.name: OLD, wanted.name: wanted}, wanted, "", Config()))


def degraded(decision: actions.Decision) -> str:
    return next(one["reason"] for one in decision.status["conditions"] if one["type"] == "Degraded")


def test_a_driver_that_runs_is_watched_and_its_savepoints_are_taken() -> None:
    found = look(status(), drivers=(pod(),), report=RUNNING)
    assert (found.status["phase"], found.status["revision"]) == ("Running", OLD.name)
    assert found.status["lastCheckpoint"]["id"] == 4
    assert len(acts(found, actions.CreateSnapshot)) == 1, "the one that it waits for may be such a savepoint"
    assert degraded(found) == "RestoreBlocked"
    assert found.status["observedGeneration"] == 1, "the next look asks again"
    later = look(found.status, "Completed", drivers=(pod(),), report=RUNNING)
    assert later.status["intent"]["revision"] == revision(**NAMED).name


def test_trouble_of_the_driver_is_told_before_the_change_that_waits() -> None:
    away = observed.Report({"phase": "PAUSED"})
    assert degraded(look(status(), drivers=(pod(),), report=away)) == "StorageUnavailable"


ENDS: dict[str, dict[str, Any]] = {
    "it fails": {"drivers": (pod(**DEAD, ended=ended(1, "SlotLost")),)},
    "it is drained": {
        "drivers": (pod(deleting_at=NOW + timedelta(seconds=120)),),
        "sightings": {1: pod(**DEAD, ended=ended(0, "Terminated"))},
    },
    "its pod is gone, with its last word": {"sightings": {1: pod(**DEAD, ended=ended(1, "SlotLost"))}},
    "its pod is gone, and nobody knows more": {},
}


@pytest.mark.parametrize("seen", ENDS.values(), ids=ENDS)
def test_an_attempt_that_ends_is_followed_by_one_of_the_old_revision(seen: dict[str, Any]) -> None:
    """A driver that was dead was left alone, and one whose pod was gone was not replaced: the job stood still."""
    found = look(status(), **seen)
    assert (found.status["phase"], found.status["attempt"]) == ("Failing", 2)
    assert (found.status["revision"], found.status["intent"]["action"]) == (OLD.name, "start")
    assert degraded(found) == "RestoreBlocked"
    again = look(found.status, later_s=1000, **{**seen, "drivers": ()})
    assert [one.revision for one in acts(again, actions.StartAttempt)] == [OLD.name]


def test_an_end_that_is_final_ends_the_job_once() -> None:
    over = pod(**DEAD, ended=ended(1, "UserCodeError"))
    found = look(status(), drivers=(over,))
    assert (found.status["phase"], "intent" in found.status) == ("Failed", False)
    again = look(found.status, drivers=(over,))
    assert (again.status["phase"], again.notes) == ("Failed", ())


def test_a_driver_that_may_live_where_nobody_sees_it_is_waited_for_when_the_state_is_there() -> None:
    lost = look(status())
    found = look(lost.status, "Completed", later_s=1)
    assert (found.status["attempt"], found.status["revision"]) == (2, revision(**NAMED).name)
    begin = clock.parse(found.status["intent"]["notBefore"])
    assert begin is not None
    assert begin >= NOW + timedelta(seconds=DEATH_S)


@pytest.mark.parametrize(
    ("sightings", "waits"),
    [
        pytest.param({}, True, id="nobody knows more"),
        pytest.param({1: pod()}, True, id="it was last seen alive"),
        pytest.param({1: pod(**DEAD, ended=ended(1, "SlotLost"))}, False, id="it was seen to end"),
    ],
)
def test_a_job_that_is_blocked_waits_for_a_driver_whose_end_nobody_confirmed(
    sightings: dict[int, observed.Pod], waits: bool
) -> None:
    """An older operator blocked the job when the pod had vanished, and then began the next attempt at once."""
    found = look(status(phase="RestoreBlocked"), "Completed", sightings=sightings)
    assert found.status["attempt"] == 2
    assert ("notBefore" in found.status["intent"]) is waits


@pytest.mark.parametrize("phase", ["Failed", "Finished"])
def test_a_job_of_which_nothing_is_meant_to_run_waits_for_the_state(phase: str) -> None:
    found = look(status(phase=phase))
    assert (found.status["phase"], found.status["attempt"]) == ("RestoreBlocked", 1)
    assert "the job waits for it" in found.status["message"]
    assert not acts(found, actions.StartAttempt)


# -- a StateSnapshot that is not the job's own, which not every look reads ---------------------------------------------

POINT = {"id": 3, "uri": "s3://b/chk-3"}
OTHERS: dict[str, Any] = {
    "metadata": {
        "name": "s-1",
        "uid": "s-uid",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"uri": "s3://b/sp"},
    "status": {"phase": "Completed", "uri": "s3://b/sp"},
}


class Api:
    """An API server with the StateSnapshot of another job."""

    def __init__(self, found: dict[str, Any] | None = OTHERS) -> None:
        self.found, self.gets = found, 0

    async def list(self, *_: Any) -> list[Any]:
        return []

    async def get(self, *_: Any) -> dict[str, Any] | None:
        self.gets += 1
        return self.found


def looks(before: dict[str, Any], api: Api, *, deep: bool) -> dict[str, Any]:
    """The status after a look; one that is not deep reads no more than it has to."""
    wanted = revision(**NAMED)
    found = job(before, generation=2, **NAMED)
    observer = Observer(api, None, b"", None)  # type: ignore[arg-type]
    snapshots = asyncio.run(observer._snapshots(found, deep=deep))
    around = observed.ObservedState(found, NOW, drivers=(pod(),), snapshots=snapshots, report=RUNNING)
    known = {OLD.name: OLD, wanted.name: wanted}
    after: dict[str, Any] = json.loads(json.dumps(decide(around, known, wanted, "", Config()).status))
    return after


def test_a_look_that_reads_little_does_not_forget_a_restore_from_a_snapshot_of_another_job() -> None:
    after = status(lastCheckpoint=POINT)
    for deep in (True, False, False):
        after = looks(after, Api(), deep=deep)
        assert after["intent"]["action"] == "check"
        assert after["intent"]["revision"] == revision(**NAMED).name


def test_a_snapshot_of_another_job_is_found_by_the_first_look_at_a_changed_spec() -> None:
    assert looks(status(lastCheckpoint=POINT), Api(), deep=False)["intent"]["action"] == "check"


def test_state_that_goes_missing_after_its_spec_was_accepted_is_asked_for_again() -> None:
    checked = looks(status(lastCheckpoint=POINT), Api(), deep=True)
    gone = looks(checked, Api(None), deep=False)
    assert (gone.get("intent"), gone["observedGeneration"]) == (None, 1)
    still = looks(gone, Api(None), deep=False)
    (told,) = (one for one in still["conditions"] if one["type"] == "Degraded")
    assert (told["status"], told["reason"]) == ("True", "RestoreBlocked")
    assert looks(still, Api(), deep=False)["intent"]["action"] == "check"


def test_a_restore_that_was_carried_out_is_not_looked_up_again() -> None:
    api = Api()
    name = revision(**NAMED).name
    looks(status(lastCheckpoint=POINT, revision=name, observedGeneration=2), api, deep=False)
    assert api.gets == 0
