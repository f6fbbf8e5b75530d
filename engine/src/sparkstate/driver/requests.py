"""Requests of people to a running job: savepoints, a checkpoint, the end. They survive incarnations; thread-safe."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass

from sparkstate.control import port
from sparkstate.control.documents import SavepointPhase, SavepointStatus
from sparkstate.control.port import SavepointTrigger
from sparkstate.cut_text import FAILURE, cut

MOST_OPEN = 100
"""Savepoints that wait for their turn; more are refused."""
MOST_ENDED = 1000
"""Ended requests that are remembered. The log lists completed ones besides."""


@dataclass
class RequestedSavepoint:
    """A request and what became of it."""

    request: SavepointTrigger
    answer: SavepointStatus

    @property
    def open(self) -> bool:
        """Whether it still waits for its end."""
        return self.answer.status in (SavepointPhase.PENDING, SavepointPhase.IN_PROGRESS)


class Requests:
    """Savepoints by trigger id, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._savepoints: dict[str, RequestedSavepoint] = {}
        self._checkpoint = False
        self.cancelled = threading.Event()
        self.terminated = threading.Event()
        """The process has to end soon: a last checkpoint if there is time, then out."""
        self.alone = threading.Event()
        """No driver of an earlier attempt runs any more."""

    def add(self, request: SavepointTrigger) -> SavepointStatus:
        """Note a request, or answer for the one of the same trigger id.

        Raises ``TriggerConflict`` if that one asked for something else.
        """
        with self._lock:
            known = self._savepoints.get(request.trigger_id)
            if known is None:
                self._make_room()
                status = SavepointStatus(
                    trigger_id=request.trigger_id,
                    status=SavepointPhase.PENDING,
                    stop=request.stop,
                    drain=request.drain,
                )
                self._savepoints[request.trigger_id] = RequestedSavepoint(request, status)
                return status
            if known.request != request:
                asked = {name: value for name, value in asdict(known.request).items() if name != "trigger_id"}
                raise port.TriggerConflict(
                    f"trigger id {request.trigger_id!r} was used for another request ({asked}); choose another id"
                )
            return known.answer

    def _make_room(self) -> None:
        ended = [trigger_id for trigger_id, pending in self._savepoints.items() if not pending.open]
        if len(self._savepoints) - len(ended) >= MOST_OPEN:
            raise port.TooManyRequests(f"{MOST_OPEN} savepoints wait for their turn; this one was not taken")
        for trigger_id in ended[: max(0, len(ended) - MOST_ENDED + 1)]:
            del self._savepoints[trigger_id]

    def find(self, trigger_id: str) -> SavepointStatus | None:
        """The status for that trigger id, if it was asked for here."""
        with self._lock:
            known = self._savepoints.get(trigger_id)
            return known.answer if known else None

    def open(self) -> tuple[SavepointTrigger, ...]:
        """Those that are not done, oldest first."""
        with self._lock:
            return tuple(pending.request for pending in self._savepoints.values() if pending.open)

    def next_open(self) -> SavepointTrigger | None:
        """The oldest request that is not done."""
        return next(iter(self.open()), None)

    def waiting(self) -> tuple[str, ...]:
        """The trigger ids of those that nobody has begun to serve."""
        with self._lock:
            found = self._savepoints.items()
            return tuple(name for name, each in found if each.answer.status is SavepointPhase.PENDING)

    def update(self, trigger_id: str, phase: SavepointPhase, **changes: object) -> None:
        """Note progress. A request that has ended stays as it is: a thread of an older incarnation may come late, and
        even find it forgotten."""
        if "failure" in changes:
            changes["failure"] = cut(str(changes["failure"]), FAILURE)
        with self._lock:
            pending = self._savepoints.get(trigger_id)
            if pending is not None and pending.open:
                pending.answer = pending.answer.model_copy(update={"status": phase, **changes})

    def wait_again(self) -> None:
        """A new incarnation begins: nobody serves what the one before has left open."""
        with self._lock:
            for pending in self._savepoints.values():
                if pending.open:
                    changes = {"status": SavepointPhase.PENDING, "epoch": None}
                    pending.answer = pending.answer.model_copy(update=changes)

    def fail_open(self, why: str) -> None:
        """The job ended: nobody will serve what is open."""
        with self._lock:
            for pending in self._savepoints.values():
                if pending.open:
                    pending.answer = pending.answer.model_copy(
                        update={"status": SavepointPhase.FAILED, "failure": why}
                    )

    def ending(self) -> bool:
        """Whether the job was asked to end, one way or the other."""
        return self.cancelled.is_set() or self.terminated.is_set()

    def ask_checkpoint(self) -> None:
        """Ask for a checkpoint at the next end of an epoch."""
        with self._lock:
            self._checkpoint = True

    def checkpoint_asked(self) -> bool:
        """Whether a checkpoint is asked for; :meth:`take_checkpoint` takes the wish away."""
        with self._lock:
            return self._checkpoint

    def take_checkpoint(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        with self._lock:
            asked, self._checkpoint = self._checkpoint, False
            return asked
