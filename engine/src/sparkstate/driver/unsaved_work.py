"""The part of a job's work that no completed checkpoint holds: seconds, and output that the slots hold back."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate.checkpoint.coordinator import Backlog
from sparkstate.clock import Clock


@dataclass(frozen=True)
class Mark:
    """How much there was when a checkpoint began."""

    worked_s: float
    held_bytes: int


class UnsavedWork:
    """Of one incarnation. Written by the epochs' thread and the checkpoint's, each with assignments only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._worked_s = self._saved_s = 0.0
        self._saved_at = clock.monotonic()
        self.held_bytes = 0
        """The most that one slot holds back, as of the last commit."""

    def note_work(self, seconds: float) -> None:
        """How long an epoch took that changed something."""
        self._worked_s += seconds

    def note_held(self, held_bytes: int | None) -> None:
        """The figure from an epoch's commit. None: there was nothing to commit, and the last figure stays. When an idle
        epoch repeated the last figure, which a checkpoint had subtracted, one checkpoint followed another."""
        if held_bytes is not None:
            self.held_bytes = held_bytes

    def mark(self) -> Mark:
        """A checkpoint begins."""
        return Mark(self._worked_s, self.held_bytes)

    def committed(self, mark: Mark) -> None:
        """A restart goes back to the checkpoint that began there."""
        self._saved_s = mark.worked_s

    def completed(self, mark: Mark) -> None:
        """Its output is published as well."""
        self._saved_at = self._clock.monotonic()
        self.held_bytes = max(0, self.held_bytes - mark.held_bytes)

    @property
    def work_s(self) -> float:
        """Seconds of work, without waiting for input, that a restart repeats."""
        return self._worked_s - self._saved_s

    @property
    def age_s(self) -> float:
        """Since the newest completed checkpoint, or the begin of the incarnation."""
        return self._clock.monotonic() - self._saved_at

    def backlog(self, *, storage_away: bool) -> Backlog:
        """For the coordinator."""
        return Backlog(held_bytes=self.held_bytes, age_s=self.age_s, storage_away=storage_away)
