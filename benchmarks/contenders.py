"""Spark's own ways through the same data: one process, one contender, epoch times as JSON on stdout.

``python contenders.py NAME FOLDER SLOTS QUERY_FOLDER`` with NAME one of
``identity``, ``aggregation``, ``transform-with-state``.
An epoch's time is that from one ``foreachBatch`` callback to the next, planning and bookkeeping of Spark included.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

SCHEMA = "k long, v long"


def session(slots: int) -> Any:
    from pyspark.sql import SparkSession

    from sparkstate import java

    os.environ.update(java.find(os.environ).environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(f"local[{slots}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", "-Xss8m")
        .config("spark.sql.shuffle.partitions", slots)
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def identity(frame: Any, slots: int) -> Any:
    from pyspark.sql import functions as F

    return frame.repartitionById(slots, F.pmod(F.xxhash64("k"), F.lit(slots)).cast("int")).mapInArrow(
        same, SCHEMA
    )


def transform_with_state(frame: Any) -> Any:
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
    name, folder, slots = sys.argv[1], sys.argv[2], int(sys.argv[3])
    spark = session(slots)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    started: list[float] = []

    def each(frame: Any, epoch: int) -> None:
        started.append(time.monotonic())
        made = identity(frame, slots) if name == "identity" else frame
        made.write.format("noop").mode("overwrite").save()

    if name == "aggregation":
        from pyspark.sql import functions as F

        stream = stream.groupBy("k").agg(F.sum("v").alias("v"))
    elif name == "transform-with-state":
        stream = transform_with_state(stream)
    writer = stream.writeStream.foreachBatch(each).trigger(availableNow=True)
    if name != "identity":
        writer = writer.outputMode("update")
    writer.option("checkpointLocation", sys.argv[4]).start().awaitTermination()
    started.append(time.monotonic())
    spark.stop()
    print(json.dumps([b - a for a, b in itertools.pairwise(started)]))


if __name__ == "__main__":
    main()
