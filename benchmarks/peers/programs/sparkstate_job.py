"""sparkstate's job for each load; ``params`` come from ``on_sparkstate.py``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import sparkstate
from sparkstate import KeyedBatchFunction, KeyedProcessFunction, Types, ValueStateDescriptor


class Sum(KeyedProcessFunction):
    """Running sum per key, answered row by row."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        yield row.k, total


class BatchSum(KeyedBatchFunction):
    """The same over Arrow batches, with the same answers."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        before = self.total.get(keys, default=0)
        self.total.update(keys, pc.add(before, keys.sum("v")))
        yield batch.set_column(1, "total", keys.cumulative_sum("v", start=before))


class Added(BatchSum):
    """The same, answered once for each key of a batch."""

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        total = pc.add(self.total.get(keys, default=0), keys.sum("v"))
        self.total.update(keys, total)
        yield pa.RecordBatch.from_arrays([keys.values, total], names=["k", "total"])


NOISE = random.Random(1).randbytes(1 << 20)
"""What no compression makes smaller."""
PADDING = 504


class PaddedSum(KeyedProcessFunction):
    """The running sum with 512 bytes of state for every key."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        stored = self.total.value()
        total = row.v if stored is None else int.from_bytes(stored[:8], "big") + row.v
        start = (row.k * 7919 + total) % (len(NOISE) - PADDING)
        self.total.update(total.to_bytes(8, "big") + NOISE[start : start + PADDING])
        yield row.k, total


FUNCTIONS = {"record": Sum, "batches": BatchSum, "added": Added, "padded": PaddedSum}


def sink(answers: str | None) -> Callable[[Any, int], None]:
    """Read the output and drop it, or write it down."""

    def write(frame: Any, epoch: int) -> None:
        if answers:
            frame.write.mode("append").csv(answers)
        else:
            frame.write.format("noop").mode("overwrite").save()

    return write


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    from peers import chunks
    from peers.programs import sparkstate_session

    given = params["input"], int(params["slots"]), params["key"], params["value"]
    if params["load"] == "session":
        rows = chunks.stream(spark, *given, params["time"])
        rows = rows.withWatermark("ts", f"{params['delay_ms']} milliseconds")
        function: Any = sparkstate_session.Sessions(int(params["gap_ms"]))
        answer = sparkstate_session.ANSWER
    else:
        rows = chunks.stream(spark, *given)
        chosen = "padded" if params["load"] == "large" else params["function"]
        function, answer = FUNCTIONS[chosen](), "k long, total long"
    answered = sparkstate.keyed(rows, "k").process(function, uid="answer", output_schema=answer)
    answered.sink(sink(params.get("answers")))
