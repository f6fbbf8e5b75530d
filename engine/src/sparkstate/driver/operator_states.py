"""Operator state, from what the slots tell to what a reader sees. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sparkstate.control import documents, picture
from sparkstate.operators.state.operator_state_memory import FIELD, NOTICE_SHARE
from sparkstate.slots import protocol

HOLDS_MS: Final = 300_000
"""The notice in the status ends when no slot has been nearly full for so long. Otherwise a buffer that fills and
empties, epoch by epoch, would raise and clear a condition of Kubernetes each time."""


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
    for slot in _nearly_full(slots):
        largest = _largest(slot)
        return (
            f"operator state fills more than {NOTICE_SHARE * 100:.0f} % of {FIELD} ({_limit(slot) / 2**20:.0f} MiB) in "
            f"a slot; most of it is {largest.state!r} of operator {largest.operator!r}. "
            f"Raise {FIELD}, or keep these values in keyed state: a job that needs more than that ends"
        )
    return None


def current(
    before: documents.OperatorStateNotice | None, slots: Iterable[documents.SlotStatus], now_ms: int
) -> documents.OperatorStateNotice | None:
    """The notice with its figures, for programs; ``before``: as it was until now. It has the figures of the slot that
    was fullest since it began, and ends ``HOLDS_MS`` after a slot was nearly full for the last time."""
    fullest = max(
        _nearly_full(slots), key=lambda slot: slot.memory.operator_state / _limit(slot), default=None
    )
    if fullest is None:
        return before if before is not None and now_ms - before.seen_ms < HOLDS_MS else None
    largest = _largest(fullest)
    found = documents.OperatorStateNotice(
        slot=fullest.index,
        operator=largest.operator,
        state=largest.state,
        used_bytes=fullest.memory.operator_state,
        limit_bytes=_limit(fullest),
        since_ms=now_ms,
        seen_ms=now_ms,
    )
    if before is None:
        return found
    worst = max(before, found, key=lambda one: one.used_bytes / one.limit_bytes)
    return worst.model_copy(update={"since_ms": before.since_ms, "seen_ms": now_ms})


def _nearly_full(slots: Iterable[documents.SlotStatus]) -> Iterator[documents.SlotStatus]:
    for slot in slots:
        if slot.operator_states and slot.memory.operator_state > NOTICE_SHARE * (
            _limit(slot) or float("inf")
        ):
            yield slot


def _limit(slot: documents.SlotStatus) -> int:
    """In bytes; 0: there is none."""
    return slot.memory.operator_state_limit or 0


def _largest(slot: documents.SlotStatus) -> documents.OperatorStateSize:
    return max(slot.operator_states, key=lambda size: size.size_bytes)
