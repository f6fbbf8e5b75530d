"""One line of the report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One finding: the thing examined, and its state. ``required`` is False for things that only some jobs need."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True
