"""The properties of a job that a restored snapshot fixes, and the jobs that it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sparkstate import errors, keygroups
from sparkstate.backends.base import TIMER_KINDS
from sparkstate.checkpoint import key_columns, premises
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.keygroups import KeySpace
from sparkstate.settings import JobSettings
from sparkstate.spark import graph, planning


def require_operators(settings: JobSettings, restored: RestoredSnapshot, declared: graph.Graph) -> None:
    """State without an operator would be dropped silently: refuse unless told to."""
    gone = gone_operators(restored, declared)
    if gone and not settings.allow_non_restored_state:
        raise errors.RestoreBlocked(
            f"{restored.plan.url} holds state of operator(s) {', '.join(gone)}, which the job does not have "
            f"(it has {', '.join(sorted(declared.operators))}); give the operator its old uid, or set "
            "allowNonRestoredState: true to drop that state"
        )


def gone_operators(restored: RestoredSnapshot, declared: graph.Graph) -> tuple[str, ...]:
    """The uids of operators that have state in the snapshot and are not in the job. A start that
    :func:`require_operators` lets pass drops their state: kept without a reader, it would need the setting for ever,
    and a later operator of such a uid would find it."""
    if restored.metadata is None:
        return ()
    return tuple(sorted({state.uid for state in restored.metadata.states} - set(declared.operators)))


def require_sources(restored: RestoredSnapshot, declared: graph.Graph) -> None:
    """Spark keeps positions by the number of the source. If an operator's input had another number, it would go on at
    the position of another source: refuse."""
    metadata = restored.metadata
    if metadata is None or metadata.source_position is None or not metadata.source_position.size:
        return  # it begins at the beginning
    if not metadata.source_readers:
        return  # of an older version
    before, now = metadata.source_readers, declared.source_readers()
    moved = [
        f"input {number} of {uid!r} reads source {_numbers(reader, now)} and read source {_numbers(reader, before)}"
        for reader in sorted(_all(before) & _all(now))
        if _numbers(reader, before) != _numbers(reader, now)
        for uid, number in [reader.rsplit("/", 1)]
    ]
    if moved:
        raise errors.RestoreBlocked(
            f"{restored.plan.url} holds positions of the job's sources by their numbers, and these have changed: "
            f"{'; '.join(moved)}. Put the calls of keyed(…), stream(…) and broadcast(…) back into their order"
        )
    if len(before) != len(now):
        new, gone = sorted(_all(now) - _all(before)), sorted(_all(before) - _all(now))
        raise errors.RestoreBlocked(
            f"{restored.plan.url} holds positions of {len(before)} source(s), and the job has {len(now)}: read for the "
            f"first time by {', '.join(new) or 'no operator'}, no longer by {', '.join(gone) or 'any of those before'} "
            "(operator/input). A job with state keeps its sources; move new ones into a job of their own"
        )


def _all(readers: Sequence[Sequence[str]]) -> set[str]:
    return {reader for source in readers for reader in source}


def _numbers(reader: str, readers: Sequence[Sequence[str]]) -> str:
    return " and ".join(str(number) for number, source in enumerate(readers) if reader in source)


def require_premises(restored: RestoredSnapshot, declared: graph.Graph) -> None:
    """State that was built on another size of windows, or other aggregates, would give wrong results: refuse it. State
    and timers of a function of another kind would come to one of ours, which cannot read them."""
    for change in changed_premises(restored, declared):
        raise errors.StateMigrationError(change.message(restored.plan.url))


def changed_premises(restored: RestoredSnapshot, declared: graph.Graph) -> Iterator[premises.Change]:
    """The changes for which :func:`require_premises` refuses a job."""
    if restored.metadata is None:
        return
    with_state = _with_keyed_state(restored.metadata)
    for uid, stored in restored.metadata.premises.items():
        if uid in declared.operators and (stored or uid in with_state):
            yield from premises.changes(uid, stored, declared.operators[uid].function.state_premises)


def require_keys(restored: RestoredSnapshot, declared: graph.Graph) -> None:
    """Keys that hash otherwise than before would not find their state, and timers of an operator that has no keys any
    more would never fire: refuse both."""
    for change in changed_keys(restored, declared):
        raise errors.StateMigrationError(change.message(restored.plan.url))


def changed_keys(restored: RestoredSnapshot, declared: graph.Graph) -> Iterator[premises.Change]:
    """The changes for which :func:`require_keys` refuses a job. An operator that stored nothing by key has none."""
    if restored.metadata is None:
        return
    stored, with_state = restored.metadata.key_columns, _with_keyed_state(restored.metadata)
    columns = planning.key_columns(declared) if stored else {}
    for uid, now in columns.items():
        if uid in with_state and uid in stored:
            yield from key_columns.changes(uid, stored[uid], now)
    timers = {state.uid: state.key_type for state in restored.metadata.states if state.kind in TIMER_KINDS}
    for uid, operator in declared.operators.items():
        if uid in timers and not operator.keys:
            yield key_columns.no_keys(uid, timers[uid])


def _with_keyed_state(metadata: CheckpointMetadata) -> set[str]:
    """The uids of operators that stored anything by key, timers included. A snapshot names the states and not how much
    is in them, so one whose timers have all fired counts as well. The state of an operator in a slot is of no key, and
    has no key type."""
    return {state.uid for state in metadata.states if state.key_type}


def key_space(settings: JobSettings, restored: RestoredSnapshot) -> KeySpace:
    """Fixed at the job's creation: a restored snapshot decides; a manifest that says otherwise is refused."""
    if restored.metadata is None:
        return keygroups.of_new_job(settings.slots, settings.max_parallelism, settings.shards)
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
