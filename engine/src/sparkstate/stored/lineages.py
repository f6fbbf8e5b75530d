"""The lineage that a job has in its storage, found by the job's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparkstate import clock as clocks
from sparkstate import errors, settings, storage
from sparkstate.log import lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.state import LogState
from sparkstate.storage import naming
from sparkstate.storage.objectstore import ObjectStore


@dataclass(frozen=True)
class FoundLineage:
    """A job's lineage and what its log says."""

    lineage: lineage.Lineage
    log: LineageLog
    state: LogState


def has_storage(job: settings.JobSettings) -> bool:
    """Whether the settings name a storage that outlives the driver. Else only the job's code may name one, which only
    the driver runs."""
    return bool(job.checkpoint.storage) and not naming.is_memory(job.checkpoint.storage)


def find(job: settings.JobSettings, clock: clocks.Clock) -> FoundLineage | None:
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
    return FoundLineage(found, log, log.refresh())


def has_had(job: settings.JobSettings, known: str) -> bool:
    """Whether the job's name points to the lineage ``known`` in its storage, or did once. Call it when :func:`find` has
    found one: a folder that is missing then is a storage that went away since."""
    root = storage.open_made(job.checkpoint.storage, job.s3)
    return lineage.has_had(root, lineage.JobName.of(job), known)


def last_attempt(found: FoundLineage | None) -> int:
    """The highest attempt that ever claimed the lineage; 0 if none did. A new one must be higher."""
    if found is None or found.state.claim is None:
        return 0
    return found.state.claim.attempt


def opener(job: settings.JobSettings, clock: clocks.Clock) -> Callable[[str], ObjectStore]:
    """Opens the URLs that a job's log names, with the job's access to S3; creates nothing."""
    return lambda url: storage.open_store(url, job.s3, clock=clock, create=False)
