"""Keeps one job's driver alive, and stops it the way its owner wants.

::

    start attempt N ──► watch ──► driver ended ──► finished / failed for good ──► done
         ▲                │                 └────► crashed ──► restart strategy ──► wait ──┐
         └────────────────┼────────────────────────────────────────────────────────────────┘
                          └─ asked to stop ──► savepoint or cancel ──► driver ended ──► done

The decisions are elsewhere (:mod:`verdict`, :mod:`sparkstate.restart`); here they are carried out.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from sparkstate import clock as clocks
from sparkstate import errors, restart
from sparkstate.control import client as control
from sparkstate.control import documents
from sparkstate.log.records import SavepointCommitted
from sparkstate.runner import periodic, process, progress, verdict, watching, workdir
from sparkstate.runner.savepoint_store import SavepointStore

FAILURE_CLASS = "driver"
LOG_TAIL_LINES = 15
_NO_EPOCH = "no epoch was committed in this run"


class Supervisor:
    """Runs one job to its end; each run has its own.

    ``launch`` starts the driver of an attempt, ``connect`` makes a client for its address.
    ``stop`` is asked from outside.
    """

    def __init__(
        self,
        *,
        job: watching.Job,
        folder: workdir.WorkDir,
        launch: Callable[[int], process.DriverProcess],
        connect: Callable[[str], control.ControlClient],
        counters: restart.FailureCounters,
        savepoints: periodic.PeriodicSavepoints | None,
        savepoint_store: SavepointStore,
        stop: watching.StopRequest,
        clock: clocks.Clock,
        reporter: progress.Reporter,
    ) -> None:
        self._job = job
        self._folder = folder
        self._launch = launch
        self._connect = connect
        self._counters = counters
        self._savepoints = savepoints
        self._savepoint_store = savepoint_store
        self._stop = stop
        self._clock = clock
        self._reporter = reporter
        self._last: documents.JobStatus | None = None

    def run(self) -> int:
        """Start, watch and restart until the job is done; the exit code for the command."""
        attempt = self._job.first_attempt
        while not self._stop.times:
            ended = self._run_attempt(attempt)
            self._reporter.clear()
            code = watching.INTERRUPTED if ended.killed else self._after(attempt, ended)
            if code is not None:
                return code
            attempt += 1
        return self._stopped_while_down()

    def _run_attempt(self, attempt: int) -> watching.EndedAttempt:
        self._folder.forget_driver()
        self._folder.record_attempt(attempt)
        driver = self._launch(attempt)
        watch = watching.Watch(
            job=self._job,
            folder=self._folder,
            driver=driver,
            connect=self._connect,
            stop=self._stop,
            clock=self._clock,
            reporter=self._reporter,
        )
        ended = None
        try:
            while ended is None:
                ended = watch.step(self._savepoints)
                self._clock.sleep(watching.TICK_S)
        finally:
            if ended is None:  # an error of our own: never leave a driver without a supervisor
                driver.kill()
        self._last = ended.last_status or self._last
        if self._savepoints is not None:
            self._savepoints.driver_ended()
        return ended

    def _after(self, attempt: int, ended: watching.EndedAttempt) -> int | None:
        """The exit code if the job is done; None to start the next attempt (the delay is over then)."""
        termination = verdict.read_termination(self._folder.termination_log)
        match verdict.judge(verdict.DriverExit(ended.exit_code, termination)):
            case verdict.Finished(message):
                return self._finished(message, ended)
            case verdict.Failed(exit_code, reason, message):
                self._show_log(attempt)
                self._reporter.message(f"error: {reason or 'the driver failed'}: {message}")
                return exit_code
            case verdict.Crashed() if self._stop.times and _had_not_begun(ended, termination):
                return self._stopped_before_it_ran()
            case verdict.Crashed(message) if self._stop.times:
                if self._stop_savepoint(ended) is not None:
                    return self._finished(message, ended)
                self._reporter.message(
                    f"error: {message} while the job was being stopped; {self._left_off()}"
                )
                return 1
            case verdict.Crashed(message):
                return self._restart(attempt, message)

    def _restart(self, attempt: int, message: str) -> int | None:
        self._show_log(attempt)
        decision = self._counters.failed(FAILURE_CLASS, self._clock.monotonic())
        if isinstance(decision, restart.NoRestart):
            self._reporter.message(f"error: {message}; {decision.reason}; {self._left_off()}")
            return 1
        self._reporter.message(f"{message}; attempt {attempt + 1} starts in {decision.delay_s:.1f} s")
        until = self._clock.monotonic() + decision.delay_s
        while self._clock.monotonic() < until:
            if self._stop.times:
                return self._stopped_while_down()
            self._clock.sleep(watching.TICK_S)
        return None

    def _stopped_while_down(self) -> int:
        """No driver runs: there is nothing to wait for, and nobody can take a savepoint of the epochs before."""
        lost = self._job.savepoint_on_stop and self._last is not None
        savepoint = "without a savepoint " if lost else ""
        self._reporter.message(f"{self._job.name} stopped {savepoint}while it was down; {self._left_off()}")
        return 1 if lost else 0

    def _stopped_before_it_ran(self) -> int:
        """The driver was still loading. If an earlier attempt ran, the job was down between the two."""
        if self._last is not None:
            return self._stopped_while_down()
        savepoint = ", and no savepoint was taken" if self._job.savepoint_on_stop else ""
        self._reporter.message(f"{self._job.name} stopped before it ran; its state is as it was{savepoint}")
        return 0

    def _finished(self, message: str, ended: watching.EndedAttempt) -> int:
        location = self._stop_savepoint(ended)
        if location is not None:
            self._reporter.message(
                f"{self._job.name} stopped with savepoint {location}; `sparkstate run` goes on from there"
            )
            return 0
        self._reporter.message(f"{self._job.name} {self._how(message)}; {self._kept()}")
        return 1 if ended.savepoint_failed else 0

    def _how(self, message: str) -> str:
        """Finished or stopped, in the driver's words where they say it (a stop may come from elsewhere)."""
        if message.startswith("stopped"):
            return message
        if self._stop.times:
            return "stopped"
        return f"finished: {message}" if message else "finished"

    def _stop_savepoint(self, ended: watching.EndedAttempt) -> str | None:
        """Where the savepoint of the stop lies: by the driver's word or, if the driver was gone too soon, the log's."""
        if ended.savepoint is not None:
            return ended.savepoint.location
        if not ended.stop_trigger or ended.savepoint_failed:
            return None
        try:
            stored = self._savepoint_store.completed()
        except errors.StorageError:
            return None
        made = [kept.url for kept in stored if kept.trigger_id == ended.stop_trigger]
        return made[0] if made else None

    def _kept(self) -> str:
        """As :meth:`_left_off`, for a driver that ended cleanly: it has committed since its last answer."""
        try:
            point = self._savepoint_store.restore_point()
        except errors.StorageError:
            point = None
        if point is None:
            return self._left_off()
        kind = "savepoint" if isinstance(point, SavepointCommitted) else "checkpoint"
        kept = f"{kind} {point.checkpoint_id} (epoch {point.epoch})"
        last = self._last
        epoch = None if last is None else last.epoch
        if point == self._job.kept_before and (epoch is None or epoch <= point.epoch):
            return f"{_NO_EPOCH}; {kept} is kept"
        if last is None or epoch is None or epoch < point.epoch:
            return kept
        return f"epoch {epoch}, {last.rows_total} rows, {kept}"

    def _left_off(self) -> str:
        last = self._last
        if last is None or last.epoch is None:
            return _NO_EPOCH
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


def _had_not_begun(ended: watching.EndedAttempt, termination: verdict.Termination | None) -> bool:
    """Whether the driver was ended by our SIGTERM while it loaded. One that has loaded takes SIGTERM for a request: it
    is not killed by it."""
    return ended.exit_code == -signal.SIGTERM and ended.last_status is None and termination is None
