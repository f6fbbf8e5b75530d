"""The driver's knowledge of its job right now, for the control endpoint. One lock, short sections, no I/O inside."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkstate import cut_text
from sparkstate.clock import Clock
from sparkstate.control import documents, driver_life, picture, port
from sparkstate.control.documents import CheckpointInfo, CheckpointKind, CheckpointStatus, DriverPhase
from sparkstate.control.driver_life import Transition
from sparkstate.cut_text import cut
from sparkstate.driver import operator_states, user_metrics
from sparkstate.driver.checkpoint_history import CheckpointHistory
from sparkstate.driver.job_graph import Shape
from sparkstate.driver.long_work import LongWork
from sparkstate.driver.operator_figures import WorkedEpochs
from sparkstate.driver.series import SeriesRing
from sparkstate.driver.storage_outages import StorageOutages
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK
from sparkstate.settings import MIB
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.spark.epochs import OperatorResult

_log = logging.getLogger("sparkstate.driver")
RECOVERIES = 100
"""The status document carries them all, and is asked for every few seconds over the job's whole life."""
_NOT_SHOWN = (
    "an operator made more than 100 metrics of its own, and the further ones are not shown: their names are probably "
    "made of data; give metrics fixed names"
)


@dataclass
class _OpenRecovery:
    at_ms: int
    began_s: float
    """By the monotonic clock."""
    cause: str
    restored_from: str | None = None
    incarnation: int = 0


