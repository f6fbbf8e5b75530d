"""A job that lives in memory: implements ``JobControl`` by what a test puts into it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from pydantic import JsonValue

from sparkstate.control import documents, picture, port

TOKEN = "t0ken-of-the-tests-0123456789abcdef"
NOW_MS = 1_767_225_600_000


class InMemoryJob:
    """``current`` and ``history`` are what the endpoint shows; savepoints complete when the test says so."""

    def __init__(self, status: documents.JobStatus | None = None) -> None:
        self._lock = threading.Lock()
        self.reset(status)

    def reset(self, status: documents.JobStatus | None = None) -> None:
        """As new."""
        self.current = status or documents.JobStatus(
            job_uid="uid-1", name="rotations", phase=documents.DriverPhase.RUNNING
        )
        self.history: list[documents.CheckpointInfo] = []
        self.samples: list[port.Sample] = []
        self.own_metrics: list[port.SlotMetric] = []
        self.drawn = picture.JobGraph()
        self.points: dict[str, tuple[float | None, ...]] = {}
        self.logs: dict[str, tuple[str, ...]] = {"driver": ()}
        self.values: dict[tuple[str, str, str | int], JsonValue] = {}
        self.live = True
        self.ready = True
        self.cancelled = False
        self.alone = False
        self.raises: Exception | None = None
        self.refuses: Exception | None = None
        """The error that every request for a savepoint ends with."""
        self._requests: dict[str, port.SavepointTrigger] = {}
        self._savepoints: dict[str, documents.SavepointStatus] = {}

    def update(self, **fields: object) -> None:
        """Replace fields of the status."""
        self.current = self.current.model_copy(update=fields)

    def requests(self) -> list[port.SavepointTrigger]:
        """The savepoint requests that started something, oldest first."""
        with self._lock:
            return list(self._requests.values())

    def finish_savepoint(self, trigger_id: str, **fields: object) -> None:
        """End a savepoint: status, location, epoch, failure."""
        with self._lock:
            self._savepoints[trigger_id] = self._savepoints[trigger_id].model_copy(update=fields)

    def identity(self) -> documents.JobIdentity:
        return documents.JobIdentity(job_uid=self.current.job_uid, attempt=self.current.attempt)

    def status(self) -> documents.JobStatus:
        if self.raises is not None:
            raise self.raises
        return self.current

    def checkpoints(self) -> Sequence[documents.CheckpointInfo]:
        return list(self.history)

    def checkpoint(self, checkpoint_id: int) -> documents.CheckpointInfo | None:
        return next((info for info in self.history if info.id == checkpoint_id), None)

    def trigger_checkpoint(self) -> int:
        return max((info.id for info in self.history), default=0) + 1

    def trigger_savepoint(self, request: port.SavepointTrigger) -> documents.SavepointStatus:
        if self.refuses is not None:
            raise self.refuses
        with self._lock:
            known = self._requests.setdefault(request.trigger_id, request)
            if known != request:
                raise port.TriggerConflict(f"savepoint {request.trigger_id!r} was triggered with {known!r}")
            pending = documents.SavepointStatus(
                trigger_id=request.trigger_id,
                status=documents.SavepointPhase.PENDING,
                stop=request.stop,
                drain=request.drain,
            )
            return self._savepoints.setdefault(request.trigger_id, pending)

    def savepoint(self, trigger_id: str) -> documents.SavepointStatus | None:
        with self._lock:
            return self._savepoints.get(trigger_id)

    def key_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> documents.KeyState:
        if not any(known[:2] == (uid, state) for known in self.values):
            raise port.UnknownState(f"operator {uid!r} has no state {state!r}")
        value = self.values.get((uid, state, repr(key)))
        return documents.KeyState(
            operator=uid,
            state=state,
            kind="value",
            key=key,
            namespace=namespace,
            value=value,
            epoch=self.current.epoch,
        )

    def operator_state(self, uid: str, state: str, slot: int) -> documents.KeyState:
        value = self.values.get((uid, state, slot))
        if value is None:
            raise port.UnknownState(f"operator {uid!r} has no operator state {state!r}")
        return documents.KeyState(operator=uid, state=state, kind="broadcast", slot=slot, value=value)

    def graph(self) -> picture.JobGraph:
        return self.drawn

    def series(self, after: int) -> picture.Series:
        last = max((len(values) for values in self.points.values()), default=0)
        return picture.Series(
            started_ms=NOW_MS,
            period_ms=5000,
            capacity=720,
            last=last,
            until_ms=NOW_MS + last * 5000,
            **{name: values[after:] for name, values in self.points.items()},
        )

    def log(self, source: str) -> picture.LogTail | None:
        lines = self.logs.get(source)
        return None if lines is None else picture.LogTail(source=source, lines=lines)

    def cancel(self) -> None:
        self.cancelled = True

    def claim(self) -> None:
        self.alone = True

    def is_live(self) -> bool:
        return self.live

    def is_ready(self) -> bool:
        return self.ready

    def metrics(self) -> Iterable[port.Sample]:
        return list(self.samples)

    def user_metrics(self) -> Iterable[port.SlotMetric]:
        return list(self.own_metrics)


def checkpoint(number: int, **fields: object) -> documents.CheckpointInfo:
    """A completed checkpoint with plausible figures; ``fields`` replace them."""
    base = documents.CheckpointInfo(
        id=number,
        status=documents.CheckpointStatus.COMPLETED,
        epoch=number * 5,
        trigger_ms=NOW_MS + number * 5_000,
        duration_ms=400 + 37 * (number * 7 % 11),
        sync_pause_ms=8 + number % 5,
        state_bytes=20_000_000 + number * 900_000,
        uploaded_bytes=1_200_000 + (number * 13 % 7) * 350_000,
        path=f"file:///checkpoints/chk-{number}",
    )
    return base.model_copy(update=fields)


def slot(index: int, **fields: object) -> documents.SlotStatus:
    """A living slot of two with plausible figures; ``fields`` replace them."""
    base = documents.SlotStatus(
        index=index,
        pid=4000 + index,
        host="worker-1",
        shards=tuple(range(index * 8, index * 8 + 8)),
        state_bytes=31_000_000 - index * 6_000_000,
        rows=81_300 - index * 9_000,
        memory=documents.SlotMemory(
            budget=268_435_456,
            cache=91_000_000 - index * 20_000_000,
            write_buffers=33_000_000,
            tables=4_000_000,
        ),
        rss_bytes=310_000_000,
    )
    return base.model_copy(update=fields)
