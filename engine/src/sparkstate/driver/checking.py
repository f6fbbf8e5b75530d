"""``sparkstate check``: the job declares itself in a session of Spark; its states are put beside a snapshot's.

No query starts, no row is read, and nothing is written to the storage. The code that runs is the job's own: its
function ``job(spark, params)``, and ``open`` and ``close`` of every function that it declares.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sparkstate import clock as clocks
from sparkstate import errors, java, user_errors
from sparkstate.backends import canonical
from sparkstate.checkpoint import restore
from sparkstate.checkpoint.downloader import Downloader
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.compatibility import comparison, declaration, differences, opening
from sparkstate.compatibility.report import JobFinding, Report
from sparkstate.driver import entry, preparing, restoring, slot_pool
from sparkstate.driver.backend_trial import BackendTrial
from sparkstate.driver.code_settings import CodeSettings
from sparkstate.driver.job_parameters import JobParameters
from sparkstate.keygroups import KeySpace
from sparkstate.log.lineage import JobName
from sparkstate.settings import JobSettings, StateBackendSettings
from sparkstate.spark import graph, planning, plans, position, session
from sparkstate.spark.jvm import Jvm
from sparkstate.storage import naming
from sparkstate.stored import restore_points
from sparkstate_spec.given import Leaves

_IN_MEMORY: Final = (
    "nothing is stored: checkpoints lie in the memory of the job's driver, and end with it; give --from URL for a "
    "savepoint"
)


def check(
    settings: JobSettings,
    url: str | None,
    clock: clocks.Clock,
    *,
    by_savepoint: bool = False,
    code: CodeSettings | None = None,
) -> Report:
    """Compare the job's code with the snapshot at ``url``; None: with what its next start would restore.
    ``by_savepoint``: a savepoint of the same states comes in its place, which either backend can read. ``code`` decides
    the settings again once the job's code has had its word.

    ``settings.work_dir`` is for Spark's files, and for the trial of a state backend of the job's own. Raises what a
    driver's start raises: ``RestoreBlocked``, ``SpecInvalid``, ``BackendRefused``, ``BackendUnavailable``,
    ``DeclarationError``, ``UserCodeError``, ``StorageError``.
    """
    code = code or CodeSettings()
    # Asked first: a URL without a snapshot should not wait for Spark.
    asked = _restored(settings, url, clock) if url is not None or settings.checkpoint.storage else None
    with _declared(replace(settings, deployment="local", pod=None), code.beneath) as (declared, python_path):
        preparing.check_sinks(settings, declared)
        planning.check_files(declared)
        chosen, _ = code.over(settings, declared)
        restored = asked or _restored_by_code(chosen, clock)
        key_space, refused = _key_space(chosen, restored)
        specs = planning.operator_specs(declared)
        slots = min(chosen.slots, key_space.shards)
        moved, unseen = _sources(restored, declared)
        refused += (*moved, *_premises(restored, declared), *_keys(restored, declared))
        notices = [*unseen, *_unseen_keys(restored), *_tried(chosen, python_path, clock)]
        own = chosen.backend if chosen.backend.type == "custom" else declaration.EITHER
        request = opening.OpeningRequest(specs, key_space, slots, dict(settings.entry.params), own)
        found = opening.opened(slot_pool.pickled(request), python_path)
    return _report(chosen, restored, found, refused, tuple(notices), by_savepoint)


def _restored(settings: JobSettings, url: str | None, clock: clocks.Clock) -> RestoredSnapshot:
    if url is not None:
        return restore_points.at(url, settings, clock)
    found = restore_points.of_job(settings, clock)
    if found.plan.kind == "empty" and naming.is_memory(settings.checkpoint.storage):
        return replace(found, plan=replace(found.plan, message=_IN_MEMORY))
    return found


def _restored_by_code(chosen: JobSettings, clock: clocks.Clock) -> RestoredSnapshot:
    """For a manifest that names no checkpoint storage. ``chosen``: with that of the job's code."""
    storage = chosen.checkpoint.storage
    if naming.is_memory(storage):
        return _restored(chosen, None, clock)
    raise errors.SpecInvalid(
        f"spec.checkpointing.storage is missing, and only the job's code says where the state is ({storage}); give "
        f"--from {storage}, or the URL of a savepoint"
    )


def _tried(chosen: JobSettings, python_path: tuple[str, ...], clock: clocks.Clock) -> list[str]:
    """The verdict of the conformance kit on a state backend of the job's own. Raises as the start does."""
    said: list[str] = []
    nothing_planned = StateBackendSettings()
    folder = Path(chosen.work_dir)
    BackendTrial(nothing_planned, python_path, folder, clock, said.append).require(chosen.backend)
    return said


