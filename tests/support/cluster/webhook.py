"""An admission webhook of the tests: it lets objects of one namespace pass, refuses them, or fails itself."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.kubernetes.control_plane import ADDRESS

Mood = Literal["passes", "refuses", "fails"]
NAME = "tests.sparkstate.io"


class Webhook(ThreadingHTTPServer):
    """Answers every AdmissionReview by its ``mood``."""

    daemon_threads = True
    mood: Mood = "passes"
    asked = 0
    """Reviews so far."""

    def answer(self, review: dict[str, Any]) -> dict[str, Any]:
        """The review with the verdict."""
        verdict: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": self.mood == "passes"}
        if self.mood == "refuses":
            verdict["status"] = {"code": 403, "message": "no pods before lunch"}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": verdict}


class _Handler(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        """One review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        if self.server.mood == "fails":
            self.send_error(500)
            return
        body = json.dumps(self.server.answer(review)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Address = tuple[str, int]
PODS = {"apiGroups": [""], "resources": ["pods"]}
JOBS = {"apiGroups": ["batch"], "resources": ["jobs"]}


def _direct(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


@contextlib.contextmanager
def judging(
    cluster: Cluster,
    namespace: str,
    *,
    objects: dict[str, Any] = PODS,
    reached_by: Callable[[Address], str] = _direct,
) -> Iterator[Webhook]:
    """A webhook that the API server asks about each new one of these objects of that namespace; without its answer
    there is none. ``reached_by``: the host and port by which the API server reaches an address of this machine."""
    assert cluster.plane is not None
    authority = cluster.plane.authority
    pair = authority.server(f"webhook-{namespace}", [f"IP:{ADDRESS}", "IP:127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    with Webhook(("127.0.0.1", 0), _Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://{reached_by(('127.0.0.1', server.server_address[1]))}/judge"
        bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
        cluster.apply(_configuration(namespace, objects, url, bundle))
        try:
            yield server
        finally:
            cluster.kubectl("delete", "validatingwebhookconfiguration", NAME)
            server.shutdown()


def _configuration(namespace: str, objects: dict[str, Any], url: str, bundle: str) -> dict[str, Any]:
    created = {**objects, "apiVersions": ["v1"], "operations": ["CREATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": NAME,
                "clientConfig": {"url": url, "caBundle": bundle},
                "rules": [created],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 5,
            }
        ],
    }
