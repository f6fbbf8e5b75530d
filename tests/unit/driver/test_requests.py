"""Savepoints that people ask for, one after another."""

from __future__ import annotations

import pytest

from sparkstate.control import port
from sparkstate.control.documents import SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.requests import Requests


def test_the_same_trigger_id_is_queued_once() -> None:
    requests = Requests()
    first = SavepointTrigger(trigger_id="t")
    requests.add(first)
    requests.add(SavepointTrigger(trigger_id="t"))
    assert requests.waiting() == ("t",)
    requests.update("t", SavepointPhase.IN_PROGRESS)
    assert requests.waiting() == ()
    assert requests.add(first).status is SavepointPhase.IN_PROGRESS
    requests.add(SavepointTrigger(trigger_id="u"))
    assert requests.waiting() == ("u",)


def test_the_oldest_that_is_not_done_is_next() -> None:
    requests = Requests()
    for name in ("t", "u"):
        requests.add(SavepointTrigger(trigger_id=name))
    for name in ("t", "u"):
        found = requests.next_open()
        assert found is not None and found.trigger_id == name
        requests.update(name, SavepointPhase.COMPLETED)
    assert requests.next_open() is None


def test_a_trigger_id_that_was_used_for_something_else_is_refused() -> None:
    requests = Requests()
    requests.add(SavepointTrigger(trigger_id="t"))
    with pytest.raises(port.TriggerConflict, match="choose another id") as refused:
        requests.add(SavepointTrigger(trigger_id="t", stop=True))
    assert "'t' was used" in str(refused.value), "the id is told once"
    assert "({'target_directory': None, 'stop': False, 'drain': False, 'format_type': 'canonical'})" in str(
        refused.value
    )


def test_a_request_that_has_ended_stays_as_it_is() -> None:
    requests = Requests()
    requests.add(SavepointTrigger(trigger_id="t"))
    requests.update("t", SavepointPhase.COMPLETED, location="file:///s")
    told = requests.find("t")
    requests.update("t", SavepointPhase.FAILED, failure="a late thread's")
    requests.update("t", SavepointPhase.IN_PROGRESS, epoch=7)
    requests.update("forgotten", SavepointPhase.FAILED)
    assert requests.find("t") == told
    assert requests.find("forgotten") is None
