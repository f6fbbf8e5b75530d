"""One attempt's driver, from its start to its end: shows its progress, asks it to stop on request."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.control import client as control
from sparkstate.control import documents
from sparkstate.log.records import CheckpointCommitted, SavepointCommitted
from sparkstate.runner import news, periodic, process, progress, schedule, workdir

TICK_S = 0.1
STATUS_PERIOD_S = 1.0
INTERRUPTED = 130
"""Exit code of a job that was killed because its owner asked twice, as shells have it for Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The supervised job."""

    name: str
    first_attempt: int
    savepoint_on_stop: bool
    storage: str = ""
    """URL of the checkpoint storage."""
    full_name: str = ""
    """With cluster and namespace."""
    kept_before: CheckpointCommitted | SavepointCommitted | None = None
    """The newest in the job's log before the run began; None if it had none."""


@dataclass(frozen=True, kw_only=True)
class EndedAttempt:
    """The facts about an attempt whose driver has ended."""

    exit_code: int
    killed: bool
    """The owner asked twice, and the driver was killed for it."""
    last_status: documents.JobStatus | None
    """The driver's last answer; None: it never answered."""
    savepoint: documents.SavepointStatus | None
    """The savepoint of the stop, where the driver has said that it is complete."""
    savepoint_failed: bool
    stop_trigger: str
    """Of the savepoint that was asked for when the job was stopped; empty if none was."""


class StopRequest:
    """How often the owner asked to stop: once means cleanly, twice means now. Set from a signal handler."""

    def __init__(self) -> None:
        self.times = 0

    def ask(self) -> None:
        """Ask once more."""
        self.times += 1


class _Stopping(enum.Enum):
    NO = enum.auto()
    SAVEPOINT = enum.auto()
    CANCEL = enum.auto()


class Watch:
    """One attempt's driver, from its start to its end."""

    def __init__(
        self,
        *,
        job: Job,
        folder: workdir.WorkDir,
        driver: process.DriverProcess,
        connect: Callable[[str], control.ControlClient],
        stop: StopRequest,
        clock: clocks.Clock,
        reporter: progress.Reporter,
    ) -> None:
        self._job = job
        self._folder = folder
        self._driver = driver
        self._connect = connect
        self._stop = stop
        self._clock = clock
        self._reporter = reporter
        self._client: control.ControlClient | None = None
        self._stopping = _Stopping.NO
        self._next_status_s = 0.0
        self._note_refused = False
        self._seen_running = False
        self._last_status: documents.JobStatus | None = None
        self._told = news.ToldNews()
        self._savepoint: documents.SavepointStatus | None = None
        self._savepoint_failed = False
        self._stop_trigger = ""

    def step(self, savepoints: periodic.PeriodicSavepoints | None) -> EndedAttempt | None:
        """Look at the process, at its status and at the owner's wish; do what is next. None: the driver goes on."""
        exit_code = self._driver.poll()
        if exit_code is not None:
            return self._ended(exit_code)
        if self._stop.times > 1:
            self._reporter.message("killed at once; the state is that of the last completed checkpoint")
            return self._ended(self._driver.kill(), killed=True)
        if self._stop.times == 1 and self._stopping is _Stopping.NO:
            self._begin_stop()
        if self._clock.monotonic() >= self._next_status_s:
            # Before the first answer a person waits; after a stop with savepoint the driver ends soon.
            hurry = self._last_status is None or self._stopping is _Stopping.SAVEPOINT
            self._next_status_s = self._clock.monotonic() + (TICK_S if hurry else STATUS_PERIOD_S)
            self._look(savepoints)
        return None

    def _ended(self, exit_code: int, *, killed: bool = False) -> EndedAttempt:
        return EndedAttempt(
            exit_code=exit_code,
            killed=killed,
            last_status=self._last_status,
            savepoint=self._savepoint,
            savepoint_failed=self._savepoint_failed,
            stop_trigger=self._stop_trigger,
        )

    def _look(self, savepoints: periodic.PeriodicSavepoints | None) -> None:
        client = self._reach()
        if client is None:
            return
        try:
            self._last_status = client.status()
            if self._last_status.lineage:
                self._note(self._last_status.lineage)
            self._seen_running |= self._last_status.phase is documents.DriverPhase.RUNNING
            self._report(self._last_status)
            if self._stopping is _Stopping.SAVEPOINT:
                self._follow_savepoint(client)
            elif savepoints is not None and self._last_status.phase is documents.DriverPhase.RUNNING:
                savepoints.tick(client)
        except errors.SparkstateError:
            # The driver is busy, ending or recovering; the process itself tells if it is gone.
            return

    def _report(self, status: documents.JobStatus) -> None:
        sentences, self._told = news.since(self._told, status)
        for sentence in sentences:
            self._reporter.message(sentence)
        self._reporter.progress(status)

    def _note(self, lineage: str) -> None:
        """For the next attempt and the next run. A disk that does not take the note ends no driver."""
        if self._folder.record_lineage(self._job.storage, self._job.full_name, lineage):
            self._note_refused = False
        elif not self._note_refused:
            self._note_refused = True
            file = self._folder.lineage_file
            self._reporter.message(
                f"cannot write {file}, by which a later run knows the job's state; trying again"
            )

    def _reach(self) -> control.ControlClient | None:
        if self._client is None:
            found = self._folder.driver()
            self._client = self._connect(found.address) if found else None
        return self._client

    def _begin_stop(self) -> None:
        client = self._reach()
        running = self._last_status is not None and self._last_status.phase is documents.DriverPhase.RUNNING
        if self._job.savepoint_on_stop and client is not None and running:
            self._reporter.message("stopping with a savepoint; press Ctrl-C again to kill the job at once")
            self._stop_trigger = schedule.on_stop_trigger_id(self._clock.now_ms())
            try:
                client.trigger_savepoint(documents.SavepointRequest(trigger_id=self._stop_trigger, stop=True))
                self._stopping = _Stopping.SAVEPOINT
                self._next_status_s = 0.0
                return
            except errors.SparkstateError as exc:
                self._savepoint_lost(str(exc))
        elif self._job.savepoint_on_stop and self._seen_running:
            self._savepoint_lost("the job is not running")
        else:
            self._reporter.message("stopping after this epoch; press Ctrl-C again to kill the job at once")
        self._cancel()

    def _follow_savepoint(self, client: control.ControlClient) -> None:
        if self._savepoint is not None:
            return
        status = client.savepoint(self._stop_trigger)
        if status is None:
            return
        if status.status is documents.SavepointPhase.COMPLETED:
            self._savepoint = status
        elif status.status is documents.SavepointPhase.FAILED:
            self._savepoint_lost(status.failure or "the driver gave no reason")
            self._cancel()

    def _savepoint_lost(self, why: str) -> None:
        self._savepoint_failed = True
        self._reporter.message(f"the savepoint failed: {why}; stopping without it, from the last checkpoint")

    def _cancel(self) -> None:
        self._stopping = _Stopping.CANCEL
        client = self._reach()
        try:
            if client is not None:
                client.cancel()
                return
        except errors.SparkstateError:
            pass
        self._driver.terminate()
