"""Tokens as people give them, and what is shown of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkstate import errors, keys
from sparkstate.cli import main
from sparkstate.control import client, server
from sparkstate.runner import workdir
from sparkstate_tools.drivers import control_job


@pytest.fixture
def address() -> Iterator[str]:
    with server.ControlServer(control_job.InMemoryJob(), keys.of_token(control_job.TOKEN)) as running:
        yield running.address


@pytest.mark.parametrize("older", [(), ("--older-image",)], ids=["", "of an older image"])
def test_a_line_feed_behind_the_token_does_no_harm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str, older: tuple[str, ...]
) -> None:
    """The value of a Secret that was made from a file has one."""
    monkeypatch.setenv("SPARKSTATE_TOKEN", f"{control_job.TOKEN}\n")
    assert main.main(["status", "--address", address, *older]) == 0
    assert control_job.TOKEN not in capsys.readouterr().err


def test_a_token_that_no_header_can_carry_is_not_shown(address: str) -> None:
    with (
        client.ControlClient(address, f"{control_job.TOKEN}\nmore", older_image=True) as asked,
        pytest.raises(client.ControlUnreachable) as raised,
    ):
        asked.status()
    assert "the token has characters" in str(raised.value)
    assert control_job.TOKEN not in str(raised.value)


def test_a_token_file_that_holds_no_text_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    told = ["status", "--address", "http://127.0.0.1:1", "--token-file", str(tmp_path / "token")]
    assert main.main(told) == 2
    assert "does not hold a token" in capsys.readouterr().err


def test_an_address_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKSTATE_TOKEN", control_job.TOKEN)
    assert main.main(["status", "--address", "http://host:abc"]) == 2
    assert "http://host:abc is not an address" in capsys.readouterr().err


@pytest.mark.parametrize("timeout", ["nan", "-5", "inf"])
def test_a_time_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str, timeout: str
) -> None:
    monkeypatch.setenv("SPARKSTATE_TOKEN", control_job.TOKEN)
    assert main.main(["savepoint", "--address", address, "--timeout", timeout]) == 2
    assert "not a number of seconds" in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_job_of_another_user_is_told_as_that() -> None:
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        folder = workdir.WorkDir(Path(made, "job"))
        with folder.locked():
            folder.write_token(control_job.TOKEN)
        os.seteuid(65_534)
        try:
            with pytest.raises(errors.SpecInvalid, match=r"user 65534 may not read .*--token-file"):
                folder.read_token()
            other = workdir.WorkDir(Path(made, "other"))
            with pytest.raises(errors.SpecInvalid, match=r"cannot be the working directory.*--work-dir"):
                other.locked().__enter__()
        finally:
            os.seteuid(0)
