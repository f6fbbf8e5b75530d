"""The slot's sockets: connections that have proved themselves, a thread each, requests answered in order.

``answers`` has the answers. They change once, when the plan comes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cloudpickle

from sparkstate import clock, errors, local_disk, user_errors
from sparkstate.slots import handshake, protocol
from sparkstate.slots.answers import ConfiguredSlot, UnconfiguredSlot
from sparkstate.slots.channel import Channel
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.runtime import SlotRuntime

_PROOF_S: Final = 10.0
"""For the whole handshake, however its bytes come."""
MAX_UNPROVEN: Final = 64
"""Connections that have not proved themselves, each of which holds a thread; one more waits, or ends the oldest."""
_PROMPT_S: Final = 1.0
"""A connection younger than this is not ended for another one: all tasks of a large cluster may come at once."""
_AGAIN_S: Final = 0.05
"""After a connection that could not be accepted: what it lacked may be there in a moment."""


class SlotServer:
    """Listens on a Unix socket and, if asked, on TCP. ``make_runtime`` builds the runtime once the plan is known.

    ``key``: the attempt's, for slots. ``identity``: of this process, told to its callers.
    """

    def __init__(
        self,
        key: str,
        identity: str,
        unix_path: Path,
        tcp_host: str | None,
        make_runtime: Callable[[SlotPlan], SlotRuntime],
        clock: clock.Clock,
    ) -> None:
        self._key = key
        self._identity = identity
        self._clock = clock
        self._make_runtime = make_runtime
        self._unproven: dict[socket.socket, float] = {}
        """With the time when each came, the oldest first."""
        self._lock = threading.Lock()
        self._proven = threading.Condition(self._lock)
        self._was_configured = False
        self._failures = _LoggedFailures()
        self.slot: UnconfiguredSlot | ConfiguredSlot = UnconfiguredSlot()
        self.stopped = threading.Event()
        self._listeners = [_listen_unix(unix_path)]
        self.tcp_port = 0
        if tcp_host is not None:
            family = socket.AF_INET6 if ":" in tcp_host else socket.AF_INET
            listener = socket.create_server((tcp_host, 0), family=family)
            self.tcp_port = listener.getsockname()[1]
            self._listeners.append(listener)

    def start(self) -> None:
        """Accept connections in the background."""
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Close listeners and runtime."""
        self._close_listeners()
        self.slot.close()

    def end(self) -> None:
        """As :meth:`close`, for a process that ends at once."""
        self._close_listeners()
        self.slot.end()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        """Until it is closed. One connection that fails ends no more than itself: the kernel would go on to take
        callers, and each of them would wait in vain."""
        while listener.fileno() != -1:
            try:
                connection, _ = listener.accept()
            except OSError:  # no file descriptor is free, or the caller has left
                self._clock.sleep(_AGAIN_S)
                continue
            self._make_room(connection)
            try:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except RuntimeError:  # no thread is left; the caller sees the end, and may come again
                self._forget(connection)
                connection.close()

    def _make_room(self, connection: socket.socket) -> None:
        """Among those that have not proved themselves."""
        with self._proven:
            while len(self._unproven) >= MAX_UNPROVEN:
                oldest, came = next(iter(self._unproven.items()))
                young_s = came + _PROMPT_S - self._clock.monotonic()
                if young_s > 0:
                    self._proven.wait(young_s)
                    continue
                del self._unproven[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread sees the end, and closes it
            self._unproven[connection] = self._clock.monotonic()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, errors.SlotLost), connection:
            try:
                role, channel = self._prove(connection)
            finally:
                self._forget(connection)
            self._serve_proven(role, channel)

    def _forget(self, connection: socket.socket) -> None:
        """It is no longer among those that have not proved themselves."""
        with self._proven:
            self._unproven.pop(connection, None)
            self._proven.notify_all()

    def _prove(self, connection: socket.socket) -> tuple[handshake.Role, Channel]:
        deadline = self._clock.monotonic() + _PROOF_S
        found = handshake.answer(
            connection, self._key, self._identity, lambda: deadline - self._clock.monotonic()
        )
        connection.settimeout(None)
        return found

    def _serve_proven(self, role: handshake.Role, connection: Channel) -> None:
        with contextlib.suppress(OSError, errors.SlotLost):
            while not self.stopped.is_set():
                request = protocol.receive_request(connection)
                if type(request) not in protocol.ALLOWED[role]:
                    return
                try:
                    self._answer(connection, request)
                except errors.SparkstateError as error:
                    self._failures.log(error)
                    protocol.send(connection, protocol.Failed(reason=error.reason, message=str(error)))
                except SystemExit as error:  # it would end this thread, and the slot would count as lost
                    protocol.send(connection, protocol.Failed(reason="UserCodeError", message=_left(error)))
                except (
                    Exception
                ) as error:  # a bug of ours: said, not swallowed; but the slot is not lost by it
                    protocol.send(connection, _unexpected(error))

    def _answer(self, connection: Channel, request: protocol.Request) -> None:
        if isinstance(request, protocol.Configure):
            self._configure(request)
            protocol.send(connection, protocol.Ok())
        elif isinstance(request, protocol.Stop):
            protocol.send(connection, protocol.Ok())
            self.stopped.set()
        else:
            self.slot.answer(connection, request)

    def _configure(self, request: protocol.Configure) -> None:
        """Unpickling runs code, so it is done for one plan in a slot's life, whatever becomes of it."""
        with self._lock:
            if self._was_configured:
                raise errors.SlotLost("this slot has its plan already, and takes no other")
            self._was_configured = True
        self.slot = ConfiguredSlot(self._make_runtime(unpickled(request.plan)))


