"""Periodic savepoints, for the runner and the operator alike: the time between two of them, and how far a clock may be
ahead and still be believed."""

from __future__ import annotations

LEAST_INTERVAL_S = 1
SOON_S = 60
"""How far another clock, or this one before it was set, may be ahead and still be believed."""


def interval_s(told_s: float) -> int:
    """The seconds of a job's ``savepoints.interval``: whole ones, because the names and ids that derive from a
    savepoint's time have no fractions, and at least one."""
    return max(LEAST_INTERVAL_S, round(told_s))
