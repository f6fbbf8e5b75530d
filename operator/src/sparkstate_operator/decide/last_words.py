"""The meaning of a driver's end, by its exit code, its last word, and whether somebody took its pod away."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sparkstate_operator import observed
from sparkstate_operator.decide import precedence

FINAL_REASONS = frozenset(
    {"JobFailed", "UserCodeError", "StateError", "SerializationError", "SpecInvalid", "NotInThisVersion"}
)
"""Reasons of the engine after which another attempt would end the same way (its own restart strategy has given up)."""
SPEC_INVALID, RESTORE_BLOCKED, FENCED, STORAGE = 2, 3, 4, 5
LOST_BY_NODE = frozenset({"Unknown", "ContainerStatusUnknown"})
"""The kubelet's reasons for the end of a container that its node knows nothing of any more, after a reboot for example.
The exit code is invented."""
STOPPED_WORDS = frozenset({"Suspended", "Cancelled", "Terminated"})
"""Last words of a driver that was told to end, and did in good order."""


class Meaning(enum.Enum):
    """The consequence of an end."""

    TAKEN_AWAY = "another attempt, which does not count against the restart strategy"
    FINISHED = "nothing: the job is done"
    FENCED = "another attempt above the one that has claimed the lineage"
    STOPPED = "another attempt: the job has to run"
    FAILED = "as the failure of its container says"


class Failure(enum.Enum):
    """The consequence of a container's failure."""

    NOT_RESTORED = "a person says what to start from"
    FINAL = "a person changes the spec"
    MAY_PASS = "another attempt, as the restart strategy says"


@dataclass(frozen=True)
class End:
    """``disturbed``: somebody took the pod away, or its node."""

    pod: observed.Pod
    disturbed: bool

    @property
    def reason(self) -> str:
        """The driver's own stable word; empty if it left none."""
        return str(self.pod.ended.word.get("reason", "")) if self.pod.ended is not None else ""

    def exited(self, code: int) -> bool:
        """Whether it ended by itself, with this code."""
        return self.pod.ended is not None and self.pod.ended.exit_code == code


def meaning(end: End) -> Meaning:
    """Of a driver that is dead, or about to end and has not said it yet."""
    return precedence.first(MEANINGS, end) or Meaning.FAILED


def _taken_away(end: End) -> Meaning | None:
    """Nobody's fault, so it counts for nothing. A final word counts all the same: what a driver found out about its
    job does not become untrue by a drain that came at the same time."""
    ended = end.pod.ended
    nobodys_fault = ended is None or (end.disturbed and not is_final(ended))
    return Meaning.TAKEN_AWAY if nobodys_fault else None


def _finished(end: End) -> Meaning | None:
    """Only if exit code and word agree: after any other code the input is not known to be worked through."""
    return Meaning.FINISHED if end.exited(0) and end.reason == "Finished" else None


def _fenced(end: End) -> Meaning | None:
    """By the word or by the code. Its code is a final one, but the next attempt has only to go higher."""
    return Meaning.FENCED if end.reason == "Fenced" or end.exited(FENCED) else None


def _stopped(end: End) -> Meaning | None:
    """It ended in good order, and we did not ask for it: otherwise there would be an intent."""
    return Meaning.STOPPED if end.exited(0) and end.reason in STOPPED_WORDS else None


MEANINGS = (_taken_away, _finished, _fenced, _stopped)
"""None of them: the container failed."""


def failure(ended: observed.Termination) -> Failure:
    """Of a container that failed."""
    return precedence.first(FAILURES, ended) or Failure.MAY_PASS


def _not_restored(ended: observed.Termination) -> Failure | None:
    """Has a phase of its own, for only its user may give state up."""
    return Failure.NOT_RESTORED if ended.exit_code == RESTORE_BLOCKED else None


def _final(ended: observed.Termination) -> Failure | None:
    """Before the restart strategy is asked, because another attempt would cost time and change nothing."""
    return Failure.FINAL if is_final(ended) else None


FAILURES = (_not_restored, _final)
"""None of them: it may pass."""


def is_of_node(ended: observed.Termination) -> bool:
    """Whether its node was started anew, or has lost the container, so that nobody saw it end."""
    return ended.reason in LOST_BY_NODE and not ended.word


def is_final(ended: observed.Termination) -> bool:
    """Whether another attempt would end the same way, or nobody wants one."""
    word = str(ended.word.get("reason", ""))
    if ended.exit_code == 0:
        return word in ("Finished", "Fenced")
    if ended.exit_code in (SPEC_INVALID, RESTORE_BLOCKED, FENCED) or word in FINAL_REASONS:
        return True
    return ended.exit_code == STORAGE and bool(word) and word != "StorageUnavailable"
