"""How long the deletion of an object may take, whatever its spec says."""

from __future__ import annotations

from datetime import timedelta

from sparkstate_spec import built_in, units

_BUILT_IN_S = units.duration_s(built_in.value("deletion.deadline"))


def of_deletion(told: str, otherwise_s: float = _BUILT_IN_S) -> timedelta:
    """The time until the deletion is over. It ends even if nobody can read the deadline, or if it lies beyond all
    dates that Python knows."""
    seconds = units.duration_s(told) if units.DURATION.fullmatch(told) else otherwise_s
    return timedelta(seconds=min(seconds, units.duration_s(units.LONGEST)))
