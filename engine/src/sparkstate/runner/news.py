"""The news of a running driver since the last look at it, in sentences that stay."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate import errors
from sparkstate.control import documents


@dataclass(frozen=True)
class ToldNews:
    """The outages and restarts of one driver that the user has been told of."""

    away: frozenset[str] = frozenset()
    """Storages of which it was said that they are away."""
    restarts: int = 0
    reason: str = ""
    """Of the last restart."""


def since(told: ToldNews, status: documents.JobStatus) -> tuple[tuple[str, ...], ToldNews]:
    """The sentences about outages and restarts that ``told`` lacks, and what the user knows once they are said.

    An outage is over when the job runs and names the storage no longer: a driver that is about to end names none.
    """
    away = {place.url: place for place in status.storage_away}
    begun = tuple(
        f"storage away: {url}: {place.message}; the job goes on trying"
        for url, place in away.items()
        if url not in told.away
    )
    runs = status.phase is documents.DriverPhase.RUNNING
    over = tuple(f"storage back: {url}" for url in sorted(told.away - away.keys()) if runs)
    known = frozenset(away) if runs else told.away | away.keys()
    restarted, reason = _restarted(told, status)
    return (*begun, *restarted, *over), ToldNews(away=known, restarts=status.restarts, reason=reason)


def _restarted(told: ToldNews, status: documents.JobStatus) -> tuple[tuple[str, ...], str]:
    """The sentence about a restart within the driver, if there is one to say, and the reason of the last restart."""
    if status.restarts <= told.restarts or status.last_failure is None:
        return (), told.reason
    failure = status.last_failure
    if failure.reason == told.reason == errors.StorageUnavailable.__name__:
        return (), told.reason  # one more try every two seconds, which the outage explains
    lines = failure.message.splitlines() or [""]
    return (f"restart {status.restarts} within the driver: {failure.reason}: {lines[0]}",), failure.reason
