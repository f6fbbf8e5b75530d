"""What authorised callers get."""

from __future__ import annotations

import asyncio
import socket
import time

import httpx
import pytest

from sparkstate import errors
from sparkstate.control import documents, limits, port, server
from sparkstate.control.limits import MAX_BODY_BYTES
from sparkstate_tools.drivers import control_job


def assert_problem(answer: httpx.Response, status: int, reason: str, *words: str) -> None:
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert set(problem) == {"error", "reason", "remedy"}
    assert problem["reason"] == reason
    assert problem["remedy"]
    for word in words:
        assert word in problem["error"]


def test_the_status_is_what_the_job_says(caller: httpx.Client, job: control_job.InMemoryJob) -> None:
    job.update(epoch=12, slots=(control_job.slot(0), control_job.slot(1)))
    assert documents.JobStatus.model_validate(caller.get("/v1/status").json()) == job.current


def test_checkpoints_come_as_a_list_and_one_by_one(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    job.history = [control_job.checkpoint(1), control_job.checkpoint(2)]
    assert [one["id"] for one in caller.get("/v1/checkpoints").json()] == [1, 2]
    assert caller.get("/v1/checkpoints/2").json() == job.history[1].model_dump(mode="json")
    assert_problem(caller.get("/v1/checkpoints/3"), 404, "NotFound", "checkpoint 3")
    assert_problem(caller.get("/v1/checkpoints/latest"), 422, "InvalidRequest", "latest")


def test_triggering_a_checkpoint_tells_its_id(caller: httpx.Client, job: control_job.InMemoryJob) -> None:
    job.history = [control_job.checkpoint(8)]
    answer = caller.post("/v1/checkpoints")
    assert (answer.status_code, answer.json()) == (202, {"checkpoint_id": 9})


def test_a_savepoint_without_a_trigger_id_gets_one_from_the_server(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    for body in ({"json": {}}, {}):  # an empty document, and no body at all
        answer = caller.post("/v1/savepoints", **body)
        assert answer.status_code == 202
        assert answer.json()["trigger_id"] == "made-by-the-server"
        assert answer.json()["status"] == "PENDING"
    assert len(job.requests()) == 1


def test_the_same_savepoint_request_again_starts_nothing_new(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    body = {"trigger_id": "t-1", "target_directory": "file:///s", "stop": True, "drain": True}
    assert caller.post("/v1/savepoints", json=body).status_code == 202
    job.finish_savepoint("t-1", status=documents.SavepointPhase.COMPLETED, location="file:///s/savepoint-t-1")
    again = caller.post("/v1/savepoints", json=body)
    assert (again.status_code, again.json()["status"]) == (202, "COMPLETED")
    assert caller.get("/v1/savepoints/t-1").json()["location"] == "file:///s/savepoint-t-1"
    assert len(job.requests()) == 1


@pytest.mark.parametrize("other", [{"stop": True}, {"target_directory": "file:///elsewhere"}])
def test_a_known_trigger_id_with_other_parameters_is_a_conflict(
    caller: httpx.Client, other: dict[str, object]
) -> None:
    caller.post("/v1/savepoints", json={"trigger_id": "t-1"})
    answer = caller.post("/v1/savepoints", json={"trigger_id": "t-1", **other})
    assert_problem(answer, 409, "TriggerConflict", "t-1")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"drain": True}, "drain"),
        ({"trigger_id": "../../etc"}, "trigger_id"),
        ({"trigger_id": ""}, "trigger_id"),
        ({"trigger_id": "x" * 129}, "trigger_id"),
        ({"target_directory": ""}, "target_directory"),
        ({"targetDirectory": "file:///s"}, "targetDirectory"),
        ({"stop": "yes"}, "body.stop: Input should be a valid boolean (got 'yes')"),
        ({"stop": 1}, "body.stop"),
        ({"stop": True, "drain": "true"}, "body.drain"),
        ([], "body"),
    ],
)
def test_a_savepoint_request_of_another_form_is_refused_by_its_field(
    caller: httpx.Client, job: control_job.InMemoryJob, body: object, word: str
) -> None:
    assert_problem(caller.post("/v1/savepoints", json=body), 422, "InvalidRequest", word)
    assert job.requests() == []


