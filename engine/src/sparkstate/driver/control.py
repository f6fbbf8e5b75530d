"""The job as the control endpoint sees it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from pydantic import JsonValue

from sparkstate import errors
from sparkstate.control import documents, picture, port
from sparkstate.control.documents import DriverPhase
from sparkstate.driver.earlier_savepoint import EarlierSavepoint
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.settings import TriggerSettings

PROGRESS_TIMEOUT_S = 600.0
"""RUNNING without progress for this long and one interval of the trigger, the job is not live. Progress is the end of
an epoch, a change of the phase, and whatever changes the sizes of a slot's state or of its running epochs."""
PROGRESS_VARIABLE = "SPARKSTATE_PROGRESS_TIMEOUT"
"""Environment variable with other seconds."""


def progress_timeout_s(environment: Mapping[str, str], trigger: TriggerSettings) -> float:
    """How long a running job may be without progress, s. Raises ``SpecInvalid`` for a variable other than a
    number above 0."""
    text = environment.get(PROGRESS_VARIABLE, str(PROGRESS_TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise errors.SpecInvalid(
            f"{PROGRESS_VARIABLE} is {text!r}; it must be a number of seconds above 0, such as 1800, or be left out"
        )
    return seconds + trigger.processing_time_ms / 1000


class Slots(Protocol):
    """Reading the state of the slots."""

    def read_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> tuple[str, JsonValue]:
        """Kind and value of one key."""

    def read_operator_state(self, uid: str, state: str, slot: int) -> tuple[str, JsonValue]:
        """Kind and value of one slot's operator state."""

    def read_log(self, slot: int) -> tuple[str, ...]:
        """The last lines of the log of slot ``slot``, oldest first."""

    @property
    def count(self) -> int:
        """How many there are."""


class DriverControl:
    """Implements ``control.port.JobControl``."""

    def __init__(
        self,
        view: JobView,
        requests: Requests,
        find_savepoint: Callable[[str], EarlierSavepoint | None],
        slots: Callable[[], Slots | None],
        next_checkpoint_id: Callable[[], int],
        check_target: Callable[[str], object] = lambda url: None,
        progress_timeout_s: float = PROGRESS_TIMEOUT_S,
        own_lines: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._view = view
        self._requests = requests
        self._find_savepoint = find_savepoint
        self._slots = slots
        self._next_checkpoint_id = next_checkpoint_id
        self._check_target = check_target
        self._progress_timeout_s = progress_timeout_s
        self._own_lines = own_lines

    def identity(self) -> documents.JobIdentity:
        return self._view.identity

    def status(self) -> documents.JobStatus:
        return self._view.status()

    def checkpoints(self) -> Sequence[documents.CheckpointInfo]:
        return self._view.checkpoints()

    def checkpoint(self, checkpoint_id: int) -> documents.CheckpointInfo | None:
        return next((info for info in self._view.checkpoints() if info.id == checkpoint_id), None)

    def trigger_checkpoint(self) -> int:
        self._require_going_on("checkpoint")
        running = [
            info.id
            for info in self._view.checkpoints()
            if info.status == documents.CheckpointStatus.IN_PROGRESS
            and info.kind == documents.CheckpointKind.CHECKPOINT
        ]
        if running:
            return running[0]
        self._requests.ask_checkpoint()
        return self._next_checkpoint_id()

    def trigger_savepoint(self, request: port.SavepointTrigger) -> documents.SavepointStatus:
        if self._requests.find(request.trigger_id) is None:
            earlier = self._find_savepoint(request.trigger_id)
            if earlier is not None:
                earlier.require_same(request)
                return earlier.status
            self._require_going_on("savepoint")
            if request.target_directory is not None:
                self._check_target(request.target_directory)
        return self._requests.add(request)

    def _require_going_on(self, what: str) -> None:
        if self._view.phase in (DriverPhase.STOPPING, DriverPhase.FINISHED, DriverPhase.FAILED):
            raise port.NotRunning(f"the job is {self._view.phase}; no {what} can be started any more")

    def savepoint(self, trigger_id: str) -> documents.SavepointStatus | None:
        taken = self._requests.find(trigger_id)
        if taken is not None:
            return taken
        earlier = self._find_savepoint(trigger_id)
        return None if earlier is None else earlier.status

    def key_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> documents.KeyState:
        slots = self._slots()
        if slots is None:
            raise port.NotRunning(f"the job is {self._view.phase}; its state cannot be read now")
        try:
            json.dumps([key, namespace], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise errors.SpecInvalid(
                "the key or the namespace has half of a character; write it whole"
            ) from None
        try:
            kind, value = slots.read_state(uid, state, key, namespace)
        except errors.SpecInvalid as error:
            raise port.UnknownState(str(error)) from error
        except errors.SerializationError as error:
            raise errors.SpecInvalid(f"the key or the namespace cannot be looked up: {error}") from error
        except errors.SparkstateError:
            raise
        except Exception as error:  # Spark's, about a key that it cannot take
            told = str(error).partition("\n")[0]
            raise errors.SpecInvalid(f"the key {key!r} cannot be looked up: {told}") from error
        return documents.KeyState(
            operator=uid,
            state=state,
            kind=kind,
            key=key,
            namespace=namespace,
            value=value,
            epoch=self._view.epoch,
        )

    def operator_state(self, uid: str, state: str, slot: int) -> documents.KeyState:
        slots = self._slots()
        if slots is None:
            raise port.NotRunning(f"the job is {self._view.phase}; its state cannot be read now")
        try:
            kind, value = slots.read_operator_state(uid, state, slot)
        except errors.SpecInvalid as error:
            raise port.UnknownState(str(error)) from error
        return documents.KeyState(
            operator=uid, state=state, kind=kind, slot=slot, value=value, epoch=self._view.epoch
        )

    def graph(self) -> picture.JobGraph:
        return self._view.graph()

    def series(self, after: int) -> picture.Series:
        return self._view.series.document(after)

    def log(self, source: str) -> picture.LogTail | None:
        if source == "driver":
            return picture.LogTail(source=source, lines=self._own_lines())
        slots, slot = self._slots(), int(source.removeprefix("slot-"))
        if slots is None or not 0 <= slot < slots.count:
            return None
        return picture.LogTail(source=source, lines=slots.read_log(slot))

    def cancel(self) -> None:
        self._requests.cancelled.set()

    def claim(self) -> None:
        self._requests.alone.set()

    def is_live(self) -> bool:
        view = self._view
        return view.phase != DriverPhase.RUNNING or view.seconds_without_progress() < self._progress_timeout_s

    def is_ready(self) -> bool:
        return self._view.phase == DriverPhase.RUNNING

    def metrics(self) -> Iterator[port.Sample]:
        for slot, name, value in self._view.native_metrics():
            yield port.Sample(name, value, {"slot": str(slot)})

    def user_metrics(self) -> tuple[port.SlotMetric, ...]:
        return self._view.user_metrics()
