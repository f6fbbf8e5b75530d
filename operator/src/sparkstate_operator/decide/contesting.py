"""A driver that is fenced again and again, because somebody else runs a job of this name on the same storage.

One fence is ordinary: a job that was deleted and made again meets the attempts of its predecessor, and goes above them.
Two clusters of one name on one storage fence each other without end, and neither makes progress. So each fence within
the hour is followed by a longer pause, and after :data:`MOST` the job stops;
the other one then has the lineage to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import clock

REASON = "LineageContested"
WINDOW_S = 3600.0
"""Fences that are older are forgotten."""
FIRST_PAUSE_S = 10.0
MOST = 6
"""Fences within the window that end the job."""


def counted(restarts: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The counters with one fence more."""
    oldest = now - timedelta(seconds=WINDOW_S)
    times = [
        moment for text in restarts.get("fenced") or () if (moment := clock.parse(text)) and moment > oldest
    ]
    return {**restarts, "fenced": [clock.text(moment) for moment in (*times, now)][-MOST:]}


def pause_s(fenced: Sequence[str]) -> float | None:
    """How long to wait after the newest of these fences; None: give up."""
    if len(fenced) >= MOST:
        return None
    return 0.0 if len(fenced) <= 1 else FIRST_PAUSE_S * 2.0 ** (len(fenced) - 2)


def told(fenced: Sequence[str], message: str) -> str:
    """For people: what happened, and what to do."""
    return (
        f"fenced {len(fenced)} times within an hour: {message}. Somebody else runs a job of this name on the same "
        "storage: a cluster with the same clusterName, or a second operator. Give one of them another clusterName (of "
        "the chart) or another checkpointing.storage, or delete one of the jobs; then change spec.restartNonce"
    )
