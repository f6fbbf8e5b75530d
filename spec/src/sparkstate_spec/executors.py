"""How the slots of a job are spread over executors."""

from __future__ import annotations


def count(slots: int, slots_per_executor: int) -> int:
    """How many executors hold all slots: each has as many as it may, and the last one has the rest."""
    return -(-slots // slots_per_executor)
