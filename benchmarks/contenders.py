"""Spark's own ways through the same data: one process, one contender, its epochs as JSON on stdout.

``python contenders.py NAME FOLDER SLOTS QUERY_FOLDER [ANSWERED]`` with NAME one of ``identity``, ``identity-defaults``,
``aggregation``, ``window-aggregation`` (a sum per key and minute of event time), ``transform-with-state``.
An epoch's time is that from one ``foreachBatch`` callback to the next,
planning and bookkeeping of Spark included. All but ``identity-defaults`` run with the settings that our own session
has, so that ratios compare ways and not settings. With ANSWERED the input has no end: each epoch appends the time of
its end to that file (for latency).
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import cpu

SCHEMA = "k long, v long"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SAME = (
    "spark.sql.adaptive.enabled",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.python.unix.domain.socket.enabled",
    "spark.authenticate",
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.driver.extraJavaOptions",
)
"""What the engine's session sets and what can matter for speed."""


def session(name: str, slots: int) -> Any:
    """A local session with ``slots`` cores, 2 GiB and RocksDB as Spark's state store."""
    from pyspark.sql import SparkSession

    from sparkstate import java
    from sparkstate.spark import batch_weighing
    from sparkstate.spark.jvm import DEFAULTS

    os.environ.update(java.find(os.environ).environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(f"local[{slots}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", slots)
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.log.level", "ERROR")
    )
    if name != "identity-defaults":
        # As in our jobs: rows of two numbers need no weighing.
        builder = builder.config(batch_weighing.BYTES, batch_weighing.UNWEIGHED)
        for key in SAME:
            builder = builder.config(key, DEFAULTS[key])
    return builder.getOrCreate()


def same(batches: Iterator[Any]) -> Iterator[Any]:
    """The cheapest Python there is."""
    yield from batches


def identity(frame: Any, slots: int) -> Any:
    """Partition by key, through Python and back: the data path without any state."""
    from pyspark.sql import functions as F

    slot = F.pmod(F.xxhash64("k"), F.lit(slots)).cast("int")
    return frame.repartitionById(slots, slot).mapInArrow(same, SCHEMA)


def transform_with_state(frame: Any) -> Any:
    """The same running sum, answered record by record."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Sum(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "total long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            for row in rows:
                total = (self.total.get()[0] if self.total.exists() else 0) + row.v
                self.total.update((total,))
                yield Row(k=key[0], v=total)

        def close(self) -> None:
            return

    return frame.groupBy("k").transformWithState(Sum(), SCHEMA, "update", "none")


def main() -> None:
    """Run to the end of the input; print seconds and CPU seconds of every epoch."""
    name, folder, slots = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answered = sys.argv[5] if len(sys.argv) > 5 else None
    spark = session(name, slots)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    marks: list[tuple[float, dict[str, float]]] = []

    def each(frame: Any, epoch: int) -> None:
        marks.append((time.monotonic(), cpu.used(os.getpid())))
        made = identity(frame, slots) if name.startswith("identity") else frame
        made.write.format("noop").mode("overwrite").save()
        if answered:
            with open(answered, "a", encoding="ascii") as file:
                file.write(f"{time.time()}\n")

    if name == "aggregation":
        from pyspark.sql import functions as F

        stream = stream.groupBy("k").agg(F.sum("v").alias("v"))
    elif name == "window-aggregation":
        from pyspark.sql import functions as F

        stream = spark.readStream.schema(f"{SCHEMA}, at timestamp").option("maxFilesPerTrigger", 1)
        stream = stream.parquet(folder).withWatermark("at", "0 seconds")
        stream = stream.groupBy(F.window("at", "1 minute"), "k").agg(F.sum("v").alias("v"))
    elif name == "transform-with-state":
        stream = transform_with_state(stream)
    writer = stream.writeStream.foreachBatch(each)
    writer = writer.trigger(processingTime="0 seconds") if answered else writer.trigger(availableNow=True)
    if name == "window-aggregation":
        writer = writer.outputMode("append")  # a row for each key and window, as ours
    elif not name.startswith("identity"):
        writer = writer.outputMode("update")
    writer.option("checkpointLocation", sys.argv[4]).start().awaitTermination()
    marks.append((time.monotonic(), cpu.used(os.getpid())))
    spark.stop()
    epochs = [
        {"seconds": after[0] - before[0], "cpu_s": cpu.between(before[1], after[1])}
        for before, after in itertools.pairwise(marks)
    ]
    print(json.dumps(epochs))


if __name__ == "__main__":
    main()
