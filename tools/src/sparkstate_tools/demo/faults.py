"""Kills processes with ``kill -9`` in a named phase, after proving that there is something to lose."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime

from sparkstate_tools.demo import recovery
from sparkstate_tools.demo.job_process import JobProcess
from sparkstate_tools.demo.phaselog import LONGEST_HOLD_S, Holds, PhaseLog
from sparkstate_tools.demo.watch import Story, wall_ms

HOLDS = 20
"""How often to hold a process until all the evidence is there."""
EVIDENCE_TIMEOUT_S = 180.0
RECOVERY_TIMEOUT_S = 180.0


class Saboteur:
    """Knows the job's phase log and can hold its processes in a phase."""

    def __init__(self, job: JobProcess, log: PhaseLog, holds: Holds, story: Story) -> None:
        self._job = job
        self._log = log
        self._holds = holds
        self._story = story

    def kill(self, process: str, phase: str) -> recovery.Kill:
        """Wait for something to lose, hold ``process`` in ``phase``, assert it all once more, kill."""
        for _ in range(HOLDS):
            self._job.wait_until(
                f"something to lose before {process} is killed", self._evidence, EVIDENCE_TIMEOUT_S
            )
            pid = self._holds.hold(process, phase)
            try:
                evidence = recovery.gather(self._job.status())
                # A checkpoint may have completed just before: then there is nothing to replay, and the next time
                # that the process comes by is better.
                if not evidence.missing:
                    kill = self._describe(process, pid, phase, evidence)
                    os.kill(pid, signal.SIGKILL)
                    self._tell(kill)
                    return kill
            finally:
                self._holds.release()
        raise AssertionError(f"{process} stood in {phase} {HOLDS} times, and never was there enough to lose")

    def _tell(self, kill: recovery.Kill) -> None:
        self._story.tell(
            f"kill -9 {kill.process} (process {kill.pid}) in phase {kill.phase} of epoch {kill.epoch}", "kill"
        )
        lost = kill.evidence
        self._story.tell(
            f"  to be brought back: checkpoint {lost.checkpoint} (epoch {lost.checkpoint_epoch}), "
            f"{lost.state_bytes / 1e6:.1f} MB of state, timers armed from {instant(lost.next_timer_ms)} on; "
            f"committed epochs to replay: {lost.epochs_to_replay}"
        )

    def _evidence(self) -> recovery.Evidence | None:
        evidence = recovery.gather(self._job.status())
        return None if evidence.missing else evidence

    def _describe(self, process: str, pid: int, phase: str, evidence: recovery.Evidence) -> recovery.Kill:
        entry = self._log.last_of(pid, phase)
        if entry is None or entry.process != process or wall_ms() - entry.t_ms > LONGEST_HOLD_S * 1000:
            raise AssertionError(f"process {pid} should be held in {process}:{phase}, the log says {entry}")
        return recovery.Kill(
            process=process,
            pid=pid,
            phase=phase,
            t_ms=wall_ms(),
            incarnation=entry.incarnation,
            epoch=recovery.last_commit(self._log.entries()),
            evidence=evidence,
        )

    def await_return(self, kill: recovery.Kill) -> recovery.Return:
        """Wait until the job has caught up with what the kill had undone; tells each step."""

        def running() -> recovery.Return | None:
            back = recovery.measure(kill, self._log.entries())
            return back if back.running_ms is not None else None

        def caught_up() -> recovery.Return | None:
            back = recovery.measure(kill, self._log.entries())
            return back if back.caught_up_ms is not None else None

        first = self._job.wait_until(f"the return of {kill.process}", running, RECOVERY_TIMEOUT_S)
        assert first.running_ms is not None
        self._story.tell(
            f"RECOVERED from the loss of {kill.process}: incarnation {first.incarnation} committed epoch "
            f"{first.first_epoch} {first.running_ms / 1000:.1f} s after the kill",
            "recovery",
        )
        return self._job.wait_until(f"catching up after {kill.process}", caught_up, RECOVERY_TIMEOUT_S)


def instant(timestamp_ms: int | None) -> str:
    """An instant of event time, to the minute."""
    if timestamp_ms is None:
        return "never"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
