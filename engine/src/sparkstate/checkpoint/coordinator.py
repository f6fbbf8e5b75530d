"""When a checkpoint begins, when the job has to wait for one, and what its failures mean. Pure: frozen states and times
in, decisions out.

Flink's rules: a checkpoint every ``interval_s``, counted from start to start; at least ``min_pause_s`` between the end
of one and the start of the next; one at a time; the job fails after more than ``tolerable_failures`` failures in a row.
Two rules are ours: a failure because the storage is away counts towards nothing, and output that is held back makes a
checkpoint due before its interval is over. Whoever asks for a savepoint, which comes with a checkpoint, or for a
checkpoint waits for one that is under way, and for neither interval nor pause.

A job that takes nothing in begins a checkpoint whenever one may succeed, because only a completed one ends the wait. A
job that is asked to end takes a last one if the next attempt saves time by it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

from sparkstate import errors
from sparkstate.settings import MIB, CheckpointSettings

LAST_TAKES: Final = 2.0
"""A last checkpoint takes so many times what others took: the next attempt's pod starts beside it (RFC 0012)."""
AT_ONCE_S: Final = 2.0
"""A checkpoint that takes no longer than this is always taken: no pod starts in less time."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorState:
    """All that the coordinator remembers. Times are monotonic seconds."""

    last_started_s: float
    """When the newest checkpoint began, or the incarnation."""
    last_ended_s: float = -float("inf")
    pending: int | None = None
    """The checkpoint that is under way."""
    failures_in_row: int = 0
    last_failure: str = ""
    """Empty after a success."""


@dataclass(frozen=True, kw_only=True)
class OpenRequests:
    """The requests of people that the job has not met yet."""

    savepoint: bool = False
    stop: bool = False
    """The savepoint is to stop the job."""
    checkpoint: bool = False


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """The work that no completed checkpoint holds."""

    held_bytes: int = 0
    """The most output that one slot holds back."""
    age_s: float = 0.0
    """For how long changes have waited for a checkpoint to complete."""
    storage_away: bool = False
    """Whether a storage fails that checkpoints need."""


class PauseStep(enum.Enum):
    """The step towards a checkpoint while the job takes nothing in."""

    BEGIN = "begin"
    PROBE = "probe"
    """Begin one if the storage that is away answers again."""
    WAIT = "wait"


def initial(now_s: float) -> CoordinatorState:
    """At the begin of an incarnation: the first checkpoint is due one interval from now."""
    return CoordinatorState(last_started_s=now_s)


# -- decisions ----------------------------------------------------------------------------------------------


def due_s(state: CoordinatorState, settings: CheckpointSettings) -> float:
    """From when on a checkpoint is due by the clock alone."""
    return max(state.last_started_s + settings.interval_s, state.last_ended_s + settings.min_pause_s)


def is_due(state: CoordinatorState, settings: CheckpointSettings, now_s: float, held_bytes: int = 0) -> bool:
    """Whether a checkpoint is due that nobody has asked for. Half of the limit of held output makes one due before its
    interval is over, unless the last one failed."""
    if state.pending is not None:
        return False
    # After a failure the clock alone decides: each try uploads state that the next failure throws away (RFC 0015), and
    # held output would ask for one at the end of every epoch.
    full = 2 * held_bytes >= settings.max_held_bytes and not state.last_failure
    return full or now_s >= due_s(state, settings)


def begins(
    state: CoordinatorState,
    settings: CheckpointSettings,
    now_s: float,
    requests: OpenRequests,
    held_bytes: int = 0,
    *,
    under_way: bool,
    changed: bool = True,
) -> bool:
    """Whether a checkpoint begins at the end of an epoch.

    ``under_way``: one is, or tidies up after itself. ``changed``: there is something that the newest does not hold.
    """
    if under_way:
        return False
    return (
        requests.savepoint or requests.checkpoint or (changed and is_due(state, settings, now_s, held_bytes))
    )


def hold_back(settings: CheckpointSettings, backlog: Backlog) -> str | None:
    """Why the job must take nothing in before a checkpoint has completed; None: it need not wait."""
    if backlog.held_bytes >= settings.max_held_bytes:
        return (
            f"a slot holds {backlog.held_bytes / MIB:,.0f} MiB of output for the next checkpoint, "
            f"{settings.max_held_bytes / MIB:,.0f} MiB are allowed (checkpointing.maxHeldOutput)"
        )
    if backlog.storage_away and backlog.age_s >= settings.max_time_without_s:
        return (
            f"no checkpoint has completed for {backlog.age_s:,.0f} s, {settings.max_time_without_s:g} s are allowed "
            "while a storage is away (checkpointing.maxTimeWithoutCheckpoint)"
        )
    return None


def wants_epoch(
    state: CoordinatorState,
    settings: CheckpointSettings,
    now_s: float,
    requests: OpenRequests,
    backlog: Backlog,
    *,
    under_way: bool,
) -> bool:
    """Whether something may have to be done at the end of the epoch at hand, so that no other one begins before."""
    if requests.stop or hold_back(settings, backlog) is not None:
        return True
    return begins(state, settings, now_s, requests, backlog.held_bytes, under_way=under_way)


def pause_step(
    state: CoordinatorState, settings: CheckpointSettings, now_s: float, backlog: Backlog, *, under_way: bool
) -> PauseStep:
    """The step towards a checkpoint while :func:`hold_back` keeps the job from taking anything in."""
    if under_way:
        return PauseStep.WAIT
    if is_due(state, settings, now_s, backlog.held_bytes):
        return PauseStep.BEGIN
    return PauseStep.PROBE if backlog.storage_away else PauseStep.WAIT


def last_is_worth_its_time(repeat_s: float, usual_s: float | None, under_way_s: float = 0.0) -> bool:
    """Whether a job that ends waits for a last checkpoint instead of having the next attempt repeat
    what took ``repeat_s``.

    ``usual_s``: what the newest one took, None if none has completed; ``under_way_s``: since when this one is written.
    """
    if usual_s is None:
        return True
    wait_s = max(0.0, LAST_TAKES * usual_s - under_way_s)
    return wait_s <= AT_ONCE_S or repeat_s > wait_s


def require_tolerable(state: CoordinatorState, settings: CheckpointSettings) -> None:
    """Raises ``JobFailed``, for the restart strategy, after more failures in a row than are tolerated."""
    if state.failures_in_row > settings.tolerable_failures:
        raise errors.JobFailed(
            f"{state.failures_in_row} checkpoints in a row failed, {settings.tolerable_failures} are "
            "tolerated "
            f"(tolerable-failed-checkpoints); the last one: {state.last_failure}"
        )


# -- what happened ------------------------------------------------------------------------------------------


def start(state: CoordinatorState, checkpoint_id: int, now_s: float) -> CoordinatorState:
    """It has begun."""
    if state.pending is not None:
        raise AssertionError("a snapshot is under way already. This is a bug. Please report.")
    return replace(state, pending=checkpoint_id, last_started_s=now_s)


def complete(state: CoordinatorState, checkpoint_id: int, now_s: float) -> CoordinatorState:
    """It is committed: the count of failures begins anew."""
    _require_pending(state, checkpoint_id)
    return replace(state, pending=None, last_ended_s=now_s, failures_in_row=0, last_failure="")


def fail(
    state: CoordinatorState, checkpoint_id: int, reason: str, now_s: float, *, storage_away: bool = False
) -> CoordinatorState:
    """Declined, expired or aborted. ``storage_away``: the cause was ``StorageUnavailable``;
    it counts towards no limit."""
    _require_pending(state, checkpoint_id)
    # To fail the job would change nothing about a bucket that is away, and would repeat work (RFC 0015).
    counted = state.failures_in_row + (0 if storage_away else 1)
    return replace(state, pending=None, last_ended_s=now_s, failures_in_row=counted, last_failure=reason)


def _require_pending(state: CoordinatorState, checkpoint_id: int) -> None:
    if state.pending != checkpoint_id:
        raise AssertionError(f"checkpoint {checkpoint_id} is not pending. This is a bug. Please report.")
