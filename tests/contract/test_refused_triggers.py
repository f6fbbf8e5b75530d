"""A driver that does not take a savepoint says why, and the operator hears it as the engine means it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.drivers.asked_drivers import HELD, HERE, OWN, UID, LoopClock, job
from support.scene import decisions

from sparkstate import errors as engine
from sparkstate.control import documents, port, server
from sparkstate_operator import actions, errors
from sparkstate_operator.edges import driver

POD = decisions.pod(3)


def refusal(why: Exception | None, request: dict[str, Any]) -> errors.DriverUnavailable:
    asked_job = job()
    asked_job.refuses = why

    async def asked(port_number: int) -> None:
        drivers = driver.Drivers(LoopClock(), port_number)
        try:
            await drivers.trigger(HERE, OWN, UID, 3, request)
        finally:
            await drivers.close()

    with server.ControlServer(asked_job, HELD) as endpoint, pytest.raises(errors.DriverUnavailable) as raised:
        asyncio.run(asked(endpoint.port))
    return raised.value


@pytest.mark.parametrize(
    ("why", "for_good"),
    [
        (engine.SpecInvalid("target_directory is 'x'"), True),
        (port.TriggerConflict("trigger id 'one' was used"), True),
        (port.NotRunning("the job is STOPPING"), False),
        (port.TooManyRequests("100 savepoints wait"), False),
        (engine.StorageRefused("the keys are not accepted"), False),
        (engine.StorageError("no bucket of this name"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_refusal_has_the_word_of_the_engine_and_lasts_if_the_request_is_wrong(
    why: Exception, for_good: bool
) -> None:
    found = refusal(why, {"trigger_id": "one"})
    assert isinstance(found, errors.DriverRefusal)
    assert found.for_good == for_good
    told, _, remedy = str(found).partition("; ")
    assert told == str(why) and remedy


def test_a_field_that_an_engine_does_not_know_is_refused_for_good_by_its_name() -> None:
    found = refusal(None, {"trigger_id": "one", "of_a_later_version": True})
    assert isinstance(found, errors.DriverRefusal) and found.for_good
    assert "of_a_later_version" in str(found)


def test_whatever_is_asked_for_is_a_request_that_the_engine_takes() -> None:
    for wanted in (
        actions.TriggerSavepoint(POD, "one"),
        actions.TriggerSavepoint(POD, "one", stop=True),
        actions.TriggerSavepoint(POD, "one", directory="s3://b/x", format_type="native"),
        actions.TriggerSavepoint(POD, "one", format_type="canonical"),
    ):
        read = documents.SavepointRequest.model_validate(wanted.request())
        assert read.trigger_id == "one" and read.stop == wanted.stop
        assert read.target_directory == wanted.directory
        assert read.format_type == (wanted.format_type or "canonical")
