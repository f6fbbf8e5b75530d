"""The endpoint's questions to a running job. The driver implements them; tests do so in memory.

Calls come from several threads of the server. All of them except :meth:`JobControl.is_live`,
:meth:`JobControl.is_ready` and :meth:`JobControl.identity` may take their time, but must come back: the server has a
bounded number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from sparkstate import errors
from sparkstate.control import documents, picture
from sparkstate.settings import SavepointFormat


class TriggerConflict(errors.SparkstateError):
    """The trigger id is known with other parameters. Answered with 409."""


class UnknownState(errors.SparkstateError):
    """There is no operator or state of that name. Answered with 404."""


class TooManyRequests(errors.SparkstateError):
    """So many of that kind wait already that this one was not taken. Answered with 429."""


class NotRunning(errors.SparkstateError):
    """The job is in a phase that cannot serve the request now (recovering, stopping). Answered with 503."""


@dataclass(frozen=True)
class Sample:
    """One native metric: ``name`` in the backend's spelling (``estimate-num-keys``), labels like ``slot``."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SlotMetric:
    """A metric that a function made, as one slot tells it."""

    slot: int
    metric: documents.UserMetric


@dataclass(frozen=True, kw_only=True)
class SavepointTrigger:
    """A request for a savepoint under the id by which the job knows it from now on: the caller's, or the server's."""

    trigger_id: str
    target_directory: str | None = None
    """URL of the folder for savepoints; None: the job's own."""
    stop: bool = False
    """Stop the job with the savepoint."""
    drain: bool = False
    """With ``stop``: fire all event-time timers first."""
    format_type: SavepointFormat = "canonical"
    """The form of its state."""


class JobControl(Protocol):
    """A job as seen from outside. Its ``errors.SparkstateError`` decide the status code by their kinds."""

    def identity(self) -> documents.JobIdentity:
        """Constant for the life of the driver; returns at once."""

    def status(self) -> documents.JobStatus:
        """The whole state of the job now."""

    def checkpoints(self) -> Sequence[documents.CheckpointInfo]:
        """Checkpoints and savepoints, oldest first, a bounded history with the one in progress."""

    def checkpoint(self, checkpoint_id: int) -> documents.CheckpointInfo | None:
        """One of :meth:`checkpoints`, or None."""

    def trigger_checkpoint(self) -> int:
        """Ask for a checkpoint at the next end of an epoch. Returns its id, or that of one in progress.

        Raises :class:`NotRunning` if no checkpoint can come any more.
        """

    def trigger_savepoint(self, request: SavepointTrigger) -> documents.SavepointStatus:
        """Begin, and return at once. Idempotent by ``request.trigger_id``, also over restarts.

        Raises :class:`TriggerConflict` for a known id with another target, ``stop``, ``drain`` or format, and
        :class:`NotRunning` if no savepoint can be taken any more.
        """

    def savepoint(self, trigger_id: str) -> documents.SavepointStatus | None:
        """From memory, else from the storage (a request may have been answered by an earlier driver).

        Raises ``StorageUnavailable`` if that does not answer in time.
        """

    def key_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> documents.KeyState:
        """Committed state of one key; ``key`` is a list for several key columns.

        Raises :class:`UnknownState`.
        """

    def operator_state(self, uid: str, state: str, slot: int) -> documents.KeyState:
        """Committed operator state of one slot.

        Raises :class:`UnknownState`.
        """

    def graph(self) -> picture.JobGraph:
        """The job's operators with their figures; empty before the job has declared itself."""

    def series(self, after: int) -> picture.Series:
        """The points of the last hour with numbers above ``after``."""

    def log(self, source: str) -> picture.LogTail | None:
        """The last lines of the log of ``driver`` or ``slot-N``; None: there is no such log."""

    def cancel(self) -> None:
        """Stop without a savepoint, after the epoch that runs; returns at once."""

    def claim(self) -> None:
        """No driver of an earlier attempt runs any more: one that waits for their end need not; returns at once."""

    def is_live(self) -> bool:
        """Whether epochs make progress (or need not). Returns at once and takes no lock that an epoch holds: slow
        is not dead."""

    def is_ready(self) -> bool:
        """Whether the job runs. Returns at once, as :meth:`is_live`."""

    def metrics(self) -> Iterable[Sample]:
        """Native metrics of the state backend that were switched on."""

    def user_metrics(self) -> Iterable[SlotMetric]:
        """Metrics that the job's functions made, slot by slot."""
