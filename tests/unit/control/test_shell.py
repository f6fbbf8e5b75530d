"""The page's shell: loadable without a token, the same for every job, and without data (docs/rfcs/0003)."""

from __future__ import annotations

import re

import httpx
import pytest

import sparkstate
from sparkstate import keys
from sparkstate.control import documents, server, shell
from sparkstate_tools.drivers import control_job

PATHS = sorted(shell.load())


def everything(address: str) -> dict[str, tuple[int, bytes, list[tuple[str, str]]]]:
    with httpx.Client(base_url=address, trust_env=False) as http:
        answers = {path: http.get(path) for path in PATHS}
    return {path: (got.status_code, got.content, got.headers.multi_items()) for path, got in answers.items()}


def test_the_shell_is_byte_for_byte_the_same_for_every_job_and_phase() -> None:
    secret = documents.JobStatus(
        job_uid="secret-uid",
        name="secret-name",
        namespace="secret-namespace",
        phase=documents.DriverPhase.FAILED,
        sinks=("secret-sink",),
    )
    with server.ControlServer(control_job.InMemoryJob(), keys.of_token(control_job.TOKEN)) as one:
        first = everything(one.address)
    with server.ControlServer(
        control_job.InMemoryJob(secret), keys.of_token(control_job.TOKEN + "2")
    ) as other:
        second = everything(other.address)
    assert first == second
    whole = repr(second)
    assert "secret" not in whole
    assert control_job.TOKEN not in whole


def test_the_shell_is_the_page_its_scripts_and_style_and_nothing_else() -> None:
    assert PATHS == [
        "/ui",
        "/ui/",
        "/ui/api.js",
        "/ui/chart.js",
        "/ui/dom.js",
        "/ui/format.js",
        "/ui/graph.js",
        "/ui/icon.svg",
        "/ui/layers.js",
        "/ui/logs.js",
        "/ui/main.js",
        "/ui/operators.js",
        "/ui/page.css",
        "/ui/panels.js",
        "/ui/savepoint.js",
        "/ui/series.js",
        "/ui/token.js",
    ]


def test_the_shell_tells_no_version() -> None:
    version = getattr(sparkstate, "__version__", "0.1.0")
    assert not [path for path, file in shell.load().items() if version.encode() in file.content]


@pytest.mark.parametrize("path", [path for path in PATHS if path.endswith((".js", ".css", "/"))])
def test_the_shell_loads_nothing_from_elsewhere_and_has_nothing_inline(path: str) -> None:
    text = shell.load()[path].content.decode()
    outside = [url for url in re.findall(r"https?://[^\s\"'`]+", text) if url != "http://www.w3.org/2000/svg"]
    assert outside == []
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|innerHTML|eval\(", text)


@pytest.mark.parametrize("path", PATHS)
def test_every_file_of_the_shell_carries_the_security_headers(stranger: httpx.Client, path: str) -> None:
    headers = stranger.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "set-cookie" not in headers


def test_head_of_the_shell_has_the_length_and_no_body(stranger: httpx.Client) -> None:
    got, head = stranger.get("/ui/"), stranger.head("/ui/")
    assert head.headers["content-length"] == str(len(got.content))
    assert head.content == b""
