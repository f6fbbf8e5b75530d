"""A job without a driver that waits for a StateSnapshot, and whose spec then asks for something else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import DEATH_S, NOW, acts, job, pod, revision, running_status, stored, trace

from sparkstate_operator import actions, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

NAMED: dict[str, Any] = {"restoreFrom": {"snapshotRef": {"name": "s-1"}}}
NEWER: dict[str, Any] = {"image": "example/job:2"}
DEAD = pod(phase="Failed", ready=False, ended=observed.Termination(1, "Error", "", NOW))


class Waits:
    """Attempt 1 has ended, and the spec then names a StateSnapshot that does not exist."""

    def __init__(self, phase: str = "Suspended", last: observed.Pod | None = DEAD) -> None:
        self.status = running_status(phase=phase, lastCheckpoint={"uri": "s3://b/chk-9"})
        self.sightings = {1: last} if last is not None else {}
        self.generation, self.now = 1, NOW
        for _ in range(2):
            self.look(generation=2, **NAMED)
        assert (self.status["phase"], self.status["restorePending"]) == ("RestoreBlocked", True)

    def look(self, *, generation: int, invalid: str = "", unkept: str = "", **spec: Any) -> actions.Decision:
        newest, old = revision(**spec), revision()
        wanted = None if invalid else newest
        seen = observed.ObservedState(
            job(self.status, generation=generation, **spec),
            self.now,
            config_maps=(trace(1),),
            sightings=self.sightings,
            unkept=unkept,
        )
        found = stored(decide(seen, {old.name: old, newest.name: newest}, wanted, invalid, Config()))
        self.status, self.now = dict(found.status), self.now + timedelta(seconds=1)
        return found


@pytest.mark.parametrize("phase", ["Suspended", "Failed"])
@pytest.mark.parametrize(
    "change", [{}, {"progressDeadlineSeconds": 700}, NEWER], ids=["none", "small", "image"]
)
def test_it_goes_on_once_its_spec_names_no_state_any_more(phase: str, change: dict[str, Any]) -> None:
    """Together with a change that needs no attempt, it stayed RestoreBlocked."""
    found = Waits(phase)
    found.look(generation=3, **change)
    assert (found.status["phase"], found.status["attempt"]) == ("Starting", 2)
    assert found.status["revision"] == revision(**change).name
    assert "start" not in found.status and "restorePending" not in found.status
    assert [one.attempt for one in acts(found.look(generation=3, **change), actions.StartAttempt)] == [2]


@pytest.mark.parametrize(
    "counts_not",
    [
        {"invalid": "typo", **NAMED},
        {"invalid": "typo"},
        {"unkept": "the quota is full", **NAMED, **NEWER},
        {"unkept": "the quota is full", **NEWER},
    ],
    ids=["invalid", "invalid, names none", "not kept", "not kept, names none"],
)
def test_a_spec_that_does_not_count_ends_no_wait(counts_not: dict[str, Any]) -> None:
    """The old revision started, and again and again if it could not be restored either."""
    found = Waits()
    for _ in range(3):
        found.look(generation=3, **counts_not)
        assert (found.status["phase"], found.status["attempt"]) == ("RestoreBlocked", 1)
    found.look(generation=4)
    assert (found.status["phase"], found.status["attempt"]) == ("Starting", 2)


def test_a_spec_that_can_run_after_all_ends_no_wait_without_a_change() -> None:
    """Another version of the operator takes it. Only a new generation asks for a change."""
    found = Waits()
    found.look(generation=3, invalid="not in this version", **NAMED, **NEWER)
    found.look(generation=3, **NAMED, **NEWER)
    assert (found.status["phase"], found.status["attempt"]) == ("RestoreBlocked", 1)


def test_state_is_pending_for_an_attempt_no_more_where_the_spec_cannot_run() -> None:
    runs = running_status(restorePending=True)
    seen = observed.ObservedState(job(runs, generation=2), NOW, drivers=(pod(),))
    assert "restorePending" not in decide(seen, {revision().name: revision()}, None, "typo", Config()).status


@pytest.mark.parametrize("change", [{}, NEWER], ids=["taken back", "another image"])
def test_it_waits_for_a_driver_whose_end_nobody_confirmed(change: dict[str, Any]) -> None:
    found = Waits(last=pod())
    found.look(generation=3, **change)
    assert found.status["unconfirmed"][0]["attempt"] == 1
    assert not acts(found.look(generation=3, **change), actions.StartAttempt)
    found.now = NOW + timedelta(seconds=DEATH_S + 10)
    assert acts(found.look(generation=3, **change), actions.StartAttempt)
