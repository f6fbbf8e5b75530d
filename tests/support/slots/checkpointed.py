"""A function with variables of its own in slots, and snapshots that go on from slots to slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
from support.slots import slots

from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.serde.types import Types
from sparkstate.slots import protocol
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor

ROWS_SEEN = ListStateDescriptor("rows", Types.TUPLE([Types.STRING(), Types.LONG()]))
OWNERS = ListStateDescriptor("owners", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Buffer(slots.Sum, CheckpointedFunction):
    """Keeps every row that it sees in a list of its own; a row whose key begins with ``!`` changes a rule."""

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.rows = store.get_list_state(ROWS_SEEN)
        self.owners = store.get_union_list_state(OWNERS)
        self.rules = store.get_broadcast_state(RULES)
        self.seen = self.rows.get()
        self.restored = (ctx.is_restored(), ctx.get_restored_checkpoint_id(), sorted(self.owners.get()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        self.seen.append((row.k, row.v))
        if row.k.startswith("!"):
            self.rules.put(row.k[1:], row.v)
        yield from super().process_element(row, ctx)

    def snapshot_state(self, ctx: Any) -> None:
        self.rows.update(self.seen)
        self.owners.update([len(self.seen)])

    def finish(self) -> Iterator[tuple[str, int]]:
        yield "rows", len(self.seen)


def slot_with(
    folder: Path,
    function: Any,
    share: tuple[int, int] = (0, 1),
    incarnation: int = 1,
    room: int | None = None,
    **plan: Any,
) -> slots.Slot:
    """A slot that is not restored yet, whose operator has this function. ``share``: its number, how many there are;
    ``room``: bytes for operator state."""
    made = slots.plan(folder, *share, incarnation=incarnation, **plan)
    if room is not None:
        made = dataclasses.replace(made, backend=dataclasses.replace(made.backend, operator_state_bytes=room))
    operator = dataclasses.replace(made.operators[0], function=function)
    made = dataclasses.replace(made, operators=(operator,))
    return slots.Slot(folder / f"slots-{incarnation}-{share[0]}", made)


def restore(
    slot: slots.Slot, states: Sequence[protocol.SnapshotState], folder: Path, checkpoint_id: int
) -> protocol.Restored:
    """Give the slot what a driver would, from the answers of all slots to a snapshot."""
    plan = slot.plan
    mine = plan.key_space.shards_of_slot(plan.slot, plan.slots)
    handles = [handle for state in states for handle in state.shards if handle.shard in mine]
    request = protocol.RestoreShards(
        shards=tuple(handles),
        base_url=f"{folder / 'storage' / slots.LINEAGE}",
        operator_state=tuple(state.operator_state for state in states if state.operator_state is not None),
        restored_id=checkpoint_id,
    )
    return slot.client.call(request, protocol.Restored)


def state_of(slot: slots.Slot) -> Any:
    """The ``SlotState`` of the slot, which runs in the test's process."""
    runtime: Any = slot.server.slot
    return runtime.runtime._state


def function_of(slot: slots.Slot) -> Any:
    """The function object at work in the slot."""
    return state_of(slot).operators["sum"].spec.function


class FailsToClose(slots.Sum):
    """Raises when it is closed."""

    def close(self) -> None:
        raise ValueError("the connection is gone")


cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))
