"""The API server refuses the Job that would ask a new version about the state: a quota, a policy, a webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.scene.checked import NEWER, POINT, Asked, ended, look
from support.scene.decisions import NOW, acts, job, pod, revision

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


FAILS = 'create /jobs: Internal error occurred: failed calling webhook "a.b": connection refused (500)'


@pytest.mark.parametrize("message", [FAILS, "create /jobs: no answer"], ids=["a webhook", "the API server"])
def test_a_failure_that_is_no_refusal_leaves_the_old_version_running_and_the_condition_says_so(
    message: str,
) -> None:
    """The Job was asked for again at each look, and an Event alone said that a webhook did not answer."""
    asked = Asked()
    refusal = observed.CommandRefusal(asked.action.name, message, judged=False)
    early = look(asked.status, later_s=checking.ROOM_S - 1, spec=asked.spec, unasked=refusal)
    assert acts(early, actions.CreateCheck) == [asked.action]
    found = look(asked.status, later_s=LATE_S, spec=asked.spec, unasked=refusal)
    assert (found.status["phase"], "intent" in found.status) == ("Running", False)
    (degraded,) = (one for one in found.status["conditions"] if one["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "UpgradeRefused")
    for told in (message, "spec.upgradeCheck: false", *(["mend that webhook"] if message is FAILS else [])):
        assert told in degraded["message"]
    again = look(dict(found.status), later_s=LATE_S + 40, spec=asked.spec)
    assert again.status["intent"]["action"] == "check"


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


# -- after an earlier check has refused the state ----------------------------------------------------------------------

NO = {"ok": True, "compatible": False, "url": POINT["uri"], "message": "state 'n' is now a STRING"}
LATER_S = checking.REFUSED_S + 5


class AskedAgain(Asked):
    """The check of a version whose state was refused is repeated: its Job is due ``LATER_S`` after the refusal."""

    def __init__(self) -> None:
        super().__init__()
        status = dict(self.look(self.command(**ended(**NO))).status)
        self.status = dict(look(status, later_s=LATER_S, spec=self.spec).status)
        (self.action,) = acts(look(self.status, later_s=LATER_S, spec=self.spec), actions.CreateCheck)


UNMADE: dict[str, Callable[[AskedAgain], actions.Decision]] = {
    "its Job is refused": lambda again: refused(again, LATER_S + LATE_S),
    "its Job gets no pod": lambda again: again.look(again.command(), LATER_S + LATE_S),
    "its pod does not begin": lambda again: again.look(
        again.command(pod=pod(phase="Pending", ready=False)), LATER_S + checking.BEGIN_S + 1
    ),
    "an older image came under its name": lambda again: again.look(
        again.command(**ended(message="Error: No such command 'check'.")), LATER_S + 1
    ),
}


@pytest.mark.parametrize("unmade", UNMADE.values(), ids=UNMADE)
def test_a_version_that_a_check_has_refused_stays_refused_if_no_other_check_can_be_made(
    unmade: Callable[[AskedAgain], actions.Decision],
) -> None:
    """The upgrade went on unchecked, and the state that did not fit ended the new attempt."""
    found = unmade(AskedAgain())
    assert (found.status["phase"], "intent" in found.status) == ("Running", False)
    assert {note.reason for note in found.notes} == {"UpgradeRefused"}
    told = found.status["refused"]
    assert "is now a STRING" in told["message"]
    assert "could not be made" in told["message"]
    assert told["message"].count("spec.upgradeCheck: false") == 1
    assert (told["tries"], "is now a STRING" in told["verdict"]) == (2, True)


def test_such_a_version_is_asked_again_and_its_message_does_not_grow() -> None:
    again, lengths = AskedAgain(), set()
    status = again.status
    for later_s in (LATER_S, LATER_S + 4000, LATER_S + 8000):
        begun = dict(look(status, later_s=later_s, spec=again.spec).status)
        assert begun["intent"]["action"] == "check"
        again.status = begun
        (again.action,) = acts(look(begun, later_s=later_s, spec=again.spec), actions.CreateCheck)
        status = dict(refused(again, later_s + LATE_S).status)
        lengths.add(len(status["refused"]["message"]))
    assert len(lengths) == 1


@pytest.mark.parametrize("between", ["nothing", "a dry run", "a failure"])
def test_only_a_check_that_judges_the_state_ends_the_verdict_on_it(between: str) -> None:
    again = AskedAgain()
    status, later_s = again.status, LATER_S
    if between == "a dry run":
        status = dict(look(status, later_s=later_s, spec=again.spec, refused="no").status)
    elif between == "a failure":
        status = dict(again.look(again.command(**ended(message="no bucket")), later_s).status)
    assert "is now a STRING" in status["refused"]["verdict"]


def test_a_version_whose_state_fits_after_all_replaces_the_old_one() -> None:
    again = AskedAgain()
    done = again.command(**ended(succeeded=True, ok=True, compatible=True))
    found = again.look(done, LATER_S + 1)
    assert (found.status["phase"], "verdict" in found.status["refused"]) == ("Upgrading", False)


def test_another_spec_is_not_bound_by_the_verdict_on_the_one_before() -> None:
    again = AskedAgain()
    asked = Asked(image="example/job:3")
    begun = look(again.status, later_s=LATER_S, spec=asked.spec, generation=3)
    assert "refused" not in begun.status
    refusal = observed.CommandRefusal(checking_name(begun, asked), FULL)
    found = look(dict(begun.status), later_s=LATER_S + LATE_S, spec=asked.spec, generation=3, unasked=refusal)
    assert found.status["phase"] == "Upgrading"


def checking_name(begun: actions.Decision, asked: Asked) -> str:
    """The name of the Job of the check that has begun."""
    (action,) = acts(
        look(dict(begun.status), later_s=LATER_S, spec=asked.spec, generation=3), actions.CreateCheck
    )
    return action.name


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
    "a policy about sizes": answered(413, "ValidatingAdmissionPolicy 'small' denied request: a large Job"),
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
    assert memory.attempts.unasked == observed.CommandRefusal(asked.action.name, str(answer), judged=False)


def test_a_job_that_is_made_ends_the_memory_of_its_refusal() -> None:
    asked, memory = Asked(), Memory()
    memory.attempts.unasked = observed.CommandRefusal(asked.action.name, FULL)
    ask(asked, None, memory)
    assert memory.attempts.unasked is None
