"""When to take a checkpoint, and what its failure means. Pure: frozen states and times in, states and actions
out.

Flink's rules: a checkpoint every ``interval_s``, counted from start to start; at least ``min_pause_s``
between the end of one and the start of the next; one at a time; given up after ``timeout_s``; the job fails
after more than ``tolerable_failures`` failures in a row. One rule is ours: a failure because the storage is
away counts towards nothing. Savepoints are snapshots on request: they wait for a running one, and for neither
interval nor pause.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from sparkstate import errors
from sparkstate.settings import MIB, CheckpointSettings


@dataclass(frozen=True, kw_only=True)
class PendingCheckpoint:
    """One snapshot under way. Times are monotonic seconds; ``waiting`` are the slots that have not
    answered.
    """

    checkpoint_id: int
    kind: Literal["checkpoint", "savepoint"]
    started_s: float
    waiting: frozenset[int]
    trigger_id: str = ""

    @property
    def acknowledged(self) -> bool:
        """Whether every slot has answered."""
        return not self.waiting


@dataclass(frozen=True, kw_only=True)
class CoordinatorState:
    """All that the coordinator remembers. Counters are for status and metrics."""

    next_id: int
    pending: PendingCheckpoint | None = None
    last_started_s: float | None = None
    """Of the last periodic checkpoint."""
    last_ended_s: float | None = None
    failures_in_row: int = 0
    requested: tuple[str, ...] = ()
    """Trigger ids of savepoints that wait for their turn."""
    completed: int = 0
    failed: int = 0
    last_failure: str = ""


@dataclass(frozen=True)
class Start:
    """Take a snapshot now."""

    kind: Literal["checkpoint", "savepoint"]
    trigger_id: str = ""


@dataclass(frozen=True)
class Expire:
    """Give the pending one up: it has taken longer than the timeout."""

    checkpoint_id: int
    reason: str


@dataclass(frozen=True)
class Wait:
    """Nothing to do for at most this many seconds."""

    seconds: float


Action = Start | Expire | Wait


def initial(next_id: int, now_s: float) -> CoordinatorState:
    """At the begin of an incarnation: the first checkpoint is due one interval from now."""
    return CoordinatorState(next_id=next_id, last_started_s=now_s)


def decide(
    state: CoordinatorState, settings: CheckpointSettings, now_s: float, held_bytes: int = 0
) -> Action:
    """What to do at an epoch's end, or when the last ``Wait`` is over.

    ``held_bytes``: the most output that one slot holds back. Half of its limit makes a checkpoint due before its
    interval is over, unless the last one failed.
    """
    if state.pending is not None:
        left = state.pending.started_s + settings.timeout_s - now_s
        if left > 0:
            return Wait(left)
        return Expire(
            state.pending.checkpoint_id,
            f"checkpoint {state.pending.checkpoint_id} expired: not complete after {settings.timeout_s:g} s "
            f"(slots that have not answered: {sorted(state.pending.waiting) or 'none'})",
        )
    if state.requested:
        return Start("savepoint", state.requested[0])
    due = max(
        -float("inf") if state.last_started_s is None else state.last_started_s + settings.interval_s,
        -float("inf") if state.last_ended_s is None else state.last_ended_s + settings.min_pause_s,
    )
    full = 2 * held_bytes >= settings.max_held_bytes and not state.last_failure
    return Start("checkpoint") if full or now_s >= due else Wait(due - now_s)


def hold_back(
    settings: CheckpointSettings, held_bytes: int, unsaved_s: float, *, storage_away: bool
) -> str | None:
    """Why the job must take nothing in before a checkpoint has completed; None: it need not wait.

    ``unsaved_s``: since the newest completed checkpoint, or the begin of the incarnation.
    """
    if held_bytes >= settings.max_held_bytes:
        return (
            f"a slot holds {held_bytes / MIB:,.0f} MiB of output for the next checkpoint, "
            f"{settings.max_held_bytes / MIB:,.0f} MiB are allowed (checkpointing.maxHeldOutput)"
        )
    if storage_away and unsaved_s >= settings.max_time_without_s:
        return (
            f"no checkpoint has completed for {unsaved_s:,.0f} s, {settings.max_time_without_s:g} s are allowed while "
            "a storage is away (checkpointing.maxTimeWithoutCheckpoint)"
        )
    return None


def request_savepoint(state: CoordinatorState, trigger_id: str) -> CoordinatorState:
    """Queue a savepoint; a trigger id that waits or runs already is not queued twice."""
    running = state.pending is not None and state.pending.trigger_id == trigger_id
    if running or trigger_id in state.requested:
        return state
    return replace(state, requested=(*state.requested, trigger_id))


def start(state: CoordinatorState, action: Start, slots: Collection[int], now_s: float) -> CoordinatorState:
    """The snapshot ``state.next_id`` has begun."""
    if state.pending is not None:
        raise AssertionError("a snapshot is under way already. This is a bug. Please report.")
    pending = PendingCheckpoint(
        checkpoint_id=state.next_id,
        kind=action.kind,
        started_s=now_s,
        waiting=frozenset(slots),
        trigger_id=action.trigger_id,
    )
    return replace(
        state,
        next_id=state.next_id + 1,
        pending=pending,
        last_started_s=now_s if action.kind == "checkpoint" else state.last_started_s,
        requested=tuple(other for other in state.requested if other != action.trigger_id),
    )


def acknowledge(state: CoordinatorState, checkpoint_id: int, slot: int) -> CoordinatorState:
    """A slot has stored its part. The answer for a checkpoint that was given up changes nothing."""
    pending = state.pending
    if pending is None or pending.checkpoint_id != checkpoint_id:
        return state
    return replace(state, pending=replace(pending, waiting=pending.waiting - {slot}))


def complete(state: CoordinatorState, checkpoint_id: int, now_s: float) -> CoordinatorState:
    """It is committed: the count of failures begins anew."""
    _require_pending(state, checkpoint_id)
    return replace(
        state,
        pending=None,
        last_ended_s=now_s,
        failures_in_row=0,
        completed=state.completed + 1,
        last_failure="",
    )


def fail(
    state: CoordinatorState, checkpoint_id: int, reason: str, now_s: float, *, storage_away: bool = False
) -> CoordinatorState:
    """Declined, expired or aborted. ``storage_away``: the cause was ``StorageUnavailable``; it counts towards
    no limit.

    A savepoint that fails is the business of who asked for it and does not count either.
    """
    pending = _require_pending(state, checkpoint_id)
    counts = pending.kind == "checkpoint" and not storage_away
    return replace(
        state,
        pending=None,
        last_ended_s=now_s,
        failures_in_row=state.failures_in_row + (1 if counts else 0),
        failed=state.failed + 1,
        last_failure=reason,
    )


def require_tolerable(state: CoordinatorState, settings: CheckpointSettings) -> None:
    """Raises ``JobFailed``, for the restart strategy, after more failures in a row than are tolerated."""
    if state.failures_in_row > settings.tolerable_failures:
        raise errors.JobFailed(
            f"{state.failures_in_row} checkpoints in a row failed, {settings.tolerable_failures} are "
            "tolerated "
            f"(tolerable-failed-checkpoints); the last one: {state.last_failure}"
        )


def _require_pending(state: CoordinatorState, checkpoint_id: int) -> PendingCheckpoint:
    if state.pending is None or state.pending.checkpoint_id != checkpoint_id:
        raise AssertionError(f"checkpoint {checkpoint_id} is not pending. This is a bug. Please report.")
    return state.pending
