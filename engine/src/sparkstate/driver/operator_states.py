"""Operator state, from what the slots tell to what a reader sees. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkstate.control import documents, picture
from sparkstate.operators.state.operator_state_memory import FIELD, NOTICE_SHARE
from sparkstate.slots import protocol


def of_slot(reply: protocol.SlotStatus) -> tuple[documents.OperatorStateSize, ...]:
    """The states of one slot."""
    return tuple(
        documents.OperatorStateSize(
            operator=size.operator,
            state=size.state,
            kind=size.mode,
            elements=size.elements,
            size_bytes=size.size_bytes,
        )
        for size in reply.operator_states
    )


def over_slots(
    uid: str, sizes: Iterable[documents.OperatorStateSize]
) -> tuple[picture.OperatorStateFigures, ...]:
    """The states of one operator, in the order in which they first come."""
    grouped: dict[str, list[documents.OperatorStateSize]] = {}
    for size in sizes:
        if size.operator == uid:
            grouped.setdefault(size.state, []).append(size)
    return tuple(_together(name, same) for name, same in grouped.items())


def _together(name: str, same: Sequence[documents.OperatorStateSize]) -> picture.OperatorStateFigures:
    counts = [size.elements for size in same]
    return picture.OperatorStateFigures(
        name=name,
        kind=same[0].kind,
        elements=max(counts) if same[0].kind == "broadcast" else sum(counts),
        size_bytes=sum(size.size_bytes for size in same),
        largest_bytes=max(size.size_bytes for size in same),
    )


def notice(slots: Iterable[documents.SlotStatus]) -> str | None:
    """A sentence for people when a slot has little room left for operator state; None otherwise. It has no figures that
    change: a reader sees it once."""
    for slot in slots:
        limit = slot.memory.operator_state_limit
        if limit is None or not slot.operator_states or slot.memory.operator_state <= NOTICE_SHARE * limit:
            continue
        largest = max(slot.operator_states, key=lambda size: size.size_bytes)
        return (
            f"operator state fills more than {NOTICE_SHARE * 100:.0f} % of {FIELD} ({limit / 2**20:.0f} MiB) in a "
            f"slot; most of it is {largest.state!r} of operator {largest.operator!r}. "
            f"Raise {FIELD}, or keep these values in keyed state: a job that needs more than that ends"
        )
    return None
