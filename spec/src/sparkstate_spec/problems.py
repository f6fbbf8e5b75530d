"""Findings about a spec."""

from __future__ import annotations

from dataclasses import dataclass

NOT_IN_THIS_VERSION = "not in this version"


def beyond_shards(shards: int) -> str:
    """The message about a number of slots that the shards of the job's state do not allow."""
    return f"must lie between 1 and the job's {shards} shards, which were fixed when the job was created"


@dataclass(frozen=True, order=True)
class Problem:
    """One finding: ``path`` of the field (``spec.slots``), what is wrong and the remedy, a note on the value."""

    path: str
    message: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}{f' ({self.note})' if self.note else ''}"
