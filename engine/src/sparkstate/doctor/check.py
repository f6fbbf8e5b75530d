"""One line of the report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """What was looked at, and what it was found to be. ``required`` is False for what only some jobs need."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True
