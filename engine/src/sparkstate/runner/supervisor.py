"""Keeps one job's driver alive, and stops it the way its owner wants.

::

    start attempt N ──► watch ──► driver ended ──► finished / failed for good ──► done
         ▲                │                 └────► crashed ──► restart strategy ──► wait ──┐
         └────────────────┼────────────────────────────────────────────────────────────────┘
                          └─ asked to stop ──► savepoint or cancel ──► driver ended ──► done

The decisions are elsewhere (:mod:`verdict`, :mod:`sparkstate.restart`); here they are carried out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from sparkstate import clock as clocks
from sparkstate import errors, restart
from sparkstate.control import client as control
from sparkstate.control import documents
from sparkstate.runner import periodic, process, progress, schedule, verdict, workdir

TICK_S = 0.1
STATUS_PERIOD_S = 1.0
INTERRUPTED = 130
FAILURE_CLASS = "driver"
LOG_TAIL_LINES = 15


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


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is supervised."""

    name: str
    first_attempt: int
    savepoint_on_stop: bool


class Supervisor:
    """Runs one job to its end; made anew for every run.

    ``launch`` starts the driver of an attempt, ``connect`` makes a client for its address. ``stop`` is
    asked from outside.
    """

    def __init__(
        self,
        *,
        job: Job,
        folder: workdir.WorkDir,
        launch: Callable[[int], process.DriverProcess],
        connect: Callable[[str], control.ControlClient],
        counters: restart.FailureCounters,
        savepoints: periodic.PeriodicSavepoints | None,
        stop: StopRequest,
        clock: clocks.Clock,
        reporter: progress.Reporter,
    ) -> None:
        self._job = job
        self._folder = folder
        self._launch = launch
        self._connect = connect
        self._counters = counters
        self._savepoints = savepoints
        self._stop = stop
        self._clock = clock
        self._reporter = reporter
        self._last: documents.JobStatus | None = None

    def run(self) -> int:
        """Start, watch and restart until the job is done; the exit code for the command."""
        attempt = self._job.first_attempt
        while True:
            watch = self._run_attempt(attempt)
            self._reporter.clear()
            code = watch.killed_code()
            if code is None:
                code = self._after(attempt, watch)
            if code is not None:
                return code
            attempt += 1

    def _run_attempt(self, attempt: int) -> _Watch:
        self._folder.forget_driver()
        self._folder.record_attempt(attempt)
        driver = self._launch(attempt)
        watch = _Watch(
            self._job, self._folder, driver, self._connect, self._stop, self._clock, self._reporter
        )
        try:
            while watch.exit_code is None:
                watch.step(self._savepoints)
                self._clock.sleep(TICK_S)
        finally:
            if watch.exit_code is None:  # an error of our own: never leave a driver without a supervisor
                driver.kill()
        self._last = watch.last_status or self._last
        if self._savepoints is not None:
            self._savepoints.driver_ended()
        return watch

    def _after(self, attempt: int, watch: _Watch) -> int | None:
        """The exit code if the job is done; None to start the next attempt (the delay is over then)."""
        assert watch.exit_code is not None
        termination = verdict.read_termination(self._folder.termination_log)
        match verdict.judge(verdict.DriverExit(watch.exit_code, termination)):
            case verdict.Finished(message):
                return self._finished(message, watch)
            case verdict.Failed(exit_code, reason, message):
                self._show_log(attempt)
                self._reporter.message(f"error: {reason or 'the driver failed'}: {message}")
                return exit_code
            case verdict.Crashed(message) if self._stop.times:
                self._reporter.message(
                    f"error: {message} while the job was being stopped; {self._left_off()}"
                )
                return 1
            case verdict.Crashed(message):
                return self._restart(attempt, message)

    def _restart(self, attempt: int, message: str) -> int | None:
        self._show_log(attempt)
        decision = self._counters.failed(FAILURE_CLASS, self._clock.monotonic())
        if isinstance(decision, restart.GiveUp):
            self._reporter.message(f"error: {message}; {decision.reason}; {self._left_off()}")
            return 1
        self._reporter.message(f"{message}; attempt {attempt + 1} starts in {decision.delay_s:.1f} s")
        until = self._clock.monotonic() + decision.delay_s
        while self._clock.monotonic() < until:
            if self._stop.times:
                savepoint = "without a savepoint, " if self._job.savepoint_on_stop else ""
                self._reporter.message(
                    f"{self._job.name} stopped {savepoint}while it was down; {self._left_off()}"
                )
                return 1 if savepoint else 0
            self._clock.sleep(TICK_S)
        return None

    def _finished(self, message: str, watch: _Watch) -> int:
        if watch.savepoint is not None:
            self._reporter.message(
                f"{self._job.name} stopped with savepoint {watch.savepoint.location} "
                f"(epoch {watch.savepoint.epoch}); `sparkstate run` goes on from there"
            )
            return 0
        verb = "stopped" if self._stop.times else "finished"
        detail = f": {message}" if message else ""
        self._reporter.message(f"{self._job.name} {verb}{detail}; {self._left_off()}")
        return 1 if watch.savepoint_failed else 0

    def _left_off(self) -> str:
        last = self._last
        if last is None or last.epoch is None:
            return "no epoch was committed in this run"
        checkpoint = last.last_checkpoint
        kept = (
            "no checkpoint"
            if checkpoint is None
            else f"checkpoint {checkpoint.id} (epoch {checkpoint.epoch})"
        )
        return f"epoch {last.epoch}, {last.rows_total} rows, {kept}"

    def _show_log(self, attempt: int) -> None:
        log = self._folder.log_file(attempt)
        if not log.is_file():
            return
        lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        for text in lines:
            self._reporter.message(f"  | {text}")
        self._reporter.message(f"  | … the driver's whole log: {log}")