def test_a_body_that_is_no_json_is_refused(caller: httpx.Client) -> None:
    content = b'{"stop": tru'
    answer = caller.post("/v1/savepoints", content=content, headers={"Content-Type": "application/json"})
    assert_problem(answer, 422, "InvalidRequest", "the body is no JSON: Expecting value at offset 9")


@pytest.mark.parametrize(
    ("headers", "sent"),
    [({}, "no Content-Type"), ({"Content-Type": "application/x-www-form-urlencoded"}, "x-www")],
)
def test_a_body_that_is_not_sent_as_json_is_told_the_header_that_it_lacks(
    caller: httpx.Client, headers: dict[str, str], sent: str
) -> None:
    """As curl sends it with ``-d`` alone."""
    answer = caller.post("/v1/savepoints", content=b'{"trigger_id": "t-1"}', headers=headers)
    assert_problem(answer, 422, "InvalidRequest", "send Content-Type: application/json")
    assert sent in answer.json()["error"] and "t-1" not in answer.json()["error"]


def test_an_unknown_savepoint_is_not_found(caller: httpx.Client) -> None:
    assert_problem(caller.get("/v1/savepoints/t-9"), 404, "NotFound", "t-9")
    assert_problem(caller.get("/v1/savepoints/.hidden"), 422, "InvalidRequest", ".hidden")


def test_one_keys_state_is_read_with_keys_as_json(caller: httpx.Client, job: control_job.InMemoryJob) -> None:
    job.values = {("rotation", "delay", repr("N1")): 117, ("rotation", "delay", repr(["N1", 2])): [1, 2]}
    query = {"operator": "rotation", "state": "delay"}
    assert caller.get("/v1/state", params={**query, "key": '"N1"'}).json()["value"] == 117
    assert caller.get("/v1/state", params={**query, "key": '["N1", 2]'}).json()["value"] == [1, 2]
    missing = caller.get("/v1/state", params={**query, "key": "7", "namespace": '"w"'}).json()
    assert (missing["key"], missing["namespace"], missing["value"]) == (7, "w", None)


