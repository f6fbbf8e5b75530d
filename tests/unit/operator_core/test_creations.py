"""A pod whose creation fails costs no attempt and no fence: what proves that none was made, and what is looked at."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, look, pod, revision, running_status, trace

from sparkstate_operator import actions, clock, errors, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import settings
from sparkstate_operator.decide import decide
from sparkstate_operator.edges import kube

STARTING = running_status(
    3, phase="Starting", intent={"action": "start", "attempt": 3, "since": clock.text(NOW)}
)


def answer(status: int, message: str, reason: str = "") -> errors.ApiError:
    return kube._error(status, "create", "/pods", {"message": message, "reason": reason}, "7")


@pytest.mark.parametrize(
    ("status", "message", "nothing"),
    [
        (429, "too many requests", True),
        (403, 'pods "a" is forbidden: exceeded quota: none', True),
        (409, "Operation cannot be fulfilled on resourcequotas", True),
        (422, "Pod is invalid", True),
        (404, 'namespaces "shop" not found', True),
        (500, 'Internal error occurred: failed calling webhook "a.b": connection refused', True),
        (500, 'admission webhook "a.b" denied the request: no', True),
        (409, 'admission webhook "a.b" denied the request: busy', True),
        (500, "etcdserver: leader changed", False),
        (503, "apiserver not ready", False),
        (504, "request did not complete within the allotted timeout", False),
    ],
)
def test_what_an_answer_to_a_creation_proves(status: int, message: str, nothing: bool) -> None:
    assert answer(status, message).made_nothing is nothing


def test_no_answer_proves_nothing() -> None:
    assert not errors.ApiError(0, "no answer").made_nothing


def test_a_server_that_has_too_much_to_do_is_asked_when_it_says() -> None:
    assert answer(429, "slow down").retry_after_s == 7.0


def starting(**fields: Any) -> actions.Decision:
    seen = observed.ObservedState(job(STARTING), NOW, config_maps=(trace(3),))
    return look(dataclasses.replace(seen, **fields))


def test_after_a_creation_without_a_clear_answer_the_pod_is_looked_for_and_made_under_its_number() -> None:
    assert [start.attempt for start in acts(starting(unanswered=3), actions.StartAttempt)] == [3]
    there = starting(unanswered=3, drivers=(pod(3, phase="Pending", node="", ip="", ready=False),))
    assert not acts(there, actions.StartAttempt)
    assert there.status["attempt"] == 3


@pytest.mark.parametrize(
    "fields",
    [{"unanswered": 3, "sightings": {3: pod(3)}}, {"unanswered": 2}, {}],
    ids=["the watch has shown it", "another attempt's", "another process asked"],
)
def test_a_pod_that_may_have_lived_costs_its_number(fields: dict[str, Any]) -> None:
    found = starting(**fields)
    assert not acts(found, actions.StartAttempt)
    assert (found.status["attempt"], [note.reason for note in found.notes]) == (4, ["AttemptSkipped"])


def changed(**fields: Any) -> actions.Decision:
    """The spec changes while the pod cannot be made."""
    newer = job(STARTING, generation=2, image="example/job:2")
    seen = observed.ObservedState(newer, NOW, config_maps=(trace(3),))
    known = {one.name: one for one in (revision(), revision(image="example/job:2"))}
    wanted = plan.of_spec("orders", settings.resolve(newer.spec))
    return decide(dataclasses.replace(seen, **fields), known, wanted, "", Config())


def test_a_spec_that_changes_before_the_pod_is_made_gets_a_number_and_config_map_of_its_own() -> None:
    """The ConfigMap of the attempt holds the older spec: the pod of the newer one would run with it."""
    found = changed(never_made=3)
    assert not acts(found, actions.StartAttempt)
    assert (found.status["attempt"], found.status["revision"]) == (4, revision(image="example/job:2").name)
    assert "notBefore" not in found.status["intent"]


def test_a_pod_that_may_have_been_made_is_of_the_spec_that_it_was_asked_for() -> None:
    (start,) = acts(changed(unanswered=3), actions.StartAttempt)
    assert (start.attempt, start.revision) == (3, revision().name)
