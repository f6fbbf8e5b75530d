"""A job whose new pods are refused, for a quota that is full, and whose spec changes meanwhile."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import DEATH_S, NOW, acts, job, pod, revision, stored, trace

from sparkstate_operator import actions, labels, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

OLD = {"restoreFrom": {"uri": "s3://bucket/savepoints/old"}}
NEW = {"restoreFrom": {"uri": "s3://bucket/savepoints/new"}}
NEWER = {"image": "example/job:2"}
SUSPENDED = {"state": "suspended"}


class Refused:
    """A job, look by look, of which attempt 1 has run. The API server refuses each later pod."""

    def __init__(self, **spec: Any) -> None:
        self.spec, self.generation, self.now = {**spec, **SUSPENDED}, 1, NOW
        found = revision(**spec)
        self.known: dict[str, plan.Revision] = {found.name: found}
        start = {"uri": spec["restoreFrom"]["uri"], "since": 1} if spec else {}
        self.config_maps = {1: traced(1, found.name, start)}
        self.sightings = {1: pod(phase="Failed", ready=False)}
        self.never_made = self.unanswered = 0
        self.status: dict[str, Any] = {
            "phase": "Suspended",
            "attempt": 1,
            "revision": found.name,
            "observedGeneration": 1,
            "selector": "x",
            **({"start": start} if start else {}),
        }

    def change(self, looks: int = 3, **spec: Any) -> None:
        self.spec, self.generation = spec, self.generation + 1
        for _ in range(looks):
            self.look()

    def look(self) -> actions.Decision:
        wanted = revision(**self.spec)
        self.known[wanted.name] = wanted
        seen = observed.ObservedState(
            job(self.status, generation=self.generation, **self.spec),
            self.now,
            config_maps=tuple(self.config_maps.values()),
            sightings=self.sightings,
            never_made=self.never_made,
            unanswered=self.unanswered,
        )
        decision = stored(decide(seen, self.known, wanted, "", Config()))
        self.status, self.now = dict(decision.status), self.now + timedelta(seconds=1)
        for act in (*decision.before, *decision.actions):
            if isinstance(act, actions.DeleteAttempt):
                del self.config_maps[act.child.attempt or 0]
            if isinstance(act, actions.StartAttempt):
                made = traced(act.attempt, act.revision, act.start.document())
                self.config_maps.setdefault(act.attempt, made)
                self.never_made = act.attempt
                break  # the refusal ends the turn
        return decision


def traced(attempt: int, revision_: str, start: dict[str, Any]) -> observed.Child:
    """The ConfigMap of an attempt."""
    meta = {"labels": {labels.REVISION: revision_}, "annotations": {labels.START: json.dumps(start)}}
    return dataclasses.replace(trace(attempt), body={"metadata": meta})


@pytest.mark.parametrize("given", [NEW, {"startEmpty": True}], ids=["from a place", "empty"])
def test_an_instruction_taken_back_in_time_does_not_come_back_when_two_pods_were_refused(
    given: dict[str, Any],
) -> None:
    """Attempt 2's ConfigMap had stayed, and passed for one of an attempt that may have lived: the job went back to the
    savepoint, although attempt 3 was to start without it."""
    found = Refused()
    found.change(**given)
    found.change()
    assert (found.status["attempt"], found.never_made) == (3, 3)
    found.change(**SUSPENDED)
    assert found.status["phase"] == "Suspended"
    found.change()
    assert found.status["attempt"] == 4
    assert "start" not in found.status


def test_the_instruction_of_the_attempt_that_ran_outlives_a_refused_one() -> None:
    """Its ConfigMap held the only copy while a suspended spec named another place, and was deleted in favour of the
    refused attempt's: the next attempt began without the savepoint."""
    found = Refused(**OLD)
    found.change(**OLD, **NEWER)
    found.change(1, **OLD, **NEWER, **SUSPENDED)
    found.change(1, **NEW, **NEWER, **SUSPENDED)
    found.change(**OLD, **NEWER, **SUSPENDED)
    assert list(found.config_maps) == [1]
    found.change(**OLD, **NEWER)
    assert found.status["start"] == {"uri": OLD["restoreFrom"]["uri"], "since": 1}


def test_a_suspension_does_not_wait_for_a_driver_that_never_was() -> None:
    found = Refused()
    found.change(**NEWER)
    found.change(2, **NEWER, **SUSPENDED)
    assert found.status["phase"] == "Suspended"
    assert "unconfirmed" not in found.status


def test_the_objects_of_a_number_that_is_tried_again_stay() -> None:
    found = Refused()
    found.change(5, **NEWER)
    assert sorted(found.config_maps) == [1, 2]
    assert acts(found.look(), actions.StartAttempt)


def test_a_suspension_waits_for_a_driver_that_may_have_been_made_before_the_refusal() -> None:
    """The first request for its pod had no answer. The second was refused, perhaps because the first pod fills the
    quota."""
    found = Refused()
    found.change(**NEWER)
    found.unanswered = 2
    found.change(3, **NEWER, **SUSPENDED)
    assert found.status["phase"] == "Suspending"
    assert 2 in found.config_maps


def test_a_spec_that_changes_waits_for_a_driver_that_may_have_been_made_before_the_refusal() -> None:
    """The first request for its pod had no answer, and the next attempt began as if there could be no such pod."""
    found = Refused()
    found.change(**NEWER)
    found.unanswered = 2
    found.change(image="example/job:3")
    assert (found.status["attempt"], found.status["unconfirmed"][0]["attempt"]) == (3, 2)
    assert found.status["revision"] == revision(image="example/job:3").name
    assert not acts(found.look(), actions.StartAttempt)
    found.now += timedelta(seconds=DEATH_S)
    assert acts(found.look(), actions.StartAttempt)
