"""Findings about a manifest, collected so that several are reported together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkstate import errors

NOT_IN_THIS_VERSION = "not in this version"


@dataclass(frozen=True, order=True)
class Problem:
    """One finding: ``path`` of the field (``spec.slots``), what is wrong and the remedy, a note on the value."""

    path: str
    message: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}{f' ({self.note})' if self.note else ''}"


def raise_if_any(problems: Sequence[Problem], name: str) -> None:
    """Raise one error that lists all problems; ``NotInThisVersion`` if nothing else is wrong."""
    if not problems:
        return
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    later = all(NOT_IN_THIS_VERSION in problem.message for problem in problems)
    kind = errors.NotInThisVersion if later else errors.SpecInvalid
    text = lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    raise kind(f"{name}: {text}" if len(lines) == 1 else f"{name} has {len(lines)} problems:{text}")
