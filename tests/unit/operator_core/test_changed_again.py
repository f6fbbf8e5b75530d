"""A spec that changes while an earlier change of it is carried out."""

from __future__ import annotations

import dataclasses

import pytest
from support.scene.decisions import NOW, ended, job, look, pod, revision, running_status, trace

from sparkstate_operator import clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide


@pytest.mark.parametrize("stop", ["upgrade", "restart", "suspend"])
def test_a_spec_that_changes_again_while_an_attempt_is_stopped_is_what_starts_next(stop: str) -> None:
    """Two changes, a second apart: the second was noted as seen, and forgotten."""
    intent = {"action": stop, "attempt": 1, "since": clock.text(NOW), "revision": "the first change's"}
    status = running_status(phase="Upgrading", observedGeneration=2, intent=intent)
    spec = {"image": "example/job:3", "restoreFrom": {"uri": "s3://bucket/savepoints/one"}}
    stopping = pod(deleting_at=NOW, grace_s=30)
    first = look(observed.ObservedState(job(status, generation=3, **spec), NOW, drivers=(stopping,)))
    assert first.status["observedGeneration"] == 3
    assert first.status["intent"]["revision"] == revision(**spec).name
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    second = look(observed.ObservedState(job(first.status, generation=3, **spec), NOW, drivers=(dead,)))
    assert (second.status["attempt"], second.status["revision"]) == (2, revision(**spec).name)
    assert second.status["start"]["uri"] == "s3://bucket/savepoints/one"


def test_a_spec_that_changes_while_an_attempt_is_made_is_an_upgrade_of_it() -> None:
    """Its ConfigMap is there and cannot be changed, and whether it has a pod is open."""
    intent = {"action": "start", "attempt": 2, "since": clock.text(NOW), "revision": revision().name}
    status = running_status(2, phase="Starting", intent=intent)
    spec = {"image": "example/job:2"}
    seen = observed.ObservedState(
        job(status, generation=2, **spec), NOW, config_maps=(trace(2),), unanswered=2
    )
    first = look(seen)
    assert first.status["attempt"] == 2
    assert first.status["observedGeneration"] == 1
    made = observed.ObservedState(
        job(first.status, generation=2, **spec), NOW, drivers=(pod(2),), config_maps=(trace(2),)
    )
    second = look(made)
    third = look(dataclasses.replace(made, job=job(second.status, generation=2, **spec)))
    assert third.status["intent"]["action"] == "upgrade"
    assert third.status["intent"]["revision"] == revision(**spec).name
    assert third.status["observedGeneration"] == 2


def test_an_upgrade_under_way_goes_on_as_it_was_asked_for_when_the_spec_becomes_invalid() -> None:
    """The old revision was started instead, with the start instruction of the new one."""
    spec = {"image": "example/job:2", "restoreFrom": {"uri": "s3://bucket/old"}, "upgradeCheck": False}
    newer = revision(**spec)
    known = {one.name: one for one in (revision(), newer)}
    begun = look(observed.ObservedState(job(running_status(), generation=2, **spec), NOW, drivers=(pod(),)))
    assert begun.status["intent"]["revision"] == newer.name
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    seen = observed.ObservedState(job(begun.status, generation=3, slots=0), NOW, drivers=(dead,))
    after = decide(seen, known, None, "spec.slots is 0", Config()).status
    assert (after["attempt"], after["revision"], after["intent"]["revision"]) == (2, newer.name, newer.name)
    assert after["start"]["uri"] == "s3://bucket/old"
    assert after["observedGeneration"] == 3
