"""The operator's real client before the engine's real endpoint: which key it asks with, and what a stranger learns."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from support.drivers.asked_drivers import HELD, HERE, OWN, UID, LoopClock, job

from sparkstate import keys as engine
from sparkstate.control import server
from sparkstate_operator import errors
from sparkstate_operator.edges import driver


def look_and_change(port: int, looks: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the operator is answered."""

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        drivers = driver.Drivers(LoopClock(), port)
        try:
            statuses = [await drivers.status(HERE, OWN, UID, 3) for _ in range(looks)]
            return statuses[-1], await drivers.trigger(HERE, OWN, UID, 3, {"trigger_id": "one"})
        finally:
            await drivers.close()

    return asyncio.run(scenario())


def test_the_operator_looks_and_takes_a_savepoint_with_the_keys_for_that() -> None:
    with server.ControlServer(job(), HELD) as endpoint:
        status, savepoint = look_and_change(endpoint.port)
    assert status["attempt"] == 3
    assert savepoint["trigger_id"] == "one"


def test_a_driver_that_knows_the_token_alone_is_asked_with_it() -> None:
    with server.ControlServer(job(), engine.of_token(OWN.token)) as endpoint:
        status, savepoint = look_and_change(endpoint.port, looks=2)
    assert status["attempt"] == 3
    assert savepoint["trigger_id"] == "one"


def stranger(answer: bytes, heard: list[bytes]) -> Any:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    return serve


def test_who_answers_at_a_former_address_of_a_driver_learns_no_key_that_changes_anything() -> None:
    heard: list[bytes] = []

    async def scenario() -> None:
        refusal = b"HTTP/1.1 401 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        listening = await asyncio.start_server(stranger(refusal, heard), HERE, 0)
        drivers = driver.Drivers(LoopClock(), listening.sockets[0].getsockname()[1])
        try:
            for _ in range(3):
                with pytest.raises(errors.DriverUnavailable):
                    await drivers.status(HERE, OWN, UID, 3)
        finally:
            await drivers.close()
            listening.close()

    asyncio.run(scenario())
    learned = {key.decode() for one in heard for key in re.findall(rb"Bearer (\S+)", one)}
    assert learned == {OWN.read, OWN.token}
    played = job()
    with server.ControlServer(played, HELD) as endpoint:
        for key in learned:
            bearer = {"Authorization": f"Bearer {key}"}
            for path in ("/v1/cancel", "/v1/savepoints", "/v1/checkpoints", "/v1/claim"):
                answer = httpx.post(endpoint.address + path, headers=bearer, trust_env=False)
                assert answer.status_code in (401, 403)
    assert not played.requests()
