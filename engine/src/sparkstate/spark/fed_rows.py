"""The rows that tasks brought to the slots, as their acknowledgements tell. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparkstate.spark import feed, graph


@dataclass(frozen=True)
class FedSlot:
    """The rows that a slot got: by which attempt, and how many."""

    attempt: int
    rows: int


@dataclass(frozen=True)
class FedRows:
    """An operator's rows of an epoch, as the successful tasks tell of them."""

    slots: dict[int, FedSlot]
    """Those that got rows."""
    largest: dict[tuple[int, str], int]
    """Largest event time by number of the source and its part."""
    attempt: int = 1
    """The attempt that brought them; without a meaning where each task has its own."""
    is_combined: bool = False
    """Whether a row may stand for several, which Spark has combined."""

    @classmethod
    def of(cls, acks: Sequence[feed.Ack], attempt: int, *, is_combined: bool) -> FedRows:
        """From the acknowledgements of all tasks of a job."""
        slots: dict[int, FedSlot] = {}
        largest: dict[tuple[int, str], int] = {}
        for ack in acks:
            for slot, rows in enumerate(ack.rows):
                if rows:
                    before = slots.get(slot, FedSlot(ack.attempt, 0))
                    slots[slot] = dataclasses.replace(before, rows=before.rows + rows)
            for part, time in ack.largest.items():
                largest[part] = max(time, largest.get(part, time))
        return cls(slots, largest, attempt, is_combined)

    @property
    def rows(self) -> int:
        """How many rows all slots got."""
        return sum(slot.rows for slot in self.slots.values())

    def joined(self, more: FedRows) -> FedRows:
        """With the rows that a second job brought to the same attempt. These are of operators' outputs, which tell no
        event times of sources."""
        slots = dict(self.slots)
        for number, slot in more.slots.items():
            slots[number] = FedSlot(slot.attempt, slot.rows + (slots[number].rows if number in slots else 0))
        return dataclasses.replace(self, slots=slots)


def rows_of_job(inputs: Sequence[graph.Input], fed: FedRows, rows_in: int, slots: int) -> int:
    """How many rows of the job's inputs an operator was brought: a row that every slot got is one. ``rows_in`` is what
    its slots counted, rows of other operators' outputs as well; of combined rows they count what these stand for."""
    if fed.is_combined:
        return rows_in
    if not any(each.is_broadcast and each.upstream is None for each in inputs):
        return fed.rows
    return rows_in if all(each.upstream is None for each in inputs) else fed.rows // slots


def largest_of(fed: Iterable[FedRows]) -> dict[tuple[int, str], int]:
    """The largest event times that several operators' rows told."""
    largest: dict[tuple[int, str], int] = {}
    for each in fed:
        for part, time in each.largest.items():
            largest[part] = max(time, largest.get(part, time))
    return largest
