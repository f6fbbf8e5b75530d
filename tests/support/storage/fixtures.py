"""Fixtures for everything that runs against a local folder and a real S3 server. Import them in a
``conftest.py``.
"""

from __future__ import annotations

import secrets

import pytest
from support.storage.stores import without_flushing

from sparkstate_tools.servers import s3server

__all__ = ["any_root", "root", "s3", "s3_server", "without_flushing"]

from sparkstate.storage import naming, open_store
from sparkstate.storage.retrying import RetryPolicy


@pytest.fixture(scope="session")
def s3_server():
    """One versitygw for the session."""
    with s3server.running() as server:
        yield server


@pytest.fixture
def s3(s3_server, monkeypatch):
    """The server, with its credentials in the environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def root(request, tmp_path):
    """An empty storage, once a folder and once a prefix of a bucket."""
    return opened(request, tmp_path)


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def any_root(request, tmp_path):
    """As ``root``, and once the memory of this process."""
    return opened(request, tmp_path)


def opened(request, tmp_path):
    """The empty storage that a parameter names."""
    if request.param == "memory":
        return open_store(f"{naming.MEMORY}/{secrets.token_hex(6)}")
    if request.param == "local":
        request.getfixturevalue("without_flushing")
        return open_store(f"{tmp_path}/storage")
    server = request.getfixturevalue("s3")
    url = f"s3://state/{secrets.token_hex(6)}"
    return open_store(url, server.settings, retry=RetryPolicy(attempts=2, first_pause_s=0.01))
