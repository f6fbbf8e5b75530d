"""Spark's transformWithState in Python (``function`` ``rows`` or ``pandas``) and its own windows (``windows``).

The state store is Spark's RocksDB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from peers import chunks

ANSWER = "k long, total long"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(slots: int) -> Any:
    """A local session with ``slots`` cores, 2 GiB, and the settings that sparkstate gives its own."""
    from pyspark.sql import SparkSession

    from sparkstate import java
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
    for key in (
        "spark.sql.adaptive.enabled",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.python.unix.domain.socket.enabled",
        "spark.authenticate",
        "spark.driver.extraJavaOptions",
    ):
        builder = builder.config(key, DEFAULTS[key])
    return builder.getOrCreate()


def summed(frame: Any, function: str) -> Any:
    """The running sum of each key, answered for every row."""
    import pandas as pd
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class RowSum(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "total long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            for row in rows:
                total = (self.total.get()[0] if self.total.exists() else 0) + row.v
                self.total.update((total,))
                yield Row(k=key[0], total=total)

        def close(self) -> None:
            return

    class PandasSum(RowSum):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            before = self.total.get()[0] if self.total.exists() else 0
            for batch in rows:
                totals = batch["v"].cumsum() + before
                before = int(totals.iloc[-1])
                yield pd.DataFrame({"k": key[0], "total": totals})
            self.total.update((before,))

    grouped = frame.groupBy("k")
    if function == "pandas":
        return grouped.transformWithStateInPandas(PandasSum(), ANSWER, "update", "none")
    return grouped.transformWithState(RowSum(), ANSWER, "update", "none")


def sessions(rows: Any, gap_ms: int, delay_ms: int) -> Any:
    """Begin, count and sum of each session, when the watermark has passed it."""
    from pyspark.sql import functions as F

    rows = rows.withWatermark("ts", f"{delay_ms} milliseconds")
    window = F.session_window("ts", f"{gap_ms} milliseconds").alias("window")
    counted = rows.groupBy("k", window).agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    return counted.selectExpr("k", "unix_millis(window.start) AS begun", "n", "total")


def answered_by(spark: Any, task: dict[str, str]) -> tuple[Any, str]:
    """The stream of answers and its output mode."""
    given = spark, task["input"], int(task["slots"])
    if task["function"] != "windows":
        return summed(chunks.stream(*given, task["key"], task["value"]), task["function"]), "update"
    if task["load"] == "session":
        rows = chunks.stream(*given, task["key"], task["value"], task["time"])
        return sessions(rows, int(task["gap_ms"]), int(task["delay_ms"])), "append"
    from peers import nexmark
    from peers.programs import spark_nexmark

    def events(kind: str) -> Any:
        return nexmark.stream(chunks.numbers(*given), kind, task)

    return spark_nexmark.answered(task["load"], events), "append"


def main() -> None:
    """Run to the end of the input."""
    task = dict(word.split("=", 1) for word in sys.argv[1:])
    spark = session(int(task["slots"]))
    answered, mode = answered_by(spark, task)
    answers = task.get("answers")

    def each(frame: Any, epoch: int) -> None:
        if answers:
            frame.write.mode("append").csv(answers)
        else:
            frame.write.format("noop").mode("overwrite").save()

    writer = answered.writeStream.foreachBatch(each).trigger(availableNow=True)
    writer = writer.outputMode(mode).option("checkpointLocation", f"{task['scratch']}/checkpoints")
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