class JobView:
    """Thread-safe. ``happened`` and every ``note_…`` are called by the driver, ``status`` by the endpoint."""

    def __init__(
        self, identity: documents.JobIdentity, name: str, namespace: str, backend: str, clock: Clock
    ) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self.identity = identity
        self._name, self._namespace, self._backend = name, namespace, backend
        self._started_ms = clock.now_ms()
        self._phase = driver_life.BEGIN
        self._waits_for: int | None = None
        self._lineage: str | None = None
        self._incarnation: int | None = None
        self._epoch: int | None = None
        self._rows = self._late_rows = self._dropped_rows = 0
        self._watermark = MIN_WATERMARK
        self._next_event_timer: int | None = None
        self._next_processing_timer: int | None = None
        self._epochs = WorkedEpochs()
        self._shape = Shape()
        self._sizes: tuple[protocol.OperatorSize, ...] = ()
        self.series = SeriesRing(clock)
        self.long_work = LongWork(clock)
        self._slots: tuple[documents.SlotStatus, ...] = ()
        self._native: list[tuple[int, str, float]] = []
        self._user_metrics: tuple[port.SlotMetric, ...] = ()
        self._checkpoints = CheckpointHistory()
        self._restarts = 0
        self._recoveries: deque[documents.Recovery] = deque(maxlen=RECOVERIES)
        self._recovering: _OpenRecovery | None = None
        self._last_failure: documents.Failure | None = None
        self._restored_from: str | None = None
        self._sinks: tuple[str, ...] = ()
        self._notices: tuple[str, ...] = ()
        self._operator_state: documents.OperatorStateNotice | None = None
        self.outages = StorageOutages(clock)
        self._progress_at = clock.monotonic()
        self._work: list[tuple[int, int, int]] = []
        self._on_epoch: Callable[[float], None] = lambda _: None
        self._on_checkpoint: Callable[[CheckpointInfo], None] = lambda _: None

    def observers(
        self, on_epoch: Callable[[float], None], on_checkpoint: Callable[[CheckpointInfo], None]
    ) -> None:
        """Set the listeners for every epoch's duration (seconds) and for every ended checkpoint."""
        self._on_epoch, self._on_checkpoint = on_epoch, on_checkpoint

    # -- notes of the driver ------------------------------------------------------------------------------------

    def happened(self, what: Transition) -> None:
        """The row of the driver's life that has come about; its phase follows."""
        with self._lock:
            if what.after(self._phase) is not self._phase:
                self._progress_at = self._clock.monotonic()
            mistake = self._go(what)
        _log_mistake(mistake)

    def note_progress(self) -> None:
        """The job waits for something that has a limit of its own."""
        with self._lock:
            self._progress_at = self._clock.monotonic()

    def note_waits_for(self, attempt: int | None) -> None:
        """The attempt whose end this driver waits for before it claims the state."""
        with self._lock:
            self._waits_for = attempt

    def note_notices(self, notices: Sequence[str]) -> None:
        """Sentences that a person should know."""
        with self._lock:
            self._notices = (*self._notices, *notices)

    def note_job(self, lineage: str, sinks: Sequence[str], backend: str) -> None:
        """Lineage, sinks, and the backend that the job's code may have chosen."""
        with self._lock:
            self._lineage, self._sinks, self._backend = lineage, tuple(sinks), backend

    def note_shape(self, shape: Shape) -> None:
        """The job has declared its operators."""
        with self._lock:
            self._shape = shape

    def note_incarnation(
        self, number: int, restored_from: str | None, epoch: int | None, checkpoint_id: int | None = None
    ) -> None:
        """A new incarnation begins. The slots of the one before are gone; its own are known when they have answered.
        ``checkpoint_id``: of the snapshot that it goes back to, if that is the lineage's own."""
        with self._lock:
            self._slots, self._user_metrics, self._sizes, self._native = (), (), (), []
            self._incarnation, self._restored_from, self._epoch = number, restored_from, epoch
            if self._recovering is not None:
                self._recovering.restored_from, self._recovering.incarnation = restored_from, number
            self._checkpoints.end(checkpoint_id, restored_from)

    def note_slots(self, addresses: Sequence[SlotAddress], replies: Sequence[protocol.SlotStatus]) -> None:
        """How the slots are."""
        slots = tuple(_slot(address, reply) for address, reply in zip(addresses, replies, strict=True))
        native = [(reply.slot, name, value) for reply in replies for name, value in reply.metrics.items()]
        work = [(reply.state_bytes, reply.state_rows, reply.memory.get("overlays", 0)) for reply in replies]
        own = user_metrics.by_slot(replies)
        sizes = tuple(size for reply in replies for size in reply.operators)
        with self._lock:
            if work != self._work:
                self._work, self._progress_at = work, self._clock.monotonic()
            self._slots, self._native, self._user_metrics, self._sizes = slots, native, own, sizes
            told = [_NOT_SHOWN if user_metrics.not_shown(replies) else None, operator_states.notice(slots)]
            self._notices += tuple(text for text in told if text is not None and text not in self._notices)
            self._operator_state = operator_states.current(self._operator_state, slots, self._clock.now_ms())
            lag = self._lag_ms()
        self.series.note(rows_per_s=0, lag_ms=lag, **sizes_of(slots))

    def note_epoch(
        self,
        epoch: int,
        rows: int,
        watermark: int,
        seconds: float,
        next_event_timer: int | None = None,
        next_processing_timer: int | None = None,
        late_rows: int = 0,
        dropped_rows: int = 0,
        operators: Sequence[OperatorResult] = (),
    ) -> None:
        """An epoch has committed."""
        self._on_epoch(seconds)
        self.series.note(rows_per_s=rows, epoch_ms=seconds * 1000)
        now = self._clock.monotonic()
        with self._lock:
            self._epoch, self._watermark = epoch, watermark
            self._next_event_timer, self._next_processing_timer = next_event_timer, next_processing_timer
            self._rows += rows
            self._progress_at = now
            self._late_rows += late_rows
            self._dropped_rows += dropped_rows
            self._epochs.note(now, seconds, rows, operators)
            if self._recovering is not None:
                self._end_recovery(self._recovering)

    def note_checkpoint(self, info: CheckpointInfo) -> None:
        """A checkpoint began or ended."""
        with self._lock:
            self._checkpoints.note(info)
        if info.status == CheckpointStatus.COMPLETED and info.kind == CheckpointKind.CHECKPOINT:
            self.series.note(checkpoint_ms=info.duration_ms, checkpoint_bytes=info.uploaded_bytes)
        if info.status != CheckpointStatus.IN_PROGRESS:
            self._on_checkpoint(info)

    def note_failure(self, reason: str, message: str, *, recovering: bool) -> None:
        """Something failed; ``recovering`` says that the job starts again."""
        mistake = ""
        with self._lock:
            now = self._clock.now_ms()
            self._last_failure = documents.Failure(
                at_ms=now, reason=reason, message=cut(message, cut_text.FAILURE)
            )
            self._slots = tuple(slot.model_copy(update={"alive": False}) for slot in self._slots)
            if recovering:
                self._restarts += 1
                self._progress_at = self._clock.monotonic()
                mistake = self._go(driver_life.RECOVERS)
                self._recovering = self._recovering or _OpenRecovery(
                    now, self._clock.monotonic(), cut(f"{reason}: {message}", cut_text.CAUSE)
                )
        _log_mistake(mistake)

    def _go(self, what: Transition) -> str:
        """Along the table, or else with words for the log. A driver takes a step off the table too: it would help
        nobody to end a job over a word."""
        mistake = "" if what.is_known(self._phase) else driver_life.told(self._phase, what)
        self._phase = what.after(self._phase)
        return mistake

    def _end_recovery(self, under_way: _OpenRecovery) -> None:
        self._recoveries.append(
            documents.Recovery(
                at_ms=under_way.at_ms,
                cause=under_way.cause,
                restored_from=under_way.restored_from,
                duration_ms=round((self._clock.monotonic() - under_way.began_s) * 1000),
                incarnation=under_way.incarnation,
            )
        )
        self._recovering = None

    # -- questions ----------------------------------------------------------------------------------------------

    @property
    def phase(self) -> DriverPhase:
        """Where the job is now."""
        return self._phase

    @property
    def has_lineage(self) -> bool:
        """Whether the driver has claimed the job's state."""
        return self._lineage is not None

    @property
    def epoch(self) -> int | None:
        """The last committed epoch."""
        return self._epoch

    def seconds_without_progress(self) -> float:
        """Since an epoch ended, the phase changed, or a slot took rows in or changed state. Takes no lock."""
        return self._clock.monotonic() - self._progress_at

    def checkpoints(self) -> list[CheckpointInfo]:
        """The history, oldest first."""
        with self._lock:
            return self._checkpoints.oldest_first()

    def native_metrics(self) -> list[tuple[int, str, float]]:
        """(slot, name, value) of the native metrics."""
        with self._lock:
            return list(self._native)

    def user_metrics(self) -> tuple[port.SlotMetric, ...]:
        """The metrics that the job's functions made, by slot."""
        with self._lock:
            return self._user_metrics

    def last_checkpoint_told(self) -> str:
        """The time and bytes that the newest completed checkpoint took, in words."""
        with self._lock:
            newest = self._checkpoints.newest(CheckpointKind.CHECKPOINT)
        if newest is None:
            return "no checkpoint has completed"
        return (
            f"checkpoint {newest.id} (epoch {newest.epoch}) took {(newest.duration_ms or 0) / 1000:.1f} s, "
            f"{(newest.uploaded_bytes or 0) / MIB:,.1f} of {(newest.state_bytes or 0) / MIB:,.1f} MiB uploaded"
        )

    def status(self) -> documents.JobStatus:
        """Everything, as one document."""
        with self._lock:
            recoveries = list(self._recoveries)
            if self._recovering is not None:
                under_way = self._recovering
                recoveries.append(
                    documents.Recovery(
                        at_ms=under_way.at_ms, cause=under_way.cause, incarnation=under_way.incarnation
                    )
                )
            return documents.JobStatus(
                job_uid=self.identity.job_uid,
                attempt=self.identity.attempt,
                name=self._name,
                namespace=self._namespace,
                backend=self._backend,
                lineage=self._lineage,
                incarnation=self._incarnation,
                phase=self._phase,
                waits_for_attempt=self._waits_for,
                started_ms=self._started_ms,
                epoch=self._epoch,
                rows_total=self._rows,
                late_rows_total=self._late_rows,
                dropped_rows_total=self._dropped_rows,
                rows_per_s=self._epochs.rows_per_s(self._clock.monotonic()),
                watermark_ms=None if self._watermark == MIN_WATERMARK else self._watermark,
                lag_ms=self._lag_ms(),
                next_event_timer_ms=self._next_event_timer,
                next_processing_timer_ms=self._next_processing_timer,
                state_bytes=sum(slot.state_bytes for slot in self._slots),
                slots=self._slots,
                last_checkpoint=self._checkpoints.newest(CheckpointKind.CHECKPOINT),
                last_savepoint=self._checkpoints.newest(CheckpointKind.SAVEPOINT),
                checkpoints_completed=self._checkpoints.completed,
                checkpoints_failed=self._checkpoints.failed,
                checkpoints_in_progress=self._checkpoints.in_progress,
                restarts=self._restarts,
                recoveries=tuple(recoveries),
                last_failure=self._last_failure,
                storage_away=self.outages.away,
                storage_failures_total=self.outages.failures,
                progress=self.long_work.documents(),
                restored_from=self._restored_from,
                sinks=self._sinks,
                user_metrics=user_metrics.over_slots(self._user_metrics),
                notices=self._notices,
                operator_state_notice=self._operator_state,
            )

    def graph(self) -> picture.JobGraph:
        """The job's operators with their figures."""
        with self._lock:
            states = [state for slot in self._slots for state in slot.operator_states]
            return self._shape.with_figures(self._epochs, self._sizes, self._clock.monotonic(), states)

    def _lag_ms(self) -> int | None:
        if self._watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return None
        return self._clock.now_ms() - self._watermark


