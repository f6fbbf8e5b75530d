"""The life of the endpoint: ports, threads, concurrency."""

from __future__ import annotations

import concurrent.futures
import contextlib
import socket
import threading
import time

import httpx
import pytest

from sparkstate import errors, keys
from sparkstate.control import client, connections, documents, limits, server
from sparkstate_tools.drivers import control_job


def test_a_port_in_use_is_an_error_of_the_caller(control: server.ControlServer) -> None:
    with pytest.raises(errors.SpecInvalid, match=rf"127\.0\.0\.1:{control.port}.*choose a free port"):
        server.ControlServer(control_job.InMemoryJob(), keys.of_token(control_job.TOKEN), port=control.port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(errors.SpecInvalid, match=r"192\.0\.2\.1"):
        server.ControlServer(control_job.InMemoryJob(), keys.of_token(control_job.TOKEN), host="192.0.2.1")


def test_listening_on_all_interfaces_gives_an_address_that_can_be_reached() -> None:
    with server.ControlServer(
        control_job.InMemoryJob(), keys.of_token(control_job.TOKEN), host="0.0.0.0"
    ) as running:
        assert running.address == f"http://127.0.0.1:{running.port}"
        assert httpx.get(running.address + "/livez", trust_env=False).status_code == 200


def test_stopping_frees_the_port_and_ends_the_thread_and_may_be_done_twice() -> None:
    before = set(threading.enumerate())
    running = server.ControlServer(control_job.InMemoryJob(), keys.of_token(control_job.TOKEN))
    running.start()
    assert set(threading.enumerate()) > before
    number = running.port
    running.stop()
    running.stop()
    assert set(threading.enumerate()) <= before
    with socket.create_server(("127.0.0.1", number)):
        pass


def test_a_server_that_never_started_has_its_address_and_frees_it() -> None:
    made = server.ControlServer(control_job.InMemoryJob(), keys.of_token(control_job.TOKEN))
    number = made.port
    assert made.address == f"http://127.0.0.1:{number}"
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", number))
    made.stop()
    with socket.create_server(("127.0.0.1", number)):
        pass


def test_probes_answer_while_every_worker_thread_is_busy(
    control: server.ControlServer, job: control_job.InMemoryJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    entered = threading.Semaphore(0)

    def slow() -> documents.JobStatus:
        entered.release()
        assert release.wait(20)
        return job.current

    monkeypatch.setattr(job, "status", slow)
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        headers = {"Authorization": f"Bearer {control_job.TOKEN}"}
        with httpx.Client(
            base_url=control.address, headers=headers, limits=httpx.Limits(max_connections=60), timeout=30
        ) as http:
            waiting = [pool.submit(http.get, "/v1/status") for _ in range(50)]
            for _ in range(30):
                assert entered.acquire(timeout=20)
            assert httpx.get(control.address + "/livez", timeout=5, trust_env=False).status_code == 200
            release.set()
            assert {done.result().status_code for done in waiting} == {200}


def test_headers_above_the_limit_end_the_connection_without_reaching_the_job(
    control: server.ControlServer, stranger: httpx.Client
) -> None:
    try:
        answer = stranger.get("/v1/status", headers={"X-Large": "x" * (4 * server.MAX_HEADER_BYTES)})
    except httpx.HTTPError:
        pass
    else:
        assert answer.status_code in (400, 431)
    assert stranger.get("/livez").status_code == 200


def test_a_head_above_the_limit_is_refused_even_if_it_comes_in_one_packet(stranger: httpx.Client) -> None:
    limit = server.MAX_HEADER_BYTES
    assert stranger.get("/livez", headers={"X-Large": "x" * (limit - 1000)}).status_code == 200
    for path, large in (("/livez", "x" * limit), ("/livez?" + "x" * limit, "")):
        assert stranger.get(path, headers={"X-Large": large}).status_code == 431


def test_a_request_that_the_servers_end_overtakes_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GRACE_S", 0.1)
    running = server.ControlServer(control_job.InMemoryJob(), keys.of_token(control_job.TOKEN))
    running.start()
    head = f"POST /v1/savepoints HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {control_job.TOKEN}\r\n"
    with socket.create_connection(("127.0.0.1", running.port), 10) as waiting:
        waiting.sendall(f"{head}Expect: 100-continue\r\nContent-Length: 50\r\n\r\n".encode())
        assert b"100 Continue" in waiting.recv(4096)  # its body is waited for
        running.stop()
        answer = b"".join(iter(lambda: waiting.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 503") and "x-sparkstate-attempt" in answer
    assert '"error":"the driver is ending","reason":"NotRunning"' in answer


def test_trigger_ids_made_by_default_are_valid_and_all_different() -> None:
    made = {server.random_id() for _ in range(100)}
    assert len(made) == 100
    assert all(documents.SavepointRequest(trigger_id=one).trigger_id == one for one in made)


def test_savepoints_of_several_callers_with_one_trigger_id_start_once(
    control: server.ControlServer, job: control_job.InMemoryJob
) -> None:
    def trigger(_: int) -> documents.SavepointStatus:
        with client.ControlClient(control.address, control_job.TOKEN) as talking:
            return talking.trigger_savepoint(documents.SavepointRequest(trigger_id="one"))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(trigger, range(8)))
    assert len(answers) == 1
    assert len(job.requests()) == 1


def opened(control: server.ControlServer, stack: contextlib.ExitStack, source: str) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", control.port), 5, source_address=(source, 0))
    return stack.enter_context(made)


@pytest.mark.fault(
    broken="{strangers} addresses open 300 connections, send no request or a byte now and then, and keep them",
    when="the kubelet and a caller with the token ask",
    expected="both are answered at once",
)
@pytest.mark.fault_on("a driver")
@pytest.mark.parametrize("strangers", [1, 20])
def test_idle_connections_keep_nobody_from_an_answer(
    control: server.ControlServer, caller: httpx.Client, strangers: int
) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(300):
            one = opened(control, stack, f"127.0.1.{number % strangers + 1}")
            if number % 2:
                with contextlib.suppress(OSError):
                    one.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        for _ in range(5):
            assert httpx.get(control.address + "/livez", timeout=5, trust_env=False).status_code == 200
            assert caller.get("/v1/status", timeout=5).status_code == 200


def test_a_head_that_never_ends_is_not_waited_for(
    control: server.ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.5)
    with contextlib.ExitStack() as stack:
        slow = opened(control, stack, "127.0.0.1")
        slow.sendall(b"GET /livez HTTP/1.1\r\n")
        assert is_cut(slow, 10)


@pytest.mark.fault(
    broken="a caller with the token sends a body a byte at a time, without an end",
    when="200 of them, from one address",
    expected="each is refused in time; the kubelet and other callers are answered meanwhile",
)
@pytest.mark.fault_on("a driver")
def test_a_body_that_drips_is_refused_in_time_and_holds_nobody_up(
    control: server.ControlServer, caller: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_S", 1.0)
    head = f"POST /v1/savepoints HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {control_job.TOKEN}\r\n"
    with contextlib.ExitStack() as stack:
        dripping = [opened(control, stack, "127.0.2.1") for _ in range(100)]
        for one in dripping:
            one.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        assert httpx.get(control.address + "/livez", timeout=5, trust_env=False).status_code == 200
        assert caller.get("/v1/status", timeout=5).status_code == 200
        begun = time.monotonic()
        dripping[0].settimeout(10)
        while not (answer := _said(dripping[0])) and time.monotonic() - begun < 10:
            with contextlib.suppress(OSError):
                dripping[0].sendall(b" ")
        assert answer.startswith(b"HTTP/1.1 408")
        assert is_cut(dripping[1], 10)


def _said(connection: socket.socket) -> bytes:
    connection.settimeout(0.1)
    try:
        return connection.recv(100)
    except TimeoutError:
        return b""


def is_cut(slow: socket.socket, patience_s: float) -> bool:
    """Whether the other side ends the connection, to which a byte goes now and then."""
    begun = time.monotonic()
    while time.monotonic() - begun < patience_s:
        try:
            slow.sendall(b"X")
        except OSError:
            return True
        time.sleep(0.1)
    return False
