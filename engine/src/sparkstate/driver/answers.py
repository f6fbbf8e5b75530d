"""What the slots say of a snapshot: each is asked until it is done, and then no more."""

from __future__ import annotations

from collections.abc import Callable

from sparkstate import clock, errors
from sparkstate.slots import client, protocol
from sparkstate.slots.group import SlotGroup

POLL_S = 1.0
"""How long a slot may keep a question for a snapshot until it is done. Each answer of a slot that is done names all of
its files, so none is asked for twice."""


def await_slots(
    group: SlotGroup, checkpoint_id: int, timeout_s: float, clock_: clock.Clock, abandoned: Callable[[], bool]
) -> list[protocol.SnapshotState]:
    """The answers of all slots, in order, when every one has stored its part.

    Raises what a slot says went wrong, ``StorageError`` after ``timeout_s``, ``SlotLost`` if the snapshot is
    ``abandoned``.
    """
    deadline = clock_.monotonic() + timeout_s
    request = protocol.SnapshotPoll(checkpoint_id=checkpoint_id, wait_s=POLL_S)
    ended: dict[int, protocol.SnapshotState] = {}
    while True:
        waiting = [slot for slot in range(len(group)) if slot not in ended]
        for slot, reply in group.snapshot_states(waiting, request).items():
            if reply.failure:
                raise client.error_of(reply.failure_reason, f"slot {slot}: {reply.failure}")
            if reply.done:
                ended[slot] = reply
        if len(ended) == len(group):
            return [ended[slot] for slot in range(len(group))]
        if abandoned():
            raise errors.SlotLost(f"checkpoint {checkpoint_id} was given up with its incarnation")
        if clock_.monotonic() > deadline:
            raise errors.StorageError(
                f"checkpoint {checkpoint_id} took longer than checkpointing.timeout ({timeout_s:g} s); "
                "look at the storage's speed, or raise the timeout"
            )
