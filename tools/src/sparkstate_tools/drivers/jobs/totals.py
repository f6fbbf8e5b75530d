"""Two operators in a row: running totals per key, then a count per group; late, rejected and timer outputs aside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, ListStateDescriptor, OutputTag, Types, ValueStateDescriptor

QUIET = OutputTag("quiet", "k string, at bigint, rows bigint")
ERRORS = OutputTag("errors")


class Totals(KeyedProcessFunction):
    """Numbers a key's rows and sums them; a timer 1000 ms after the last row tells when the key went quiet."""

    def __init__(self, poison: str, pause_s: float) -> None:
        self._poison = poison
        self._pause_s = pause_s

    def open(self, ctx: Any) -> None:
        print(f"totals opens in slot {ctx.get_index_of_this_subtask()}")
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.timer = ctx.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        self.seen.add(row.id)
        if row.k == self._poison:
            raise ValueError(f"poisoned by {row.id}")
        timers = ctx.timer_service()
        old = self.timer.value()
        due = row.at + 1000
        if old is None or due > old:
            if old is not None:
                timers.delete_event_time_timer(old)
            timers.register_event_time_timer(due)
            self.timer.update(due)
        if self._pause_s:
            time.sleep(self._pause_s)
        yield row.k, row.id, row.v, total

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[OutputTag, tuple[Any, ...]]]:
        rows = list(self.seen.get())
        self.timer.clear()
        yield QUIET, (ctx.get_current_key(), timestamp, len(rows))


class Groups(KeyedProcessFunction):
    """Counts the rows of a group of keys."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield row.v, count


def job(spark: Any, params: dict[str, str]) -> None:
    declare(source(spark, params), params)


def source(spark: Any, params: dict[str, str]) -> Any:
    files = int(params.get("files", "1"))
    reader = spark.readStream.schema("k string, id bigint, v bigint, at bigint")
    reader = reader.option("maxFileAge", params.get("max_file_age", "7d"))
    return reader.option("maxFilesPerTrigger", files).parquet(params["input"])


def declare(
    rows: Any, params: dict[str, str], function: type[Totals] = Totals, groups_function: type[Groups] = Groups
) -> Any:
    """The operators and their sinks; returns the output of the second."""
    poison = params.get("poison", "")
    totals = sparkstate.keyed(rows, "k", event_time="at", delay=int(params.get("delay", "500"))).process(
        function(poison, float(params.get("pause", "0"))),
        uid="totals",
        output_schema="k string, id bigint, v bigint, total bigint",
        on_error="side-output" if params.get("on_error") else "fail",
        error_output=ERRORS if params.get("on_error") else None,
    )
    out = params["output"]
    totals.sink(sparkstate.FileSink(f"{out}/totals"))
    totals.side_output(QUIET).sink(sparkstate.FileSink(f"{out}/quiet"))
    if params.get("on_error"):
        totals.side_output(ERRORS).sink(sparkstate.FileSink(f"{out}/errors"))
    groups = totals.keyed("v").process(
        groups_function(), uid="groups", output_schema="v bigint, count bigint"
    )
    if params.get("without") != "groups":
        groups.sink(sparkstate.FileSink(f"{out}/groups"))
    return groups
