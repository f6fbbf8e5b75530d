"""An alert for each device that falls silent, in Spark's ``transformWithState``.

``python on_spark.py INPUT OUTPUT CHECKPOINTS``
"""

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

HOUR_MS = 3_600_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Silence(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "total long")
        self.kinds = handle.getMapState("kinds", "kind string", "count long")
        self.alarm = handle.getValueState("alarm", "at long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            total = self.total.get()[0] if self.total.exists() else 0
            self.total.update((total + row.value,))
            count = self.kinds.getValue((row.kind,))[0] if self.kinds.containsKey((row.kind,)) else 0
            self.kinds.updateValue((row.kind,), (count + 1,))
            at = int(row.at.timestamp() * 1000) + HOUR_MS
            before = self.alarm.get()[0] if self.alarm.exists() else None
            if before is None or at > before:
                if before is not None:
                    self.handle.deleteTimer(before)
                self.handle.registerTimer(at)
                self.alarm.update((at,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        kinds = sorted((kind[0], count[0]) for kind, count in self.kinds.iterator())
        shown = ",".join(f"{kind}:{count}" for kind, count in kinds)
        yield Row(device=key[0], total=self.total.get()[0], kinds=shown)
        for state in (self.total, self.kinds, self.alarm):
            state.clear()

    def close(self) -> None:
        pass


def main(folder: str, output: str, checkpoints: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .getOrCreate()
    )
    readings = (
        spark.readStream.schema("device string, kind string, value long, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(folder)
    )
    alerts = (
        readings.withWatermark("at", "10 minutes")
        .groupBy("device")
        .transformWithState(Silence(), "device string, total long, kinds string", "Append", "EventTime")
    )
    alerts.writeStream.trigger(availableNow=True).option("checkpointLocation", checkpoints).option(
        "path", output
    ).format("parquet").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
