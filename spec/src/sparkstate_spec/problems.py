"""Findings about a spec."""

from __future__ import annotations

from dataclasses import dataclass

NOT_IN_THIS_VERSION = "not in this version"


@dataclass(frozen=True, order=True)
class Problem:
    """One finding: ``path`` of the field (``spec.slots``), what is wrong and the remedy, a note on the value."""

    path: str
    message: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}{f' ({self.note})' if self.note else ''}"
