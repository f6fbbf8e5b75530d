"""A message that is too long loses words in its middle: its remedy stands at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scene.decisions import NOW, job, running_status

from sparkstate_operator import actions, clock, events, judging, observe, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import conditions, pod_refusals, remedies
from sparkstate_operator.core.shortening import shortened
from sparkstate_operator.decide import commanding, ends, snapshot
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.edges import kube as k

LONG = 'Error creating: pods "orders-purge-x7k2p" is forbidden: '
REFUSALS = {
    "a quota": f"{LONG}exceeded quota: {'q' * 250}, requested: {'limits.cpu=1,' * 80} limited: pods=1",
    "no limits": f"{LONG}failed quota: small: must specify {'limits.cpu for: driver; ' * 50}",
    "Pod Security": f"{LONG}violates PodSecurity {'x' * 1000}",
    "a webhook": f'{LONG}admission webhook "a.b" denied the request: {"no " * 400}',
    "a webhook that fails": f'{LONG}failed calling webhook "a.b": {"no " * 400}',
    "a cause that nobody knows": f"{LONG}{'no ' * 400}",
}


@given(st.text(), st.integers(10, 100))
def test_a_message_keeps_its_begin_and_its_end_and_fits(text: str, longest: int) -> None:
    found = shortened(text, longest)
    assert len(found) == min(len(text), longest)
    assert found[:2] == text[:2]
    assert found[-2:] == text[-2:]
    assert shortened(found, longest) == found


@pytest.mark.parametrize("said", REFUSALS.values(), ids=REFUSALS)
def test_an_event_about_a_command_without_a_pod_has_the_whole_remedy(said: str) -> None:
    """An Event has room for 1,024 characters, and the API server's words alone may have as many."""
    refusal = pod_refusals.told(said)
    command = observed.Command("orders-purge-1", "c-1", "1", "purge", False, False, refusal=refusal)
    found = commanding.trouble(command)
    assert found is not None
    recorder = events.Recorder(clock.SystemClock(), "me")
    body = recorder.body(k.JOBS, job(running_status()), "shop", actions.Note(*found, warning=True))
    assert body is not None
    message = body["message"]
    assert len(message) <= events.LONGEST_MESSAGE
    assert message.startswith("the Job orders-purge-1 has no pod: the API server refuses it: ")
    helps = remedies.remedy(said) or "remove the cause"
    assert message.endswith(f"; {helps}, and Kubernetes makes the pod by itself")


def test_a_condition_keeps_the_end_of_a_message_that_it_has_no_room_for() -> None:
    told = f"it is refused: {'no ' * 20_000}; remove the cause"
    facts = conditions.Facts("Running", 1, degraded=conditions.Trouble("NoPod", told))
    (found,) = (one for one in conditions.of_job(facts, None, NOW) if one.type == "Degraded")
    assert len(found.message) == conditions.LONGEST_MESSAGE
    assert found.message.endswith("; remove the cause")


def test_no_message_makes_a_status_that_the_api_server_refuses() -> None:
    draft = Draft(observed.ObservedState(job(running_status()), NOW), {}, None)
    draft.say(f"{'no ' * 20_000}; remove the cause")
    assert len(draft.status["message"]) == conditions.LONGEST_MESSAGE
    assert draft.status["message"].endswith("; remove the cause")


MANY = {f"field{number}": 1 for number in range(100)}
LAST = "spec.s3.field99: is not a field of this version; remove it"


def test_the_last_of_many_faults_of_a_spec_keeps_its_remedy() -> None:
    told = judging.judge(job({}, s3=MANY), Config())[1]
    assert len(told) == 2000
    assert told.endswith(LAST)
    one = observed.Snapshot("s", "s-1", "1", 1, NOW, {"uri": "s3://b/s", "s3": MANY}, {}, {}, {}, ())
    status = snapshot.decide(observed.ObservedSnapshot(one, NOW), None, Config()).status
    assert (status["reason"], len(status["message"])) == ("SpecInvalid", snapshot.LONGEST)
    assert status["message"].endswith(LAST)


def test_an_error_of_our_own_that_is_too_long_keeps_its_end() -> None:
    told = judging.unforeseen("the spec", ValueError(f"{'no ' * 2000}; mend it"))
    assert told.startswith("the spec cannot be turned into pods: ValueError: no ")
    assert told.endswith("; mend it")


def test_an_answer_that_is_not_valid_is_told_with_the_reason() -> None:
    told = asyncio.run(heard({"checkpoints_completed": 10**400})).unheard
    assert told.startswith("its answer is not valid (answer.checkpoints_completed is 1000")
    assert told.endswith("which is out of range)")


async def heard(status: dict[str, Any]) -> observe.HeardReport:
    """The operator asks a driver that answers with this status."""

    class Odd:
        async def status(self, *_: Any) -> Any:
            return status

    observer = observe.Observer(None, Odd(), b"key", None)  # type: ignore[arg-type]
    return await observer._ask(observed.DriverEndpoint("10.0.0.1", "uid-1", 1), None)


def test_a_failure_keeps_what_happened_and_what_helps() -> None:
    """A driver that left no word is told by what it printed last, up to 4,096 bytes. The beginning of that was lost."""
    draft = Draft(observed.ObservedState(job(running_status()), NOW), {}, None)
    ends.fail(draft, "JobFailed", f"the query failed: {'no ' * 1400}; mend it")
    told = draft.status["lastFailure"]["message"]
    assert len(told) == 4000
    assert told.startswith("the query failed: ")
    assert told.endswith("; mend it")
