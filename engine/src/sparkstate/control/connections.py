"""Bounds on connections, so that nobody keeps the kubelet's probes, or anybody else, from being answered.

A connection without a request costs its maker nothing, so there may be any number of them: at 256 idle ones the
kubelet's probe was refused. So the newest is always let in, and the peer with the most loses its oldest idle one. A
peer that does not read its answers is idle too: such connections stayed for good, and nobody else of that address was
let in. A probe's answer needs neither a thread nor a token, so a probe that is let in is answered.

Nothing that a stranger sends makes a line in the driver's log, which the page shows the end of.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http import h11_impl

MAX_CONNECTIONS: Final = 256
"""Idle ones are closed beyond that."""
MAX_OF_PEER: Final = 128
"""Of one address."""
IDLE_S: Final = 15.0
"""For so long a connection may be without a whole head of a request, however many bytes of it come, and for so long its
peer may leave an answer unread."""

_log = logging.getLogger("sparkstate.control.connections")
"""Of what goes wrong in the application. Warnings are about what somebody sent."""
_log.setLevel(logging.ERROR)


class BoundedProtocol(h11_impl.H11Protocol):
    """HTTP without an access log, whatever the process does with the global logger that uvicorn asks.

    Paths and queries hold keys of the job's data, and a token that someone put into a query by mistake.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False
        self.logger = _log
        self._opened = self.loop.time()
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> str:
        """The other side's address."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered, or the peer does not take the answer."""
        unread = self.flow.write_paused or self.transport.is_closing()
        return unread or self.cycle is None or self.cycle.response_complete

    @property
    def is_gone(self) -> bool:
        """Whether it is closed. A closing one with an answer that the peer does not take stays open."""
        return self.transport.is_closing() and not self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn's; a peer that holds too many loses one first."""
        super().connection_made(transport)
        self._expire_later()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's."""
        if self._expiry is not None:
            self._expiry.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """As uvicorn's; the connection is idle from now on."""
        self._expire_later()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """As uvicorn's, unless another answer has begun: it cannot be in the middle of that, nor that behind it."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """As uvicorn's; more of the answer waits for the peer than is sent ahead."""
        super().pause_writing()
        self._expire_later()

    def _expire_later(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self.loop.call_later(IDLE_S, self._expire)

    def _expire(self) -> None:
        if self.is_idle:
            self.transport.abort()

    def _make_room(self) -> None:
        living = [one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self
                  and not one.is_gone]  # fmt: skip
        held = Counter(one.peer for one in living)
        if held[self.peer] >= MAX_OF_PEER:
            crowd = [one for one in living if one.peer == self.peer]
            if not any(one.is_idle for one in crowd):
                self.transport.abort()
        elif len(living) >= MAX_CONNECTIONS:
            crowd = sorted(living, key=lambda one: -held[one.peer])
            largest = next((one.peer for one in crowd if one.is_idle), None)
            crowd = [one for one in crowd if one.peer == largest]
        else:
            return
        idle = [one for one in crowd if one.is_idle]
        if idle:
            min(idle, key=lambda one: one._opened).transport.abort()
