"""Passes on the rows of a Kafka topic, late ones aside; its partitions have a watermark each, or all of them one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, OutputTag

LATE = OutputTag("late")


class Pass(KeyedProcessFunction):
    """Passes the rows that are in time."""

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield row.partition, row.at


def job(spark: Any, params: dict[str, str]) -> None:
    """The function that the driver calls.

    ``parts``: ``own`` (found by itself, since there is an idle timeout) or ``none``.
    """
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", params["kafka"])
        .option("subscribe", params["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load()
    )
    rows = messages.selectExpr("topic", "partition", "CAST(CAST(value AS STRING) AS bigint) AS at")
    times = {"event_time": "at", "delay": "5 seconds"}
    if params["parts"] == "own":
        times["idle_timeout"] = "1 hour"
    passed = sparkstate.keyed(rows, ["topic", "partition"], **times).process(
        Pass(), uid="pass", output_schema="partition int, at bigint", late_output=LATE
    )
    passed.sink(sparkstate.FileSink(params["output"]))
    passed.side_output(LATE).sink(sparkstate.FileSink(params["output"] + "-late"))
