"""The states that a checkpoint's metadata names: those of all slots, whichever slot has their first row."""

from __future__ import annotations

from typing import Any

from sparkstate.driver.pending_checkpoint import PendingCheckpoint, parts_of
from sparkstate.driver.unsaved_work import Mark
from sparkstate.handles import StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.slots import protocol
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks


class Group:
    """Two slots."""

    incarnation = 3

    def __len__(self) -> int:
        return 2


def state(uid: str, name: str, kind: str) -> StateMeta:
    return StateMeta(uid=uid, name=name, kind=kind, key_type="LONG", namespace_type="", value_type="LONG")


def test_timers_that_only_one_slot_has_are_named() -> None:
    total, timers = state("sums", "total", "value"), state("alarms", "user-timers", "event-timers")
    pending = PendingCheckpoint(
        checkpoint_id=1,
        epoch=0,
        watermarks=Watermarks(()),
        position=CapturedPosition(0),
        key_space=KeySpace(8, 2),
        drained=False,
        trigger_ms=0,
        began=0.0,
        mark=Mark(0, 0.0, 0),
    )
    replies = [
        protocol.SnapshotState(done=True, states=(total,)),
        protocol.SnapshotState(done=True, states=(timers, total)),
    ]
    group: Any = Group()
    assert parts_of(pending, replies, (), 1, group).states == (total, timers)
