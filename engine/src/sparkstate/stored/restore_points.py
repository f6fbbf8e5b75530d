"""The snapshot that a job would start from, found without a claim: by a URL, or as a start finds it by the job's name.

The job may run meanwhile, and drop the checkpoint that its log has just named; then the log is read again.
"""

from __future__ import annotations

from typing import Final

from sparkstate import clock as clocks
from sparkstate import errors, settings
from sparkstate.checkpoint import restore, savepoint
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.checkpoint.savepoint import OpenStore
from sparkstate.log import lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.state import LogState
from sparkstate.storage import layout, naming
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.storage.prefixed import PrefixedStore
from sparkstate.stored import lineages

_TRIES: Final = 5


def of_job(job: settings.JobSettings, clock: clocks.Clock) -> RestoredSnapshot:
    """The snapshot that the next start of the job would restore; the plan is ``empty`` where there is none.

    Raises ``RestoreBlocked`` where the start would.
    """
    opened = lineages.opener(job, clock)
    fresh = job.start_empty or bool(job.pod and job.pod.start_fresh)
    if job.start_empty and not job.restore_from:
        return RestoredSnapshot(RestorePlan("empty", "startEmpty is true: nothing would be restored"))
    found = None if fresh else lineages.find(job, clock)
    if found is not None:
        return _newest(found.log, found.lineage.store.url, opened, job.restore_from, job.start_empty)
    where = f"the new state of the job {job.name} in {job.checkpoint.storage}"
    return _read(restore.decide_restore(LogState(), where, job.restore_from, job.start_empty), opened)


def at(url: str, job: settings.JobSettings, clock: clocks.Clock) -> RestoredSnapshot:
    """The snapshot at ``url``: the folder of a savepoint or checkpoint, or its ``_metadata``; the folder of a lineage,
    or a checkpoint storage that has one by the job's name, of which the newest completed snapshot counts.

    Raises ``NotFound`` for any other URL, ``CorruptData`` and ``UnknownFormat`` for a damaged one.
    """
    opened = lineages.opener(job, clock)
    named = naming.normalise_url(url)
    try:
        plan = RestorePlan("savepoint", f"the snapshot at {savepoint.folder_of(named)}", named)
        return _opened(plan, opened)
    except errors.NotFound as error:
        missing = error
    try:
        folder = opened(named)
    except errors.NotFound:
        raise _nothing_at(named, str(missing)) from missing
    log = LineageLog(folder, clock)
    if not log.refresh().last_number:
        folder = _lineage_in(folder, named, lineage.JobName.of(job))
        log = LineageLog(folder, clock)
    return _newest(log, folder.url, opened)


def _lineage_in(storage: ObjectStore, url: str, name: lineage.JobName) -> ObjectStore:
    found = lineage.find(storage, name)
    if found is None:
        raise _nothing_at(
            url, f"it holds neither {layout.METADATA}, nor a log, nor state of a job named {name}"
        )
    return PrefixedStore(storage, found.id)


def _nothing_at(url: str, why: str) -> errors.NotFound:
    return errors.NotFound(
        f"--from {url}: {why}; name the folder of a savepoint or checkpoint, of a lineage, or a checkpoint storage"
    )


def _newest(
    log: LineageLog, url: str, opened: OpenStore, restore_from: str | None = None, start_empty: bool = False
) -> RestoredSnapshot:
    for _ in range(_TRIES - 1):
        plan = restore.decide_restore(log.refresh(), url, restore_from, start_empty)
        try:
            return _read(plan, opened)
        except errors.RestoreBlocked:
            if restore.decide_restore(log.refresh(), url, restore_from, start_empty) == plan:
                raise
    return _read(restore.decide_restore(log.refresh(), url, restore_from, start_empty), opened)


def _read(plan: RestorePlan, opened: OpenStore) -> RestoredSnapshot:
    if plan.kind == "blocked":
        raise errors.RestoreBlocked(plan.message)
    if plan.kind == "empty":
        return RestoredSnapshot(plan)
    with restore.blocked_by_damage(plan):
        return _opened(plan, opened)


def _opened(plan: RestorePlan, opened: OpenStore) -> RestoredSnapshot:
    snapshot = savepoint.open_snapshot(plan.url, opened)
    return RestoredSnapshot(plan, snapshot.metadata, snapshot.store)
