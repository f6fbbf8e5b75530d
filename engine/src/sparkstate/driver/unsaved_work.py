"""The part of a job's work that no completed checkpoint holds: changes, seconds, and output that the slots hold back.

A change is whatever makes the next checkpoint another one than the last: state, the position of the sources, the
watermark. A job whose sources are idle has none, and needs no checkpoint (RFC 0005).
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate.checkpoint.coordinator import Backlog
from sparkstate.clock import Clock


@dataclass(frozen=True)
class Mark:
    """How much there was when a checkpoint began."""

    changes: int
    worked_s: float
    held_bytes: int


class UnsavedWork:
    """Of one incarnation. Written by the epochs' thread and the checkpoint's, each with assignments only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changes = self._saved_changes = 0
        self._worked_s = self._saved_s = 0.0
        self._saved_at = self._changed_at = clock.monotonic()
        self.held_bytes = 0
        """The most that one slot holds back, as of the last commit."""

    def note_change(self) -> None:
        """A checkpoint of this moment holds something that those before do not."""
        if not self.changed:
            self._changed_at = self._clock.monotonic()
        self._changes += 1

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
        return Mark(self._changes, self._worked_s, self.held_bytes)

    def committed(self, mark: Mark) -> None:
        """A restart goes back to the checkpoint that began there."""
        self._saved_s = mark.worked_s

    def completed(self, mark: Mark) -> None:
        """Its output is published as well."""
        self._saved_at = self._clock.monotonic()
        self._saved_changes = mark.changes
        self.held_bytes = max(0, self.held_bytes - mark.held_bytes)

    @property
    def changed(self) -> bool:
        """Whether there is anything that the newest completed checkpoint does not hold. A checkpoint that fails changes
        nothing about that, so another one follows it."""
        return self._changes != self._saved_changes

    @property
    def work_s(self) -> float:
        """Seconds of work, without waiting for input, that a restart repeats."""
        return self._worked_s - self._saved_s

    @property
    def age_s(self) -> float:
        """For how long changes have waited for a checkpoint to complete. Only a completed one ends a wait, so it counts
        from the newest, or from the first change after it: the time in which a job was idle costs nothing."""
        if not self.changed:
            return 0.0
        return self._clock.monotonic() - max(self._saved_at, self._changed_at)

    def backlog(self, *, storage_away: bool) -> Backlog:
        """For the coordinator."""
        return Backlog(held_bytes=self.held_bytes, age_s=self.age_s, storage_away=storage_away)
