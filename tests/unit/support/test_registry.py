"""The registry of the test clusters, asked as a node's runtime asks it."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkstate_tools.kubernetes import images
from sparkstate_tools.servers import registry
from sparkstate_tools.servers.registry import Login, Registry

LOGIN = Login("puller", "correct horse")
PROGRAM = bytes(range(256)) * 4096
OPENED = {"Authorization": LOGIN.header}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Registry]:
    job = images.archive(tmp_path / "job.tar", "team/job:1", {"run": PROGRAM}, ["/run"])
    other = images.archive(tmp_path / "other.tar", "other:1", {"run": b"other"}, ["/run"])
    listener = socket.create_server(("127.0.0.1", 0))
    with registry.serving(listener, {"team/job:1": job, "other:1": other}, LOGIN) as one:
        yield one


def ask(
    server: Registry, path: str, headers: dict[str, str], method: str = "GET"
) -> tuple[http.client.HTTPResponse, bytes]:
    port = server.socket.getsockname()[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize("headers", [{}, {"Authorization": Login("puller", "wrong").header}])
@pytest.mark.parametrize("path", ["/v2/", "/v2/team/job/manifests/1", "/v2/team/job/blobs/sha256:00"])
def test_without_the_login_there_is_nothing_but_the_word_that_one_is_asked_for(
    server: Registry, path: str, headers: dict[str, str]
) -> None:
    answer, body = ask(server, path, headers)
    assert answer.status == 401
    assert (answer.getheader("WWW-Authenticate") or "").startswith("Basic realm=")
    assert json.loads(body)["errors"][0]["code"] == "UNAUTHORIZED"
    assert server.answers == [f"401 GET {path}"]


def test_a_pull_by_tag_and_by_digest_gets_what_the_digests_promise(server: Registry) -> None:
    answer, manifest = ask(server, "/v2/team/job/manifests/1", OPENED)
    assert answer.getheader("Docker-Content-Digest") == digest(manifest)
    assert ask(server, f"/v2/team/job/manifests/{digest(manifest)}", OPENED)[1] == manifest
    found = json.loads(manifest)
    assert answer.getheader("Content-Type") == found["mediaType"]
    for part in (found["config"], *found["layers"]):
        _, blob = ask(server, f"/v2/team/job/blobs/{part['digest']}", OPENED)
        assert (digest(blob), len(blob)) == (part["digest"], part["size"])
    assert PROGRAM in blob


def test_a_head_tells_the_size_and_sends_nothing(server: Registry) -> None:
    _, manifest = ask(server, "/v2/team/job/manifests/1", OPENED)
    (layer,) = json.loads(manifest)["layers"]
    for path, size in (("manifests/1", len(manifest)), (f"blobs/{layer['digest']}", layer["size"])):
        answer, body = ask(server, f"/v2/team/job/{path}", OPENED, "HEAD")
        assert (answer.getheader("Content-Length"), body) == (str(size), b"")


@pytest.mark.parametrize(
    "path", ["/v2/team/job/manifests/2", "/v2/team/other/manifests/1", "/v2/team/job/tags/list", "/"]
)
def test_what_it_does_not_have_is_not_found(server: Registry, path: str) -> None:
    assert ask(server, path, OPENED)[0].status == 404


def test_a_blob_of_another_image_is_not_found(server: Registry) -> None:
    (layer,) = json.loads(ask(server, "/v2/other/manifests/1", OPENED)[1])["layers"]
    assert ask(server, f"/v2/other/blobs/{layer['digest']}", OPENED)[0].status == 200
    assert ask(server, f"/v2/team/job/blobs/{layer['digest']}", OPENED)[0].status == 404


def test_a_file_that_is_no_image_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no archive")
    with pytest.raises(ValueError, match=r"notes\.txt is not an image archive"):
        registry.read(path)
