"""What the storage says about a job, read without a driver and without writing anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparkstate import clock as clocks
from sparkstate import errors, settings, storage
from sparkstate.checkpoint import savepoint
from sparkstate.log import lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.state import LogState
from sparkstate.runner import retention
from sparkstate.storage.objectstore import ObjectStore


@dataclass(frozen=True)
class Found:
    """A job's lineage and what its log says."""

    lineage: lineage.Lineage
    log: LineageLog
    state: LogState


def find(job: settings.JobSettings, clock: clocks.Clock) -> Found | None:
    """The lineage that the job's name points to; None before its first start.

    Raises what the storage raises.
    """
    try:
        root = opener(job, clock)(job.checkpoint.storage)
    except errors.NotFound:  # a local folder that the first driver will make
        return None
    found = lineage.find(root, lineage.JobName.of(job))
    if found is None:
        return None
    log = LineageLog(found.store, clock)
    return Found(found, log, log.refresh())


def has_had(job: settings.JobSettings, known: str) -> bool:
    """Whether the job's name points to the lineage ``known`` in its storage, or did once. Call it when :func:`find` has
    found one: a folder that is missing then is a storage that went away since."""
    root = storage.open_made(job.checkpoint.storage, job.s3)
    return lineage.has_had(root, lineage.JobName.of(job), known)


def last_attempt(found: Found | None) -> int:
    """The highest attempt that ever claimed the lineage; 0 if none did. A new one must be higher."""
    if found is None or found.state.claim is None:
        return 0
    return found.state.claim.attempt


def opener(job: settings.JobSettings, clock: clocks.Clock) -> Callable[[str], ObjectStore]:
    """Opens the URLs that a job's log names, with the job's access to S3; creates nothing."""
    return lambda url: storage.open_store(url, job.s3, clock=clock, create=False)


def savepoints_of(job: settings.JobSettings, found: Found, clock: clocks.Clock) -> savepoint.Savepoints:
    """The savepoints of a job's lineage, to find and to delete."""
    return savepoint.Savepoints(found.lineage, found.log, opener(job, clock))


class Shelf:
    """The completed savepoints of one job, read anew at every call. Implements ``periodic.Shelf``."""

    def __init__(self, job: settings.JobSettings, clock: clocks.Clock) -> None:
        self._job = job
        self._clock = clock

    def completed(self) -> list[retention.Kept]:
        """All completed savepoints of the job's present lineage; none before the job's first start."""
        found = find(self._job, self._clock)
        return [] if found is None else kept(found.state)

    def delete(self, expired: retention.Kept) -> None:
        """Delete one with its files; that it is gone already is no error."""
        found = find(self._job, self._clock)
        if found is not None and expired in kept(found.state):
            savepoints_of(self._job, found, self._clock).delete(expired.url)


def kept(state: LogState) -> list[retention.Kept]:
    """The completed savepoints that a log names, as the retention rules see them."""
    return [
        retention.Kept(url=record.url, trigger_id=record.trigger_id, completed_ms=record.timestamp_ms)
        for record in state.savepoints
    ]