def test_a_state_that_does_not_exist_and_a_key_that_is_no_json_are_told_apart(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    query = {"operator": "rotation", "state": "delay"}
    assert_problem(caller.get("/v1/state", params={**query, "key": "1"}), 404, "UnknownState", "rotation")
    assert_problem(caller.get("/v1/state", params={**query, "key": "N1"}), 400, "SpecInvalid", '"N1"')
    for either in ({}, {"key": "1", "slot": "0"}):
        assert_problem(caller.get("/v1/state", params={**query, **either}), 400, "SpecInvalid", "either key")
    assert_problem(caller.get("/v1/state", params={**query, "slot": "-1"}), 422, "InvalidRequest", "slot")


@pytest.mark.parametrize("key", ["N1", "", "{", "NaN", "[Infinity]", "'N1'", "[" * 8000])
def test_a_key_that_is_no_json_is_refused_with_the_value_in_quotes(caller: httpx.Client, key: str) -> None:
    answer = caller.get("/v1/state", params={"operator": "rotation", "state": "delay", "key": key})
    assert_problem(answer, 400, "SpecInvalid", "key is", "not JSON", "needs its quotes")
    assert len(answer.content) < 500


def test_the_word_that_no_earlier_driver_runs_reaches_the_job(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    assert caller.post("/v1/claim").status_code == 202
    assert job.alone


def test_cancel_reaches_the_job(caller: httpx.Client, job: control_job.InMemoryJob) -> None:
    assert caller.post("/v1/cancel").status_code == 202
    assert job.cancelled


@pytest.mark.parametrize(
    ("raised", "status", "reason"),
    [
        (port.NotRunning("the job is recovering"), 503, "NotRunning"),
        (errors.StorageUnavailable("s3://b is away"), 503, "StorageUnavailable"),
        (errors.StorageError("s3://b: there is no bucket"), 502, "StorageError"),
        (errors.StorageRefused("s3://b: AccessDenied"), 502, "StorageRefused"),
        (errors.SlotLost("slot 1 is gone"), 503, "SlotLost"),
        (errors.Fenced("attempt 3 owns the lineage"), 410, "Fenced"),
        (errors.SerializationError("7 is no string"), 400, "SerializationError"),
        (errors.JobFailed("gave up"), 500, "JobFailed"),
    ],
)
def test_errors_of_the_job_become_answers_by_their_kind(
    caller: httpx.Client, job: control_job.InMemoryJob, raised: Exception, status: int, reason: str
) -> None:
    job.raises = raised
    assert_problem(caller.get("/v1/status"), status, reason, str(raised))


def test_an_unexpected_error_tells_its_class_and_no_details(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    job.raises = ZeroDivisionError("internal detail")
    answer = caller.get("/v1/status")
    assert_problem(answer, 500, "InternalError", "ZeroDivisionError")
    assert "internal detail" not in answer.text
    assert answer.headers["x-sparkstate-job-uid"] == "uid-1"


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/", 404, "NotFound"),
        ("GET", "/docs", 404, "NotFound"),
        ("DELETE", "/v1/status", 405, "MethodNotAllowed"),
    ],
)
def test_unknown_paths_and_methods_are_problems_too(
    caller: httpx.Client, method: str, path: str, status: int, reason: str
) -> None:
    assert_problem(caller.request(method, path), status, reason, path)


def test_a_body_above_the_limit_is_refused_whether_its_length_is_announced_or_not(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    body = b'{"trigger_id": "' + b"x" * MAX_BODY_BYTES + b'"}'
    assert_problem(caller.post("/v1/savepoints", content=body), 413, "RequestTooLarge", str(MAX_BODY_BYTES))
    chunked = caller.post("/v1/savepoints", content=iter([body[:1000], body[1000:]]))
    assert_problem(chunked, 413, "RequestTooLarge")
    assert job.requests() == []


@pytest.mark.parametrize("expect", ["", "Expect: nothing known\r\n"])
def test_a_sender_gets_the_refusal_of_a_body_that_it_is_slow_to_send(
    control: server.ControlServer, expect: str
) -> None:
    """Had the server closed the socket over the unread rest, the kernel would have reset the connection, and the
    answer would have been lost."""
    head = (
        f"POST /v1/savepoints HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {control_job.TOKEN}\r\n"
        f"Content-Length: {MAX_BODY_BYTES * 2}\r\n{expect}\r\n"
    )
    with socket.create_connection(("127.0.0.1", control.port), timeout=10) as connection:
        connection.sendall(head.encode())
        for _ in range(8):
            connection.sendall(b"x" * (MAX_BODY_BYTES // 4))
            time.sleep(0.05)
        assert b" 413 " in connection.recv(100)


def test_who_asks_before_sending_too_large_a_body_is_refused_at_once(control: server.ControlServer) -> None:
    head = (
        f"POST /v1/savepoints HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {control_job.TOKEN}\r\n"
        f"Content-Length: {MAX_BODY_BYTES * 2}\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", control.port), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_body_in_several_chunks_below_the_limit_is_read_whole(
    caller: httpx.Client, job: control_job.InMemoryJob
) -> None:
    parts = iter([b'{"trigger_id"', b': "in-', b'parts"}'])
    answer = caller.post("/v1/savepoints", content=parts, headers={"Content-Type": "application/json"})
    assert answer.json()["trigger_id"] == "in-parts"


@pytest.mark.parametrize(("announced", "status"), [(b"10", 408), (b"1000", 413)])
def test_a_slow_body_that_is_announced_as_too_large_is_refused_as_that(monkeypatch, announced, status):
    monkeypatch.setattr(limits, "BODY_S", 0.05)
    sent = []

    async def never():
        await asyncio.sleep(30)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "headers": [(b"content-length", announced)]}
    asyncio.run(limits.BodyLimit(None, max_bytes=100)(scope, never, send))
    assert sent[0]["status"] == status
