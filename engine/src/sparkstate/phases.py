"""The phases of an epoch and of a checkpoint: one enumeration, used for status, logs and fault tests.

A process enters a phase by :meth:`Phases.enter`. Two environment variables make phases visible from outside, so that a
test can kill a process exactly there:

``SPARKSTATE_PHASE_LOG=path``
    append one JSON line per phase: process, index, pid, phase, epoch, checkpoint, incarnation, t_ms.
``SPARKSTATE_HOLD_DIR=directory``
    linger in a phase for which a file ``<process>:<phase>`` (``driver:checkpoint-publish``, ``slot-0:feed``) lies
    there. The process renames it to ``held-<process>:<phase>-<pid>``, so that exactly one takes it, and goes on when
    that file is gone, at most 60 s later.
"""

from __future__ import annotations

import enum
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from sparkstate import clock


class ProcessPhase(enum.StrEnum):
    """In the order in which they follow one another."""

    RESTORE_BEGIN = "restore-begin"
    """The snapshot to restore is known; the incarnation has no record yet."""
    RESTORE_SETTLE = "restore-settle"
    """The incarnation is recorded; what older ones left is published or swept."""
    RESTORE = "restore"
    """Slots start and are filled."""
    EPOCH_BEGIN = "epoch-begin"
    FEED = "feed"
    FINISH = "finish"
    COMMIT = "commit"
    OUTPUT = "output"
    CHECKPOINT_SYNC = "checkpoint-sync"
    CHECKPOINT_UPLOAD = "checkpoint-upload"
    CHECKPOINT_METADATA = "checkpoint-metadata"
    CHECKPOINT_COMMIT = "checkpoint-commit"
    """``_metadata`` is written, the log has no record of it yet."""
    CHECKPOINT_PUBLISH = "checkpoint-publish"
    CHECKPOINT_COMPLETE = "checkpoint-complete"


EPOCH_PHASES = (
    ProcessPhase.EPOCH_BEGIN,
    ProcessPhase.FEED,
    ProcessPhase.FINISH,
    ProcessPhase.COMMIT,
    ProcessPhase.OUTPUT,
)
CHECKPOINT_PHASES = tuple(phase for phase in ProcessPhase if phase.value.startswith("checkpoint-"))


MAX_HOLD_S = 60.0


class Phases:
    """Records the phases of one process."""

    def __init__(self, process: str, clock_: clock.Clock, environment: Mapping[str, str]) -> None:
        self.process = process
        self.current: ProcessPhase | None = None
        self._clock = clock_
        self._log = environment.get("SPARKSTATE_PHASE_LOG")
        hold = environment.get("SPARKSTATE_HOLD_DIR")
        self._hold_directory = Path(hold) if hold else None
        self._counts: Counter[ProcessPhase] = Counter()

    def enter(
        self, phase: ProcessPhase, *, epoch: int = -1, checkpoint: int = -1, incarnation: int = 0
    ) -> None:
        """Note that the process is in ``phase`` now; log it and linger there if the environment asks for it."""
        self.current = phase
        if not self._log and self._hold_directory is None:
            return
        self._counts[phase] += 1
        if self._log:
            self._write(phase, epoch, checkpoint, incarnation)
        if self._hold_directory is not None:
            self._hold(self._hold_directory, phase)

    def _hold(self, directory: Path, phase: ProcessPhase) -> None:
        held = directory / f"held-{self.process}:{phase}-{os.getpid()}"
        try:
            (directory / f"{self.process}:{phase}").rename(held)
        except FileNotFoundError:
            return
        deadline = self._clock.monotonic() + MAX_HOLD_S
        while held.exists() and self._clock.monotonic() < deadline:
            self._clock.sleep(0.01)

    def _write(self, phase: ProcessPhase, epoch: int, checkpoint: int, incarnation: int) -> None:
        line = json.dumps(
            {
                "process": self.process,
                "pid": os.getpid(),
                "phase": phase.value,
                "nth": self._counts[phase],
                "epoch": epoch,
                "checkpoint": checkpoint,
                "incarnation": incarnation,
                "t_ms": self._clock.now_ms(),
            }
        )
        # One write with O_APPEND: lines of several processes do not mix.
        descriptor = os.open(self._log or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, (line + "\n").encode())
        finally:
            os.close(descriptor)
