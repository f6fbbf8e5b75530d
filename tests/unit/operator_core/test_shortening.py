"""A message that is too long loses words in its middle: its remedy stands at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scene.decisions import NOW, job, running_status

from sparkstate_operator import actions, clock, events, observed
from sparkstate_operator.core import conditions, pod_refusals, remedies
from sparkstate_operator.core.shortening import shortened
from sparkstate_operator.decide import commanding
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
