"""How the slots of a job are spread over executors."""

from __future__ import annotations


def count(slots: int, slots_per_executor: int) -> int:
    """How many executors hold all slots: each has as many as it may, the last one what is left."""
    return -(-slots // slots_per_executor)
