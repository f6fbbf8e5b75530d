"""``totals.py``, whose second operator also counts in variables of its own, and tells at the end of the input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import totals

import sparkstate
from sparkstate import (
    CheckpointedFunction,
    CheckpointListener,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    Types,
)

COUNTED = OutputTag("counted", "slot bigint, rows bigint, total bigint, begun bigint, told bigint")


class CountedGroups(totals.Groups, CheckpointedFunction, CheckpointListener):
    """Rows, and the sum of their groups, that this slot has seen; whoever restores goes on from there."""

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.stored = store.get_list_state(
            ListStateDescriptor("counted", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )
        self.shares = store.get_union_list_state(ListStateDescriptor("shares", Types.LONG()))
        self.facts = store.get_broadcast_state(MapStateDescriptor("facts", Types.STRING(), Types.LONG()))
        if not ctx.is_restored():
            self.facts.put("begun", 1)
        self.rows = sum(rows for rows, _ in self.stored.get())
        self.sum = sum(total for _, total in self.stored.get())
        self.told = ctx.get_restored_checkpoint_id() or 0

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.slot = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        self.rows += 1
        self.sum += row.v
        yield from super().process_element(row, ctx)

    def snapshot_state(self, ctx: Any) -> None:
        self.stored.update([(self.rows, self.sum)])
        self.shares.update([self.rows])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told = checkpoint_id

    def finish(self) -> Iterator[tuple[OutputTag, tuple[int, ...]]]:
        yield COUNTED, (self.slot, self.rows, self.sum, self.facts.get("begun") or 0, self.told)


class Tripping(CountedGroups):
    """Raises once in each step of its life; ``folder`` remembers where it did. Not in ``close``, which fails no job."""

    folder = Path()

    def trip(self, step: str) -> None:
        try:
            (self.folder / step).touch(exist_ok=False)
        except FileExistsError:
            return
        raise ValueError(f"tripped in {step}")

    def initialize_state(self, ctx: Any) -> None:
        super().initialize_state(ctx)
        self.trip("initialize_state")

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.trip("open")

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        ctx.timer_service().register_processing_time_timer(0)
        yield from super().process_element(row, ctx)
        self.trip("process_element")

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.rows += 1  # if this trips, only going back to the checkpoint takes the row away again
        self.trip("on_timer")
        self.rows -= 1

    def snapshot_state(self, ctx: Any) -> None:
        super().snapshot_state(ctx)
        self.trip("snapshot_state")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self.trip("notify_checkpoint_complete")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.trip("notify_checkpoint_aborted")

    def finish(self) -> Iterator[tuple[OutputTag, tuple[int, ...]]]:
        yield from super().finish()
        self.trip("finish")


def job(spark: Any, params: dict[str, str]) -> None:
    function: type[CountedGroups] = CountedGroups
    if "trips" in params:
        function, Tripping.folder = Tripping, Path(params["trips"])
    groups = totals.declare(totals.source(spark, params), params, groups_function=function)
    groups.side_output(COUNTED).sink(sparkstate.FileSink(f"{params['output']}/counted"))
