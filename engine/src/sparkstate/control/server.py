"""The endpoints' life: a listening socket and a daemon thread with an event loop.

The socket is bound when the server is made, so a port in use is an error for the caller and not in a thread, and port 0
gives a real address at once.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import uvicorn
from starlette.types import ASGIApp

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.control import app, connections, limits, metrics, port, scraping
from sparkstate.keys import Keys

_LARGEST_PORT: Final = 65_535

MAX_HEADER_BYTES: Final = 32 * 1024
START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 5.0
GRACE_S = 2
"""For requests that are being answered when the server stops."""
ANY: Final = ""
"""The host that stands for every address, of IPv4 and of IPv6: which of them a pod has is its cluster's choice."""


def random_id() -> str:
    """A trigger id that nobody else makes: 128 random bits in hex."""
    return secrets.token_hex(16)


class HttpServer:
    """Serves ``application`` at ``host:port``, port 0 for any; ``what`` names it in errors and as a thread.

    Raises ``SpecInvalid`` for an address that cannot be bound. Callers wait from then on, and are answered from
    :meth:`start` on. Whoever makes a server stops it.
    """

    def __init__(self, application: ASGIApp, host: str, port: int, what: str) -> None:
        self._host = host
        self._what = what
        self._server = uvicorn.Server(_config(limits.HeadLimit(application, MAX_HEADER_BYTES)))
        self._socket = _bind(host, port, what)
        self._port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(
            target=self._serve, name=f"sparkstate-{what.replace(' ', '-')}", daemon=True
        )

    def start(self) -> None:
        """Serve; returns when requests are answered."""
        self._thread.start()
        self._await_start()

    @property
    def port(self) -> int:
        """The port in use."""
        return self._port

    @property
    def address(self) -> str:
        """URL by which this machine reaches the endpoint, without a trailing slash."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", ANY: "127.0.0.1"}.get(self._host, self._host)
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    def stop(self) -> None:
        """Let running requests end (a few seconds at most), close the socket. May be called twice."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_S)
            self._server.force_exit = True
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _await_start(self) -> None:
        waiting = threading.Event()
        for _ in range(int(START_TIMEOUT_S * 100)):
            if self._server.started:
                return
            waiting.wait(0.01)
        self.stop()
        raise errors.SparkstateError(f"the {self._what} did not start within {START_TIMEOUT_S:.0f} s")


class ControlServer(HttpServer):
    """Serves one job's control endpoint and page.

    ``keys`` are what callers send; they are kept nowhere else and never shown. ``metrics`` takes the driver's
    observations of epochs and checkpoints.
    """

    def __init__(
        self,
        job: port.JobControl,
        keys: Keys,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        clock: clocks.Clock | None = None,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.metrics = metrics.JobMetrics(job, clock or clocks.SystemClock())
        application = app.create_app(job, self.metrics, keys, new_id)
        super().__init__(application, host, port, "control endpoint")


class MetricsServer(HttpServer):
    """Serves the metrics of ``control`` alone, without a token."""

    def __init__(self, control: ControlServer, host: str, port: int, clock: clocks.Clock) -> None:
        super().__init__(
            scraping.MetricsApp(control.metrics.render_open, clock), host, port, "port for metrics"
        )


def _config(application: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        lifespan="off",
        ws="none",
        http=connections.BoundedProtocol,
        loop="asyncio",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=int(connections.IDLE_S),
        timeout_graceful_shutdown=GRACE_S,
    )


def parse(listen: str) -> tuple[str, int]:
    """Host and port of ``host:port``, ``[IPv6 address]:port``, or ``:port``, which means every address of both
    families. Raises ``SpecInvalid``."""
    host, colon, number = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_port = number.isascii() and number.isdecimal() and len(number) <= 5 and int(number) <= _LARGEST_PORT
    if not colon or not is_port or (":" in bare and bare == host) or "[" in bare:
        raise errors.SpecInvalid(
            f"--listen is {listen!r}; it must be host:port, [IPv6 address]:port, or :port for every address, with a "
            f"port from 0 to {_LARGEST_PORT}"
        )
    return bare, int(number)


def _bind(host: str, number: int, what: str) -> socket.socket:
    if host == ANY:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
    else:
        both, family = False, socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, number), family=family, dualstack_ipv6=both)
    except (OSError, UnicodeError) as exc:  # the latter of a host that no name can be
        why = getattr(exc, "strerror", None) or exc
        raise errors.SpecInvalid(
            f"the {what} cannot listen on {host}:{number} ({why}); choose a free port, or 0 for any"
        ) from exc
