"""Who has no token learns a status code and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import httpx
import pytest

from sparkstate import errors, keys
from sparkstate.control import auth, server, shell
from sparkstate_tools.drivers import control_job

HIDDEN_PATHS = [
    "/",
    "/openapi.json",
    "/docs",
    "/redoc",
    "/metrics",
    "/v1/status",
    "/v1/checkpoints",
    "/v1/checkpoints/1",
    "/v1/savepoints/x",
    "/v1/state?operator=a&state=b&key=1",
    "/no-such-path",
    "/livez/",
    "/livez/..",
    "/LIVEZ",
    "/ui/../v1/status",
    "/ui/%2e%2e/v1/status",
    "/ui/no-such-file.js",
    "//v1/status",
    "/favicon.ico",
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


@pytest.mark.parametrize("path", HIDDEN_PATHS)
def test_without_a_token_every_path_and_method_answers_the_same_empty_401(
    stranger: httpx.Client, path: str
) -> None:
    for method in METHODS:
        answer = stranger.request(method, path)
        assert (method, answer.status_code, answer.content) == (method, 401, b"")
        assert dict(answer.headers) == {
            "content-length": "0",
            "cache-control": "no-store",
            "www-authenticate": "Bearer",
        }


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/ui/", "/ui/main.js"])
def test_open_paths_answer_401_to_methods_that_do_not_read(stranger: httpx.Client, path: str) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer = stranger.request(method, path)
        assert (method, answer.status_code, answer.content) == (method, 401, b"")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {control_job.TOKEN}x",
        f"Bearer {control_job.TOKEN[:-1]}",
        f"Bearer  {control_job.TOKEN}",
        f"Basic {control_job.TOKEN}",
        control_job.TOKEN,
    ],
)
def test_a_wrong_authorization_header_is_refused(stranger: httpx.Client, header: str) -> None:
    answer = stranger.get("/v1/status", headers={"Authorization": header})
    assert (answer.status_code, answer.content) == (401, b"")


def test_two_authorization_headers_are_refused_even_if_one_is_right(stranger: httpx.Client) -> None:
    right = f"Bearer {control_job.TOKEN}"
    answer = stranger.get("/v1/status", headers=[("Authorization", right), ("Authorization", "Bearer x")])
    assert answer.status_code == 401


def test_a_token_in_the_query_is_not_accepted(stranger: httpx.Client) -> None:
    assert stranger.get(f"/v1/status?token={control_job.TOKEN}").status_code == 401


def test_the_scheme_bearer_may_be_written_in_any_case(stranger: httpx.Client) -> None:
    answer = stranger.get("/v1/status", headers={"Authorization": f"bEARER {control_job.TOKEN}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(("holds", "status"), [(True, 200), (False, 503)])
def test_probes_answer_without_a_token_by_a_status_code_and_no_content(
    stranger: httpx.Client, job: control_job.InMemoryJob, holds: bool, status: int
) -> None:
    job.live, job.ready = holds, not holds
    live, ready = stranger.get("/livez"), stranger.get("/readyz")
    assert (live.status_code, ready.status_code) == (status, 503 if holds else 200)
    assert live.content == ready.content == b""


def test_a_probe_that_raises_answers_503(
    stranger: httpx.Client, job: control_job.InMemoryJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(control_job.InMemoryJob, "live", raising=False)
    del job.live
    assert stranger.get("/livez").status_code == 503


def test_authorised_answers_name_the_job_and_forbid_caching_and_framing(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    job.update(attempt=7)
    answer = caller.get("/v1/status")
    assert answer.headers["x-sparkstate-job-uid"] == "uid-1"
    assert answer.headers["x-sparkstate-attempt"] == "7"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"] == shell.CONTENT_SECURITY_POLICY
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "with space in the token", "with\nnewline-in-it", "ümläut-ümläut-ümläut"]
)
def test_a_token_that_cannot_protect_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(errors.SpecInvalid) as caught:
        server.ControlServer(control_job.InMemoryJob(), keys.of_token(token))
    assert "openssl rand" in str(caught.value)
    assert not token or token not in str(caught.value)


def test_the_token_is_in_no_log_and_no_representation(
    control: server.ControlServer,
    caller: httpx.Client,
    job: control_job.InMemoryJob,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    caller.get("/v1/status")
    caller.get(f"/v1/status?token={control_job.TOKEN}")
    job.raises = RuntimeError("planted")
    assert caller.get("/v1/status").status_code == 500
    assert "planted" in caplog.text  # the log did work
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert not [record for record in ours if control_job.TOKEN in record.getMessage()]
    held = keys.of_token(control_job.TOKEN)
    gate = auth.Gate(control._server.config.app, held, job.is_live, job.is_ready)
    for key in (control_job.TOKEN, held.admin, held.read):
        assert key not in repr(control) + repr(gate) + repr(held)


@pytest.fixture
def reader(control: server.ControlServer) -> Iterator[httpx.Client]:
    """Knows the key to look with: who was given the link to the page."""
    headers = {"Authorization": f"Bearer {keys.of_token(control_job.TOKEN).read}"}
    with httpx.Client(base_url=control.address, headers=headers, trust_env=False) as http:
        yield http


def test_who_may_look_sees_everything(reader: httpx.Client) -> None:
    for path in ("/v1/status", "/v1/checkpoints", "/metrics"):
        assert reader.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/v1/cancel", "/v1/claim", "/v1/savepoints", "/v1/checkpoints", "/nowhere"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_who_may_look_changes_nothing(
    reader: httpx.Client, job: control_job.InMemoryJob, path: str, method: str
) -> None:
    before = job.status()
    answer = reader.request(method, path, json={"stop": True})
    assert answer.status_code == 403
    assert answer.json()["reason"] == "Forbidden"
    assert not job.requests()
    assert job.status() == before


def test_keys_of_other_doors_open_nothing_here(control: server.ControlServer) -> None:
    own = keys.of_token(control_job.TOKEN)
    for key in (own.slots, keys.derive(control_job.TOKEN, "spark"), own.read[:-1], own.admin + "0", "x"):
        bearer = {"Authorization": f"Bearer {key}"}
        answer = httpx.get(control.address + "/v1/status", headers=bearer, trust_env=False)
        assert (answer.status_code, answer.content) == (401, b"")


def test_a_token_that_was_given_for_older_images_opens_nothing() -> None:
    own = keys.of_token(control_job.TOKEN)
    held = keys.Keys(admin=own.admin, read=own.read, slots=own.slots)
    with server.ControlServer(control_job.InMemoryJob(), held) as running:
        bearer = {"Authorization": f"Bearer {control_job.TOKEN}"}
        assert httpx.get(running.address + "/v1/status", headers=bearer, trust_env=False).status_code == 401
