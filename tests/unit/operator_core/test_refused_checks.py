"""The API server refuses the Job that would ask a new version about the state: a quota, a policy, a webhook."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from support.scene.checked import NEWER, Asked, look
from support.scene.decisions import NOW, acts, job, revision

from sparkstate_operator import actions, errors, hooks, observed
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import Config
from sparkstate_operator.decide import checking
from sparkstate_operator.edges import kube as k
from sparkstate_operator.memory import Memory

FULL = (
    'jobs.batch "orders-check" is forbidden: exceeded quota: none, requested: count/jobs.batch=1, '
    "used: count/jobs.batch=0, limited: count/jobs.batch=0"
)
LATE_S = checking.ROOM_S + 1


def refused(asked: Asked, later_s: float, message: str = FULL, name: str = "") -> actions.Decision:
    """A look at a check that is ``later_s`` old, and whose Job was refused when it was last asked for."""
    refusal = observed.CommandRefusal(name or asked.action.name, message)
    return look(asked.status, later_s=later_s, spec=asked.spec, unasked=refusal)


def test_a_check_is_asked_for_again_while_a_full_quota_may_get_room() -> None:
    asked = Asked()
    found = refused(asked, checking.ROOM_S - 1)
    assert found.status["phase"] == "Running"
    assert acts(found, actions.CreateCheck) == [asked.action]


def test_a_check_that_is_refused_for_two_minutes_keeps_nobody_from_upgrading() -> None:
    """Each look asked for the Job again, and the upgrade was never made."""
    found = refused(Asked(), LATE_S)
    assert (found.status["phase"], found.status["intent"]["action"]) == ("Upgrading", "upgrade")
    assert acts(found, actions.CreateCheck) == []
    (note,) = (one for one in found.notes if one.reason == "StateNotChecked")
    assert note.warning
    for told in (FULL, "quotas and policies", "spec.upgradeCheck: false"):
        assert told in note.message


def test_a_long_refusal_leaves_room_for_the_remedy() -> None:
    (note,) = (one for one in refused(Asked(), LATE_S, "no " * 2000).notes if one.reason == "StateNotChecked")
    assert "spec.upgradeCheck: false" in note.message[:1024]


def test_the_refusal_of_an_earlier_check_says_nothing_about_this_one() -> None:
    asked = Asked()
    assert acts(refused(asked, LATE_S, name="orders-check-of-before"), actions.CreateCheck) == [asked.action]


def test_a_driver_that_is_taken_away_meanwhile_is_followed_by_one_of_its_version() -> None:
    asked = Asked()
    refusal = observed.CommandRefusal(asked.action.name, FULL)
    found = look(asked.status, later_s=LATE_S, spec=asked.spec, unasked=refusal, drivers=())
    assert found.status["intent"]["action"] == "start"


# -- which answers are refusals ----------------------------------------------------------------------------------------


class Api:
    """The API server, of which the creation of a Job alone is asked."""

    def __init__(self, answer: errors.ApiError | None) -> None:
        self._answer = answer

    async def create(self, _kind: k.Kind, _namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if self._answer is not None:
            raise self._answer
        return body

    async def get(self, _kind: k.Kind, namespace: str, name: str) -> dict[str, Any]:
        """Somebody else's."""
        return {"kind": "Job", "metadata": {"namespace": namespace, "name": name, "labels": {}}}


def ask(asked: Asked, answer: errors.ApiError | None, memory: Memory) -> None:
    applier = Applier(cast(k.Kube, Api(answer)), None, Config(), b"k" * 32, hooks.NoHooks())  # type: ignore[arg-type]
    wanted = revision(**NEWER)
    seen = observed.ObservedState(job(asked.status, generation=2, **NEWER), NOW)
    asyncio.run(applier.carry_out(asked.action, seen, {wanted.name: wanted}, memory))


def answered(status: int, message: str, reason: str = "") -> errors.ApiError:
    return k._error(status, "create", "/jobs", {"message": message, "reason": reason}, None)


REFUSALS = {
    "a quota": answered(403, FULL),
    "a policy": answered(422, "Job is invalid: jobs have to name their team"),
    "a webhook": answered(403, 'admission webhook "a.b" denied the request: no'),
    "a webhook of another kind": answered(400, 'admission webhook "a.b" denied the request: no'),
    "a stranger's": answered(409, "it exists", "AlreadyExists"),
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_a_job_that_the_api_server_does_not_take_is_remembered_for_its_check(answer: errors.ApiError) -> None:
    asked, memory = Asked(), Memory()
    with pytest.raises(errors.TOLD) as raised:
        ask(asked, answer, memory)
    assert memory.attempts.unasked == observed.CommandRefusal(asked.action.name, str(raised.value))


TRANSIENT = {
    "too much to do": answered(429, "too many requests"),
    "a webhook that fails": answered(500, 'failed calling webhook "a.b": connection refused'),
    "a webhook that has too much to do": answered(429, 'admission webhook "a.b" denied the request: busy'),
    "no leader": answered(500, "etcdserver: leader changed"),
    "not ready": answered(503, "apiserver not ready"),
    "slow": answered(504, "request did not complete within the allotted timeout"),
    "a quota in motion": answered(409, "Operation cannot be fulfilled on resourcequotas"),
    "no answer": errors.ApiError(0, "no answer"),
}


@pytest.mark.parametrize("answer", TRANSIENT.values(), ids=TRANSIENT)
def test_an_answer_that_may_differ_the_next_time_is_no_refusal(answer: errors.ApiError) -> None:
    asked, memory = Asked(), Memory()
    memory.attempts.unasked = observed.CommandRefusal(asked.action.name, "it was refused before")
    with pytest.raises(errors.ApiError):
        ask(asked, answer, memory)
    assert memory.attempts.unasked is None, "the last answer counts"


def test_a_job_that_is_made_ends_the_memory_of_its_refusal() -> None:
    asked, memory = Asked(), Memory()
    memory.attempts.unasked = observed.CommandRefusal(asked.action.name, FULL)
    ask(asked, None, memory)
    assert memory.attempts.unasked is None
