"""A new version may take ten minutes to say whether it takes up the state. The old one is looked after meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, pod, revision, running_status, stored

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide, snapshot

HOURLY: dict[str, Any] = {"savepoints": {"interval": "1h"}}
NEWER: dict[str, Any] = {**HOURLY, "image": "example/job:2"}
OLD = revision(**HOURLY)
SAVED = {"id": 4, "epoch": 9, "trigger_ms": 1_767_225_600_000, "duration_ms": 400, "path": "s3://b/chk-4"}
RUNNING = observed.Report({"phase": "RUNNING", "last_checkpoint": {**SAVED, "id": 7}})


def look(before: Any, later_s: float = 0, **seen: Any) -> actions.Decision:
    wanted = revision(**NEWER)
    around = observed.ObservedState(
        job(before, generation=2, **NEWER), NOW + timedelta(seconds=later_s), drivers=(pod(),), **seen
    )
    return stored(decide(around, {OLD.name: OLD, wanted.name: wanted}, wanted, "", Config()))


@pytest.fixture
def asked() -> tuple[dict[str, Any], observed.Command]:
    """The status while a check runs, and its Job."""
    begun = look(running_status(revision=OLD.name, lastCheckpoint={"id": 4, "uri": "s3://b/chk-4"}))
    found = look(begun.status, 1, report=observed.Report({"phase": "RUNNING"}))
    (action,) = acts(found, actions.CreateCheck)
    return dict(found.status), observed.Command(action.name, "c-1", "1", "check", False, False)


def test_its_checkpoints_are_noted_and_its_savepoints_taken(
    asked: tuple[dict[str, Any], observed.Command],
) -> None:
    status, command = asked
    found = look(status, 60, report=RUNNING, commands=(command,))
    assert found.status["intent"]["action"] == "check"
    assert found.status["lastCheckpoint"]["id"] == 7
    assert len(acts(found, actions.CreateSnapshot)) == 1


def test_its_trouble_is_told(asked: tuple[dict[str, Any], observed.Command]) -> None:
    status, command = asked
    found = look(status, 60, report=observed.Report({"phase": "PAUSED"}), commands=(command,))
    (degraded,) = (one for one in found.status["conditions"] if one["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "StorageUnavailable")


def test_a_driver_that_recovers_meanwhile_is_not_replaced_without_an_answer(
    asked: tuple[dict[str, Any], observed.Command],
) -> None:
    status, command = asked
    found = look(status, 60, report=observed.Report({"phase": "RECOVERING"}), commands=(command,))
    assert (found.status["phase"], found.status["intent"]["action"]) == ("Failing", "check")
    again = look(found.status, 65, report=RUNNING, commands=(command,))
    assert (again.status["phase"], again.status["intent"]["action"]) == ("Running", "check")
    assert not acts(again, actions.DeletePod)


@pytest.mark.parametrize("later_s", [2, 601])
def test_a_savepoint_is_taken_though_the_check_goes_on(
    asked: tuple[dict[str, Any], observed.Command], later_s: float
) -> None:
    """It waited, and a version that fails its check is checked again for as long as the spec stays."""
    status, _ = asked
    wanted = {"jobRef": {"name": "orders"}}
    one = observed.Snapshot("s", "s-1", "1", 1, NOW, wanted, {}, {}, {}, (labels.FINALIZER,))
    now, report = NOW + timedelta(seconds=later_s), observed.Report({"phase": "RUNNING"})
    seen = observed.ObservedSnapshot(one, now, job(status, generation=2, **NEWER), pod(), report)
    assert snapshot.decide(seen, OLD, Config()).status["phase"] == "Triggered"
