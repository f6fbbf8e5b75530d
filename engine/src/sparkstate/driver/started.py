"""A checkpoint from its trigger to its end, as the driver's threads share it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sparkstate import errors
from sparkstate.control.documents import CheckpointInfo, CheckpointKind, CheckpointStatus, SavepointRequest
from sparkstate.spark.watermarks import Watermarks


@dataclass
class Started:
    """A checkpoint under way, with the savepoint that came with it."""

    checkpoint_id: int
    epoch: int
    watermarks: Watermarks
    position: bytes
    drained: bool
    trigger_ms: int
    began: float
    """By the monotonic clock, s."""
    worked_s: float
    """What the incarnation's epochs took until then."""
    savepoint: SavepointRequest | None = None
    savepoint_id: int = -1
    savepoint_url: str = ""
    base: int = -1
    pause_ms: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)
    committed: bool = False
    failure: errors.SparkstateError | None = None

    def settle(self) -> None:
        """Wait for its end; raises why it failed."""
        self.ended.wait()
        if self.failure is not None:
            raise self.failure


def info_of(started: Started, kind: CheckpointKind, status: CheckpointStatus) -> CheckpointInfo:
    """The checkpoint, or the savepoint that came with it, for the control endpoint."""
    savepoint = kind == CheckpointKind.SAVEPOINT
    return CheckpointInfo(
        id=started.savepoint_id if savepoint else started.checkpoint_id,
        kind=kind,
        status=status,
        epoch=started.epoch,
        trigger_ms=started.trigger_ms,
        trigger_id=started.savepoint.trigger_id if savepoint and started.savepoint else None,
    )
