"""Two keyed streams and a broadcast one whose functions reject rows: each goes to the side output of its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapStateDescriptor,
    OutputTag,
    Types,
    ValueStateDescriptor,
)

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())


class RowCount(KeyedCoProcessFunction):
    """Counts the rows of a key; a negative value fails after it was counted."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield from self._count(row.k, row.v)

    def process_element2(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield from self._count(row.name, row.w)

    def _count(self, key: str, value: int) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield key, self.count.value()
        if value < 0:
            raise ValueError("negative")


class RowLimit(KeyedBroadcastProcessFunction):
    """Lets values up to the limit through."""

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield row.k, row.v
        if row.v > (ctx.get_broadcast_state(LIMITS).get("all") or 0):
            raise ValueError("above the limit")

    def process_broadcast_element(self, row: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(LIMITS).put(row.name, row.w)


def job(spark: Any, params: dict[str, str]) -> None:
    """Streams of files below ``input``, sinks below ``output``."""

    def sink(name: str) -> sparkstate.FileSink:
        return sparkstate.FileSink(f"{params['output']}/{name}")

    def source(name: str, schema: str) -> Any:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(f"{params['input']}/{name}")

    first, second = source("first", "k string, v long"), source("second", "name string, w long")
    limits = source("limits", "name string, w long")
    keyed = sparkstate.keyed(first, "k")
    counted = keyed.connect(sparkstate.keyed(second, "name")).process(
        RowCount(), uid="counted", output_schema="k string, n long", on_error="side-output"
    )
    counted.sink(sink("counted"))
    for tag in ("errors1", "errors2"):
        counted.side_output(OutputTag(tag)).sink(sink(tag))
    below = keyed.connect(sparkstate.broadcast(limits, LIMITS)).process(
        RowLimit(), uid="below", output_schema="k string, v long", on_error="side-output"
    )
    below.sink(sink("below"))
    below.side_output(OutputTag("errors")).sink(sink("errors"))
