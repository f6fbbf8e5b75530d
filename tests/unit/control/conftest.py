"""One server per module, because starting one takes longer than most tests; its job is new for each."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from sparkstate import keys
from sparkstate.control import client, server
from sparkstate_tools.drivers import control_job


@pytest.fixture(scope="module")
def lasting_job() -> control_job.InMemoryJob:
    return control_job.InMemoryJob()


@pytest.fixture(scope="module")
def control(lasting_job: control_job.InMemoryJob) -> Iterator[server.ControlServer]:
    with server.ControlServer(
        lasting_job, keys.of_token(control_job.TOKEN), new_id=lambda: "made-by-the-server"
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def job(lasting_job: control_job.InMemoryJob) -> control_job.InMemoryJob:
    """The job behind ``control``, as new."""
    lasting_job.reset()
    return lasting_job


@pytest.fixture(scope="module")
def stranger(control: server.ControlServer) -> Iterator[httpx.Client]:
    """Knows the address and no token."""
    with httpx.Client(base_url=control.address, trust_env=False) as http:
        yield http


@pytest.fixture(scope="module")
def caller(control: server.ControlServer) -> Iterator[httpx.Client]:
    """Knows the token."""
    headers = {"Authorization": f"Bearer {control_job.TOKEN}"}
    with httpx.Client(base_url=control.address, headers=headers, trust_env=False) as http:
        yield http


@pytest.fixture(scope="module")
def control_client(control: server.ControlServer) -> Iterator[client.ControlClient]:
    with client.ControlClient(control.address, control_job.TOKEN) as talking:
        yield talking