def sizes_of(slots: Sequence[documents.SlotStatus]) -> dict[str, float | None]:
    """State and memory of all slots, for the series. There is no budget where a slot has none."""
    budgets = [slot.memory.budget for slot in slots]
    return {
        "state_bytes": sum(slot.state_bytes for slot in slots),
        "memory_bytes": sum(s.memory.cache + s.memory.write_buffers + s.memory.tables for s in slots),
        "budget_bytes": None if None in budgets else sum(budget or 0 for budget in budgets),
    }


def _log_mistake(words: str) -> None:
    """Without the lock, because a log may hang."""
    if words:
        _log.error(words)


def _slot(address: SlotAddress, reply: protocol.SlotStatus) -> documents.SlotStatus:
    memory = reply.memory
    return documents.SlotStatus(
        index=reply.slot,
        pid=reply.pid,
        host=address.host,
        shards=reply.shards,
        state_bytes=reply.state_bytes,
        rows=reply.state_rows,
        held_bytes=reply.held_bytes,
        rss_bytes=reply.rss_bytes,
        memory=documents.SlotMemory(
            budget=memory.get("budget"),
            cache=memory.get("cache", 0),
            write_buffers=memory.get("write_buffers", 0),
            tables=memory.get("tables", 0),
            overlays=memory.get("overlays", 0),
            operator_state=memory.get("operator_state", 0),
            operator_state_limit=memory.get("operator_state_limit"),
        ),
        operator_states=operator_states.of_slot(reply),
    )
