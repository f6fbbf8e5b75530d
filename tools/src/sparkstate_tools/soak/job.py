"""The job of the soak: running totals of a fixed set of keys, so that its state stops growing after a few epochs."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, ListStateDescriptor, Types, ValueStateDescriptor

MINUTE_MS = 60_000
HEAP_WATCH = "live-heap"
CLEANING_S = 3.0
"""Spark drops the blocks of a broadcast when a collection has found the broadcast dead, in a thread of its own. Each
epoch broadcasts Hadoop's configuration, 50 kB with its thousand entries: without a second collection after that, the
live heap counts some hundred of them, more the faster the epochs are."""
FILES_REMEMBERED = "10m"
"""By their modification times, which are a second apart (``supply.py``): 600 files."""


class Totals(KeyedProcessFunction):
    """Answers each row with its key's total; a timer at the end of each minute of event time clears the list."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.minute = ctx.get_list_state(ListStateDescriptor("minute", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        self.minute.add(row.id)
        ctx.timer_service().register_event_time_timer((row.at // MINUTE_MS + 1) * MINUTE_MS)
        yield row.id, total

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.minute.clear()


def job(spark: Any, params: dict[str, str]) -> None:
    """The function that the driver calls."""
    _watch_heap(spark, Path(params["heap"]), float(params["heap_every_s"]))
    reader = spark.readStream.schema("k long, id long, v long, at long").option("maxFilesPerTrigger", 1)
    rows = reader.option("maxFileAge", FILES_REMEMBERED).parquet(params["input"])
    sparkstate.keyed(rows, "k", event_time="at", delay=1000).process(
        Totals(), uid="totals", output_schema="id long, total long"
    ).sink(sparkstate.FileSink(params["output"]))


def _watch_heap(spark: Any, path: Path, every_s: float) -> None:
    """Write again and again how many bytes of the JVM's heap are in use right after a collection and Spark's cleaning.

    Resident memory does not tell: the JVM touches all of its heap sooner or later, however little of it lives.
    """
    if any(thread.name == HEAP_WATCH for thread in threading.enumerate()):
        return  # an earlier incarnation's, in the same process
    java = spark._jvm.java.lang

    def watch() -> None:
        while True:
            time.sleep(every_s)
            # Python's garbage names objects of the JVM, and its oldest generation is collected every few minutes only.
            gc.collect()
            java.System.gc()
            time.sleep(CLEANING_S)
            java.System.gc()
            used = java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
            hidden = path.with_suffix(".new")
            hidden.write_text(str(used))
            hidden.rename(path)

    threading.Thread(target=watch, name=HEAP_WATCH, daemon=True).start()
