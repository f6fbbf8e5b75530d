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
from typing import Any

from sparkstate import clock as clocks
from sparkstate import errors, java
from sparkstate.backends import canonical
from sparkstate.checkpoint import restore
from sparkstate.checkpoint.downloader import Downloader
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.compatibility import comparison, declaration, differences, opening
from sparkstate.compatibility.report import JobFinding, Report
from sparkstate.driver import entry, preparing, restoring, slot_pool
from sparkstate.driver.code_settings import CodeSettings
from sparkstate.keygroups import KeySpace
from sparkstate.log.lineage import JobName
from sparkstate.settings import JobSettings
from sparkstate.spark import graph, planning, plans, position, session
from sparkstate.spark.jvm import Jvm
from sparkstate.stored import restore_points
from sparkstate_spec.given import Leaves


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

    ``settings.work_dir`` is for Spark's files. Raises what a driver's start raises: ``RestoreBlocked``,
    ``SpecInvalid``, ``DeclarationError``, ``UserCodeError``, ``StorageError``.
    """
    restored = (
        restore_points.of_job(settings, clock) if url is None else restore_points.at(url, settings, clock)
    )
    code = code or CodeSettings()
    with _declared(replace(settings, deployment="local", pod=None), code.beneath) as (declared, python_path):
        preparing.check_sinks(settings, declared)
        chosen, _ = code.over(settings, declared)
        key_space, refused = _key_space(chosen, restored)
        specs = planning.operator_specs(declared)
        slots = min(chosen.slots, key_space.shards)
        read = _offsets(restored), _formats(declared)
        request = opening.OpeningRequest(specs, key_space, slots, dict(settings.entry.params))
        found = opening.opened(slot_pool.pickled(request), python_path)
        premises = {uid: each.function.state_premises for uid, each in declared.operators.items()}
    refused += differences.of_sources(*read)
    if restored.metadata is not None:
        refused += differences.of_premises(restored.metadata.premises, premises, restored.plan.url)
    return _report(chosen, restored, found, refused, differences.notices(*read), by_savepoint)


@contextlib.contextmanager
def _declared(settings: JobSettings, beneath: Leaves) -> Iterator[tuple[graph.Graph, tuple[str, ...]]]:
    """The declared job and the folders with its modules, while Spark's session lives: the types of its columns are
    asked for in the JVM."""
    os.environ.update(java.find(os.environ).environment())
    spark = session.Beginning(settings, Jvm(settings)).session()
    try:
        job, python_path = entry.load(settings.entry)
        session.ship(spark, sys.modules.get(job.__module__) if python_path else None, python_path)
        yield _calling(job, spark, dict(settings.entry.params), beneath), python_path
    finally:
        spark.stop()


def _calling(job: entry.JobFunction, spark: Any, params: dict[str, str], beneath: Leaves) -> graph.Graph:
    try:
        return graph.declare(job, spark, params, beneath=beneath)
    except errors.SparkstateError:
        raise
    except Exception as error:
        raise errors.UserCodeError(f"the job's function raised {type(error).__name__}: {error}") from error


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
