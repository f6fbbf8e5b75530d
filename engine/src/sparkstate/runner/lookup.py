"""What the storage says about a job, read without a driver and without writing anything."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate import clock as clocks
from sparkstate import settings, storage
from sparkstate.log import lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.state import LogState


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
    root = storage.open_store(job.checkpoint.storage, job.s3, clock=clock)
    name = lineage.JobName(cluster=job.cluster, namespace=job.namespace, name=job.name)
    found = lineage.find(root, name)
    if found is None:
        return None
    log = LineageLog(found.store, clock)
    return Found(found, log, log.refresh())


def last_attempt(found: Found | None) -> int:
    """The highest attempt that ever claimed the lineage; 0 if none did. A new one must be higher."""
    if found is None or found.state.claim is None:
        return 0
    return found.state.claim.attempt
