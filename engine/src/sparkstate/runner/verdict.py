"""The meaning of a driver process's end: finished, failed for good, or crashed and worth another attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sparkstate import signals

FINAL_REASONS = frozenset(
    {"JobFailed", "UserCodeError", "StateError", "SerializationError", "SpecInvalid", "NotInThisVersion"}
)
"""Reasons with exit code 1 after which another attempt would end the same way."""
FINAL_CODES = frozenset({2, 3, 4})
"""Specification wrong, restore blocked, fenced: another start could repair none of these (``errors``)."""
STORAGE_CODE = 5


@dataclass(frozen=True)
class Termination:
    """The driver's last word, from its termination log."""

    reason: str
    message: str


@dataclass(frozen=True)
class DriverExit:
    """How the process ended: ``code`` as ``subprocess`` gives it (negative: killed by that signal)."""

    code: int
    termination: Termination | None = None


@dataclass(frozen=True)
class Finished:
    """The driver did all it was asked to do."""

    message: str


@dataclass(frozen=True)
class Failed:
    """No other attempt: leave with ``exit_code``."""

    exit_code: int
    reason: str
    message: str


@dataclass(frozen=True)
class Crashed:
    """Another attempt may succeed, if the restart strategy allows it."""

    message: str


Verdict = Finished | Failed | Crashed


def judge(ended: DriverExit) -> Verdict:
    """Decide what a driver's end means. That a process was killed proves nothing about the job."""
    termination = ended.termination
    if ended.code == 0:
        return Finished(termination.message if termination else "")
    if ended.code < 0:
        return Crashed(f"the driver was killed by {signals.name_of(-ended.code)}")
    reason = termination.reason if termination else ""
    message = termination.message if termination else f"the driver ended with exit code {ended.code}"
    if ended.code in FINAL_CODES or reason in FINAL_REASONS:
        return Failed(ended.code, reason, message)
    if ended.code == STORAGE_CODE and reason != "StorageUnavailable":
        return Failed(ended.code, reason, message)
    return Crashed(f"{reason}: {message}" if reason else message)


def read_termination(path: Path) -> Termination | None:
    """The driver's last word, ``{"reason": …, "message": …}``; None if it left none or a torn one."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict):
        return None
    return Termination(str(document.get("reason", "")), str(document.get("message", "")))
