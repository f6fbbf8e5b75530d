"""A checkpoint from its trigger to its end, as the driver's threads share it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sparkstate import errors
from sparkstate.checkpoint.metadata import Committable
from sparkstate.control.documents import CheckpointInfo, CheckpointKind, CheckpointStatus
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.snapshot_parts import SnapshotParts
from sparkstate.driver.storage_outages import Ending
from sparkstate.driver.unsaved_work import Mark
from sparkstate.handles import ShardHandle, StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.slots import protocol
from sparkstate.slots.group import SlotGroup
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks

_LOOK_S = 0.1


@dataclass(frozen=True)
class PendingSavepoint:
    """A savepoint that somebody has asked for, with its number. It has no folder yet."""

    trigger: SavepointTrigger
    savepoint_id: int


@dataclass(frozen=True)
class BegunSavepoint(PendingSavepoint):
    """One whose folder the log names, so that slots may store it there."""

    url: str


@dataclass
class PendingCheckpoint:
    """A checkpoint under way, with the savepoint that came with it."""

    checkpoint_id: int
    epoch: int
    watermarks: Watermarks
    position: CapturedPosition
    key_space: KeySpace
    """Of the job's state."""
    drained: bool
    trigger_ms: int
    began: float
    """By the monotonic clock, s."""
    mark: Mark
    savepoint: PendingSavepoint | None = None
    """The savepoint that came with it. None: nobody has asked for one, or it has failed, or it goes on beside later
    checkpoints of the job."""
    savepoint_shards: tuple[ShardHandle, ...] = ()
    """Those of the savepoint that came with it, once every slot has stored them."""
    only_with_savepoint: bool = False
    """Whether a restart must not go back to it if that savepoint fails."""
    base: int = -1
    pause_ms: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)
    committed: bool = False
    failure: errors.SparkstateError | None = None

    def wait(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait for its end. Raises ``Ending`` once ``given_up``."""
        while not self.ended.wait(_LOOK_S):
            if given_up():
                raise Ending(f"the job was asked to end; checkpoint {self.checkpoint_id} was not waited for")

    def settle(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """:meth:`wait`, and raise why it failed."""
        self.wait(given_up)
        if self.failure is not None:
            raise self.failure


def info_of(pending: PendingCheckpoint, status: CheckpointStatus) -> CheckpointInfo:
    """The checkpoint, for the control endpoint."""
    return CheckpointInfo(
        id=pending.checkpoint_id, status=status, epoch=pending.epoch, trigger_ms=pending.trigger_ms
    )


def savepoint_info(
    pending: PendingCheckpoint, savepoint: PendingSavepoint, status: CheckpointStatus
) -> CheckpointInfo:
    """The savepoint that came with the checkpoint, for the control endpoint."""
    return CheckpointInfo(
        id=savepoint.savepoint_id,
        kind=CheckpointKind.SAVEPOINT,
        status=status,
        epoch=pending.epoch,
        trigger_ms=pending.trigger_ms,
        trigger_id=savepoint.trigger.trigger_id,
    )


def measured(
    info: CheckpointInfo, pending: PendingCheckpoint, shards: Sequence[ShardHandle], now_s: float, path: str
) -> CheckpointInfo:
    """``info`` of a checkpoint or savepoint that is complete, with its times and sizes. ``now_s``: by the monotonic
    clock; ``path``: its folder."""
    return info.model_copy(
        update={
            "duration_ms": round((now_s - pending.began) * 1000),
            "sync_pause_ms": round(pending.pause_ms),
            "state_bytes": sum(shard.state_size for shard in shards),
            "uploaded_bytes": sum(shard.uploaded for shard in shards),
            "path": path,
        }
    )


def parts_of(
    pending: PendingCheckpoint,
    replies: list[protocol.SnapshotState],
    committables: tuple[Committable, ...],
    checkpoint_id: int,
    group: SlotGroup,
) -> SnapshotParts:
    """The content of its ``_metadata``, from the answers of all slots."""
    shards = (shard for reply in replies for shard in reply.shards)
    return SnapshotParts(
        checkpoint_id=checkpoint_id,
        trigger_id=pending.savepoint.trigger.trigger_id if pending.savepoint else "",
        incarnation=group.incarnation,
        epoch=pending.epoch,
        watermarks=pending.watermarks,
        position=pending.position,
        key_space=pending.key_space,
        shards=tuple(sorted(shards, key=lambda handle: handle.shard)),
        states=_states_of(replies),
        operator_state=tuple(reply.operator_state for reply in replies if reply.operator_state is not None),
        committables=committables,
        slots=len(group),
        drained=pending.drained,
        closed=bool(pending.savepoint and pending.savepoint.trigger.stop),
        trigger_ms=pending.trigger_ms,
        began=pending.began,
    )


def _states_of(replies: list[protocol.SnapshotState]) -> tuple[StateMeta, ...]:
    """The states of all slots. A slot has a table of timers only once a key of its own has one, and an operator whose
    timers nobody names could be left out of a later version without a word."""
    found: dict[tuple[str, str, str], StateMeta] = {}
    for state in (state for reply in replies for state in reply.states):
        found.setdefault((state.uid, state.name, state.kind), state)
    return tuple(found.values())