class _Watch:
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
        self._stop_trigger = ""
        self._next_status_s = 0.0
        self._killed = False
        self.exit_code: int | None = None
        self.last_status: documents.JobStatus | None = None
        self.savepoint: documents.SavepointStatus | None = None
        self.savepoint_failed = False

    def killed_code(self) -> int | None:
        """The exit code if the owner asked twice and the driver was killed for it."""
        return INTERRUPTED if self._killed else None

    def step(self, savepoints: periodic.PeriodicSavepoints | None) -> None:
        """Look at the process, at its status and at the owner's wish; do what is next."""
        self.exit_code = self._driver.poll()
        if self.exit_code is not None:
            return
        if self._stop.times > 1:
            self._reporter.message("killed at once; the state is that of the last completed checkpoint")
            self._killed = True
            self.exit_code = self._driver.kill()
            return
        if self._stop.times == 1 and self._stopping is _Stopping.NO:
            self._begin_stop()
        if self._clock.monotonic() >= self._next_status_s:
            hurry = self._stopping is _Stopping.SAVEPOINT  # the driver ends soon after it is complete
            self._next_status_s = self._clock.monotonic() + (TICK_S if hurry else STATUS_PERIOD_S)
            self._look(savepoints)

    def _look(self, savepoints: periodic.PeriodicSavepoints | None) -> None:
        client = self._reach()
        if client is None:
            return
        try:
            self.last_status = client.status()
            self._reporter.progress(self.last_status)
            if self._stopping is _Stopping.SAVEPOINT:
                self._follow_savepoint(client)
            elif savepoints is not None and self.last_status.phase is documents.Phase.RUNNING:
                savepoints.tick(client)
        except errors.SparkstateError:
            # The driver is busy, ending or recovering; the process itself tells if it is gone.
            return

    def _reach(self) -> control.ControlClient | None:
        if self._client is None:
            found = self._folder.driver()
            self._client = self._connect(found.address) if found else None
        return self._client

    def _begin_stop(self) -> None:
        client = self._reach()
        running = self.last_status is not None and self.last_status.phase is documents.Phase.RUNNING
        if self._job.savepoint_on_stop and client is not None and running:
            self._reporter.message("stopping with a savepoint; press Ctrl-C again to kill the job at once")
            self._stop_trigger = schedule.on_stop_trigger_id(self._clock.now_ms())
            try:
                client.trigger_savepoint(documents.SavepointRequest(trigger_id=self._stop_trigger, stop=True))
                self._stopping = _Stopping.SAVEPOINT
                return
            except errors.SparkstateError as exc:
                self._savepoint_lost(str(exc))
        elif self._job.savepoint_on_stop:
            self._savepoint_lost("the job is not running yet")
        else:
            self._reporter.message("stopping after this epoch; press Ctrl-C again to kill the job at once")
        self._cancel()

    def _follow_savepoint(self, client: control.ControlClient) -> None:
        if self.savepoint is not None:
            return
        status = client.savepoint(self._stop_trigger)
        if status is None:
            return
        if status.status is documents.SavepointPhase.COMPLETED:
            self.savepoint = status
        elif status.status is documents.SavepointPhase.FAILED:
            self._savepoint_lost(status.failure or "the driver gave no reason")
            self._cancel()

    def _savepoint_lost(self, why: str) -> None:
        self.savepoint_failed = True
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
