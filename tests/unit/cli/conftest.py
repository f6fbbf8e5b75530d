"""Programs and the storages that they work on."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from support.commands.programs import Program
from support.storage.fixtures import s3, s3_server

from sparkstate import storage

__all__ = ["s3", "s3_server"]


@pytest.fixture
def program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(tmp_path, capsys)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A storage's URL; with S3 the commands find server and keys in the environment, as in a pod."""
    if request.param == "local":
        (tmp_path / "state").mkdir()
        return (tmp_path / "state").as_uri()
    server = request.getfixturevalue("s3")
    monkeypatch.setenv("SPARKSTATE_S3_ENDPOINT", server.settings.endpoint)
    monkeypatch.setenv("SPARKSTATE_S3_REGION", server.settings.region)
    monkeypatch.setenv("SPARKSTATE_S3_PATH_STYLE", "true")
    opened = storage.open_store
    monkeypatch.setattr(
        storage, "open_store", lambda url, s3=None, **how: opened(url, s3 or server.settings, **how)
    )
    return f"s3://state/{secrets.token_hex(6)}"
