"""A lineage that this driver has claimed: all durable things that need nothing of the job's code.

The claim comes first. While it waits for an earlier driver, or for its storage, Spark starts and the job declares
itself; only both together make a ``JobStorage``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from sparkstate import clock, storage
from sparkstate.checkpoint.savepoint import Savepoints
from sparkstate.checkpoint.store import CompletedCheckpointStore
from sparkstate.driver.storage_outages import StorageOutages
from sparkstate.log.lineage import JobName, Lineage, open_lineage, require
from sparkstate.log.log import ClaimedLog, LineageLog
from sparkstate.log.records import SavepointCommitted
from sparkstate.settings import JobSettings
from sparkstate.storage import naming, probe
from sparkstate.storage.objectstore import ObjectStore


class CheckpointIds:
    """Numbers for checkpoints and savepoints, of which a lineage uses none twice. ``first`` is the lowest free one."""

    def __init__(self, log: ClaimedLog, first: int) -> None:
        self._log = log
        self._ids = itertools.count(first)
        self._newest = 0

    def new(self) -> int:
        """The next one."""
        self._newest = next(self._ids)
        return self._newest

    def peek(self) -> int:
        """The number that the next one will probably have."""
        return max(self._newest + 1, self._log.state.last_checkpoint_id + 1)


@dataclass(frozen=True, kw_only=True)
class ClaimedLineage:
    """Made by :func:`claim`."""

    settings: JobSettings
    clock: clock.Clock
    outages: StorageOutages
    """Where every storage is noted that does not answer."""
    root: ObjectStore
    """The storage of the checkpoints, in which lineages lie side by side."""
    lineage: Lineage
    log: ClaimedLog
    """With the right to commit."""
    stores: storage.OpenStores
    savepoints: Savepoints
    ids: CheckpointIds

    def find_savepoint(self, trigger_id: str) -> SavepointCommitted | None:
        """A completed savepoint of that trigger id, from the log."""
        return self.savepoints.find(trigger_id).committed


def claim(
    settings: JobSettings,
    clock_: clock.Clock,
    attempt: int,
    driver: str,
    before_claim: Callable[[LineageLog], object] = lambda log: None,
    outages: StorageOutages | None = None,
) -> ClaimedLineage:
    """Take the job's lineage over, and make it if there is none.

    ``driver`` names this one in the log. ``before_claim`` is called when the log is open and not yet claimed. Raises
    ``Fenced`` if a later attempt has the lineage, and ``StorageUnavailable`` while the storage is away.
    """
    # Memory ended with the driver that knew the lineage.
    known = "" if naming.is_memory(settings.checkpoint.storage) else settings.known_lineage
    name = JobName.of(settings)
    opened = storage.open_made if known else storage.open_store
    root = opened(settings.checkpoint.storage, settings.s3)
    require(root, name, known)  # before the first write, which may go to a bare mount point
    probe.require_conditional_create(root)
    pod = settings.pod
    found = open_lineage(
        root,
        name,
        clock_,
        start_empty=settings.start_empty or bool(pod and pod.start_fresh),
        attempt=(pod or settings).start_since or attempt,
        uid=pod.job_uid if pod else "",
    )
    # A folder that an earlier driver of this run has used is not made again, empty.
    own = storage.open_within(root, found.id, settings.s3, make=found.id != known)
    lineage = replace(found, store=own)
    unclaimed = LineageLog(own, clock_)
    before_claim(unclaimed)
    log = unclaimed.claim(attempt, driver)
    stores = storage.OpenStores(settings.s3)
    completed = CompletedCheckpointStore(own, log, settings.checkpoint.retained)
    return ClaimedLineage(
        settings=settings,
        clock=clock_,
        outages=outages or StorageOutages(clock_),
        root=root,
        lineage=lineage,
        log=log,
        stores=stores,
        savepoints=Savepoints(lineage, log, stores.get),
        ids=CheckpointIds(log, completed.next_checkpoint_id()),
    )