@contextlib.contextmanager
def _declared(settings: JobSettings, beneath: Leaves) -> Iterator[tuple[graph.Graph, tuple[str, ...]]]:
    """The declared job and the folders with its modules, while Spark's session lives: the types of its columns are
    asked for in the JVM."""
    os.environ.update(java.find(os.environ).environment())
    spark = session.Beginning(settings, Jvm(settings)).session()
    try:
        job, python_path = entry.load(settings.entry)
        session.ship(spark, sys.modules.get(job.__module__) if python_path else None, python_path)
        yield _calling(job, spark, JobParameters(settings.entry.params), beneath), python_path
    finally:
        spark.stop()


def _calling(job: entry.JobFunction, spark: Any, params: JobParameters, beneath: Leaves) -> graph.Graph:
    try:
        return graph.declare(job, spark, params, beneath=beneath)
    except errors.SparkstateError:
        raise
    except Exception as error:
        raise errors.UserCodeError(f"the job's function raised {user_errors.describe(error)}") from error


def _sources(
    restored: RestoredSnapshot, declared: graph.Graph
) -> tuple[tuple[JobFinding, ...], tuple[str, ...]]:
    """The refusals of a start: its own, and those of Spark, which counts a frame for each time that it is read. And
    notices about a snapshot of an older version, which does not say who read its sources."""
    readers = restored.metadata.source_readers if restored.metadata is not None else ()
    offsets, formats = _offsets(restored), _formats(declared)
    notices = () if readers else differences.notices(offsets, formats)
    try:
        restoring.require_sources(restored, declared)
    except errors.RestoreBlocked as error:
        return differences.of_readers(readers, declared.source_readers(), str(error)), notices
    return differences.of_sources(offsets, formats), notices


def _premises(restored: RestoredSnapshot, declared: graph.Graph) -> Iterator[JobFinding]:
    where = restored.plan.url
    for each in restoring.changed_premises(restored, declared):
        yield differences.of_premises(each.uid, each.field, each.before, each.now, each.message(where))


def _keys(restored: RestoredSnapshot, declared: graph.Graph) -> Iterator[JobFinding]:
    where = restored.plan.url
    for each in restoring.changed_keys(restored, declared):
        yield differences.of_keys(each.uid, each.field, each.before, each.now, each.message(where))


def _unseen_keys(restored: RestoredSnapshot) -> tuple[str, ...]:
    """Notices about a snapshot of an older version, as above."""
    metadata = restored.metadata
    if metadata is None or metadata.key_columns:
        return ()
    return differences.key_notices({state.key_type for state in metadata.states})


def _formats(declared: graph.Graph) -> list[str]:
    """Of the sources, in the order in which the query's plan uses them."""
    return [each for source in declared.sources for each in plans.source_uses(source.frame)]


def _offsets(restored: RestoredSnapshot) -> tuple[str, ...]:
    """The stored position's; empty where the snapshot has none."""
    metadata = restored.metadata
    if metadata is None or metadata.source_position is None or restored.store is None:
        return ()
    with (
        contextlib.closing(Downloader(restored.store, 1)) as downloader,
        restore.blocked_by_damage(restored.plan),
    ):
        archive = downloader.read(metadata.source_position)
        return position.offsets(archive) if archive else ()


def _key_space(settings: JobSettings, restored: RestoredSnapshot) -> tuple[KeySpace, tuple[JobFinding, ...]]:
    """The key space of the next start; where that is refused, the stored one, so that the states can be compared."""
    try:
        return restoring.key_space(settings, restored), ()
    except errors.SpecInvalid:
        if restored.metadata is None:
            raise
        stored = restored.metadata.key_space
        return stored, differences.of_key_space(
            stored, settings.max_parallelism, settings.shards, settings.slots
        )


def _report(
    settings: JobSettings,
    restored: RestoredSnapshot,
    declared: tuple[declaration.DeclaredOperator, ...],
    refused: tuple[JobFinding, ...],
    notices: tuple[str, ...],
    by_savepoint: bool,
) -> Report:
    metadata = restored.metadata
    found = refused
    if metadata is not None:
        formats = {canonical.FORMAT} if by_savepoint else {shard.format for shard in metadata.shards}
        found += differences.of_backend(formats, metadata.backend, settings.backend.type)
        found += differences.of_slots(metadata.slots, settings.slots)
    return Report(
        job=str(JobName.of(settings)),
        url=restored.plan.url or None,
        kind=metadata.kind if metadata else None,
        id=metadata.checkpoint_id if metadata else None,
        epoch=metadata.epoch if metadata else None,
        found=restored.plan.message,
        states=comparison.compare(
            metadata.states if metadata else (),
            declared,
            backend=settings.backend.type,
            may_drop=settings.allow_non_restored_state,
        ),
        differences=found,
        notices=notices,
    )
