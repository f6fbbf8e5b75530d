"""The cost of a kill: pure calculations over the phase log and status documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_tools.demo.phaselog import Entry


@dataclass(frozen=True)
class Evidence:
    """The work and state that a process could lose when it was killed."""

    checkpoint: int
    checkpoint_epoch: int
    state_bytes: int
    next_timer_ms: int | None
    """The earliest armed event-time timer."""
    epochs_to_replay: int

    @property
    def missing(self) -> tuple[str, ...]:
        """The things that a convincing kill would need and that are not there yet."""
        found = {
            "a completed checkpoint": self.checkpoint > 0,
            "state": self.state_bytes > 0,
            "an armed timer": self.next_timer_ms is not None,
            "an epoch to replay": self.epochs_to_replay > 0,
        }
        return tuple(what for what, is_there in found.items() if not is_there)


def gather(status: Mapping[str, Any] | None) -> Evidence:
    """Read it from a status document; nothing at all is known while nobody answers."""
    if status is None:
        return Evidence(0, -1, 0, None, 0)
    epoch = -1 if status["epoch"] is None else status["epoch"]
    last = status["last_checkpoint"] or {"id": 0, "epoch": epoch}
    savepoint = status["last_savepoint"] or {"epoch": -1}
    return Evidence(
        checkpoint=last["id"],
        checkpoint_epoch=last["epoch"],
        state_bytes=status["state_bytes"],
        next_timer_ms=status["next_event_timer_ms"],
        epochs_to_replay=epoch - max(last["epoch"], savepoint["epoch"]),
    )


@dataclass(frozen=True)
class Kill:
    """One ``kill -9``: whom, where and when, and what there was to lose."""

    process: str
    pid: int
    phase: str
    t_ms: int
    incarnation: int
    epoch: int
    """The last epoch that had begun to be committed."""
    evidence: Evidence


@dataclass(frozen=True)
class Return:
    """How the job came back. Times are milliseconds after the kill; None: not yet."""

    incarnation: int | None = None
    noticed_ms: int | None = None
    """A new incarnation began to restore."""
    running_ms: int | None = None
    """Its first epoch was committed."""
    caught_up_ms: int | None = None
    """All epochs that the kill had undone are committed again, and one more."""
    first_epoch: int | None = None

    def replayed(self, kill: Kill) -> int | None:
        """How many epochs were done twice."""
        return None if self.first_epoch is None else kill.epoch - self.first_epoch + 1


def last_commit(entries: Iterable[Entry]) -> int:
    """The largest epoch for which the driver has given the word, -1 before the first."""
    return max(
        (entry.epoch for entry in entries if entry.process == "driver" and entry.phase == "commit"),
        default=-1,
    )


def first_commit(entries: Iterable[Entry]) -> Entry | None:
    """The first epoch for which the driver gave the word."""
    return next((entry for entry in entries if entry.process == "driver" and entry.phase == "commit"), None)


def measure(kill: Kill, entries: Iterable[Entry]) -> Return:
    """The way back after ``kill``, as far as the log tells."""
    later = [
        entry
        for entry in entries
        if entry.process == "driver" and entry.t_ms >= kill.t_ms and entry.incarnation > kill.incarnation
    ]
    commits = [entry for entry in later if entry.phase == "commit"]
    beyond = [entry for entry in commits if entry.epoch > kill.epoch]
    return Return(
        incarnation=later[0].incarnation if later else None,
        noticed_ms=later[0].t_ms - kill.t_ms if later else None,
        running_ms=commits[0].t_ms - kill.t_ms if commits else None,
        caught_up_ms=beyond[0].t_ms - kill.t_ms if beyond else None,
        first_epoch=commits[0].epoch if commits else None,
    )
