"""Health and metrics over HTTP, in a thread of its own, so that it answers even while the event loop hangs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

IDLE_S = 15.0
"""A connection that says nothing for so long is closed: each has a thread, and anybody may open some."""


def _both(host: str) -> bool:
    return host == "" and socket.has_dualstack_ipv6()


class Web:
    """``/livez``, ``/readyz`` and ``/metrics`` on ``host:port``. An empty host means every address of both families,
    because the cluster chooses which of them a pod has; port 0 takes a free one."""

    def __init__(
        self,
        host: str,
        port: int,
        alive: Callable[[], str],
        ready: Callable[[], str],
        metrics: Callable[[], bytes],
        idle_s: float = IDLE_S,
    ) -> None:
        routes = {"/livez": alive, "/readyz": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = idle_s

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self._answer(200, metrics(), "text/plain; version=0.0.4; charset=utf-8")
                elif path in routes:
                    wrong = routes[path]()
                    self._answer(503 if wrong else 200, (wrong or "ok").encode(), "text/plain; charset=utf-8")
                else:
                    self._answer(404, b"", "text/plain")

            def _answer(self, status: int, body: bytes, content: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing: probes come every few seconds."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host or _both(host) else socket.AF_INET

            def server_bind(self) -> None:
                if self.address_family == socket.AF_INET6:
                    self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not _both(host)))
                super().server_bind()

        self._server = Server((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="web", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
