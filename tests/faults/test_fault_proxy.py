"""The proxy itself: what it breaks is decided by its seed, and it breaks what it says."""

from __future__ import annotations

import http.client
import threading

import pytest

from sparkstate import errors
from sparkstate.settings import S3Settings
from sparkstate.storage import open_store
from sparkstate.storage.retrying import RetryPolicy
from sparkstate_tools.servers.fault_proxy import KINDS, LOST, FaultProxy, Schedule, kind_of
from sparkstate_tools.servers.http_wire import Message


def request(method="PUT", path="/state/a/log/1", **headers):
    return Message((method, path, "HTTP/1.1"), headers, b"", b"body")


CONDITIONAL = request(**{"if-none-match": "*"})


def test_a_seed_repeats_its_faults_and_another_has_others():
    def story(seed):
        schedule = Schedule(seed, rate=0.5)
        return [schedule.fault(CONDITIONAL, number) for number in range(50)]

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_the_rate_decides_how_many_requests_break():
    schedule = Schedule(7, rate=0.2)
    broken = sum(schedule.fault(CONDITIONAL, number) is not None for number in range(2000))
    assert 300 < broken < 500
    assert Schedule(7, rate=0.0).fault(CONDITIONAL, 1) is None


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_a_real_server_could_answer_is_answered(kind):
    def possible(message):
        return Schedule(1, rate=1.0, kinds=(kind,)).fault(message, 1) is not None

    assert possible(CONDITIONAL)
    assert possible(request("GET")) == (not kind.endswith(("409", "412")))
    assert possible(request("PUT")) == (not kind.endswith("412"))


def test_requests_of_one_kind_are_those_that_differ_in_random_parts_only():
    first = request(path="/state/0123456789abcdef/chk-1/1-1-0123456789abcdef?partNumber=1&uploadId=abc")
    second = request(path="/state/fedcba9876543210/chk-1/1-1-fedcba9876543210?partNumber=1&uploadId=xyz")
    assert kind_of(first) == kind_of(second)
    assert kind_of(first) != kind_of(request(path="/state/0123456789abcdef/chk-2/1-2-0123456789abcdef"))


class Server(threading.Thread):
    """Answers each PUT with 200 and remembers its body."""

    def __init__(self):
        super().__init__(daemon=True)
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        bodies = self.bodies = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if len(body) == int(self.headers["Content-Length"]):
                    bodies.append(body)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def run(self):
        self.server.serve_forever()


@pytest.fixture
def behind():
    server = Server()
    server.start()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.mark.parametrize(
    ("kind", "carried_out", "answer"),
    [
        *[(kind, False, int(kind)) for kind in ("409", "412", "500", "503")],
        *[(kind, True, int(kind[-3:])) for kind in LOST],
        ("cut-before", False, None),
        ("cut-request", False, None),
        ("cut-after", True, None),
        ("late", True, None),
        ("slow", True, 200),
    ],
)
def test_a_fault_is_what_its_name_says(behind, kind, carried_out, answer):
    with FaultProxy(behind.server.server_address[1]) as proxy:
        proxy.use(Schedule(1, rate=1.0, kinds=(kind,)))
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
        try:
            connection.request("PUT", "/a", body=b"whole body", headers={"If-None-Match": "*"})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            status = None
        connection.close()
        proxy.drain()
        assert status == answer
        assert behind.bodies == ([b"whole body"] if carried_out else [])
        assert proxy.happened == [f"PUT /a (number 1): {kind}"]


@pytest.mark.s3
def test_after_the_cut_nothing_reaches_the_server_until_it_heals(s3):
    with FaultProxy(s3.port) as proxy:
        settings = S3Settings(endpoint=proxy.endpoint, region="us-east-1", path_style=True)
        store = open_store("s3://state/proxy", settings, retry=RetryPolicy(attempts=1))
        store.put_if_absent("a", b"1")
        proxy.cut_off_after(1)
        assert store.get("a") == b"1"
        with pytest.raises(errors.StorageUnavailable):
            store.put_if_absent("b", b"2")
        proxy.heal()
        store.put_if_absent("b", b"2")
