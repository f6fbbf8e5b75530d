"""The properties of a job that a restored snapshot fixes, and the jobs that it refuses."""

from __future__ import annotations

from dataclasses import replace

from sparkstate import errors, keygroups
from sparkstate.checkpoint import premises
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.keygroups import KeySpace
from sparkstate.settings import JobSettings
from sparkstate.spark import graph


def require_operators(settings: JobSettings, restored: RestoredSnapshot, declared: graph.Graph) -> None:
    """State without an operator would be dropped silently: refuse unless told to."""
    if restored.metadata is None or settings.allow_non_restored_state:
        return
    gone = sorted({state.uid for state in restored.metadata.states} - set(declared.operators))
    if gone:
        raise errors.RestoreBlocked(
            f"{restored.plan.url} holds state of operator(s) {', '.join(gone)}, which the job does not have "
            f"(it has {', '.join(sorted(declared.operators))}); give the operator its old uid, or set "
            "allowNonRestoredState: true to drop that state"
        )


def require_premises(restored: RestoredSnapshot, declared: graph.Graph) -> None:
    """State that was built on another size of windows, or other aggregates, would give wrong results: refuse it."""
    if restored.metadata is None:
        return
    for uid, stored in restored.metadata.premises.items():
        if uid in declared.operators:
            premises.check(uid, stored, declared.operators[uid].function.state_premises, restored.plan.url)


def key_space(settings: JobSettings, restored: RestoredSnapshot) -> KeySpace:
    """Fixed at the job's creation: a restored snapshot decides; a manifest that says otherwise is refused."""
    maximum = settings.max_parallelism or keygroups.default_max_parallelism(settings.slots)
    if restored.metadata is None:
        return KeySpace(maximum, settings.shards or keygroups.default_shards(settings.slots, maximum))
    stored = restored.metadata.key_space
    if settings.max_parallelism not in (None, stored.max_parallelism):
        raise errors.SpecInvalid(
            f"spec.maxParallelism is {settings.max_parallelism}; the restored state was created with "
            f"{stored.max_parallelism}, which cannot change: leave the field out"
        )
    if settings.shards not in (None, stored.shards):
        raise errors.SpecInvalid(
            f"spec.shards is {settings.shards}; the restored state was created with {stored.shards}, which cannot "
            "change: leave the field out"
        )
    stored.shards_of_slot(0, settings.slots)  # refuses more slots than shards
    return replace(stored)