class _LoggedFailures:
    """Logs where the user's code raised, once for each failure: that of an attempt is the answer to all its tasks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged: weakref.WeakSet[errors.SparkstateError] = weakref.WeakSet()

    def log(self, failure: errors.SparkstateError) -> None:
        """Write the stack of the user's error behind ``failure`` to standard error, if there is one."""
        raised = failure.__cause__
        if raised is None or not isinstance(failure, errors.UserCodeError | errors.DeclarationError):
            return
        with self._lock:
            is_new = failure not in self._logged
            self._logged.add(failure)
        if is_new and user_errors.line_of(raised):
            user_errors.log_stack(raised)


def _unexpected(error: Exception) -> protocol.Failed:
    """No mistake of ours is a disk that is full, and any file may be the one that it has no room for."""
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and local_disk.is_full(told):
        full = local_disk.translated(error, "writing a file of a slot")
        return protocol.Failed(reason=full.reason, message=str(full))
    return protocol.Failed(reason=errors.SparkstateError.__name__, message=told)


def _left(error: SystemExit) -> str:
    return (
        f"the job's code called sys.exit({error.code!r}) in a slot, which serves the job until its driver ends it; "
        "raise an exception instead"
    )


def unpickled(data: bytes) -> Any:
    """Something with the job's functions in it. Raises ``DeclarationError`` if they can be loaded in no slot."""
    try:
        return cloudpickle.loads(data)
    except (Exception, SystemExit) as error:
        told = f"the job's functions cannot be loaded in a slot: {type(error).__name__}: {error}"
        if not isinstance(error, (ImportError, AttributeError, NameError, SyntaxError)):
            raise errors.SparkstateError(told) from error  # memory, a disk: another slot may load them
        raise errors.DeclarationError(
            f"{told}; what they import must be in the image, or in modules beside the job's file"
        ) from error


def _listen_unix(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise errors.SpecInvalid(
            f"cannot listen on {path}: {error}; the working directory's path may be too long for a Unix socket "
            "(about 100 characters): choose a shorter --work-dir"
        ) from error
    path.chmod(0o600)
    listener.listen(64)
    return listener
