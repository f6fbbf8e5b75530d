"""An operator that is told to end before its watches have begun."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparkstate_tools.operating import operator_process

LEASE = "/leases"


class Server(ThreadingHTTPServer):
    """An API server with one Lease, which answers nothing else."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lease: dict[str, Any] = {}
        self.listed, self.over = threading.Event(), threading.Event()

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"])


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if LEASE in self.path:
            self._answer(200 if self.server.lease else 404)
        else:
            self.server.listed.set()
            self.server.over.wait(60)

    def do_PUT(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.lease = json.loads(self.rfile.read(length))
        self.server.lease["metadata"]["resourceVersion"] = "1"
        self._answer(200)

    do_POST = do_PUT

    def _answer(self, status: int) -> None:
        text = json.dumps(self.server.lease or {"kind": "Status", "code": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.over.set()
    found.shutdown()
    found.server_close()


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="the operator is told to end while the lists with which it begins are not answered",
    when="it leads already, and watches nothing yet",
    expected="it ends in good order at once, and its Lease is free",
)
def test_a_leader_that_is_told_to_end_during_its_inventory_gives_its_lease_back(
    server: Server, tmp_path: Path
) -> None:
    config = tmp_path / "kubeconfig"
    named = {"cluster": "it", "user": "it"}
    config.write_text(
        json.dumps(
            {
                "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "it", "user": {}}],
                "contexts": [{"name": "it", "context": named}],
                "current-context": "it",
            }
        )
    )
    operator = operator_process.start(config, tmp_path, ["shop"])
    try:
        assert server.listed.wait(60), operator.log.read_text()
        assert server.holder == "operator"
        assert operator.stop() == 0
        assert server.holder == ""
    finally:
        if operator.alive:
            operator.kill()
