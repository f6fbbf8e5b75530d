"""Small jobs, chosen by ``params["case"]``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, OutputTag, Types, ValueStateDescriptor


class Count(KeyedProcessFunction):
    """Numbers the rows of a key."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield row.label, count


class Alarm(Count):
    """Yields nothing until 300 ms of processing time have passed since a key's first row; counts rows and alarms."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        group = ctx.get_metrics_group().add_group("case", ctx.get_job_parameter("case", "none"))
        self.rows = group.counter("rows")
        self.alarms = group.counter("alarms")

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        list(super().process_element(row, ctx))
        self.rows.inc()
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 300)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        self.alarms.inc()
        yield ctx.get_current_key(), self.count.value()


LATE = OutputTag("late")


def files(spark: Any, folder: str, schema: str) -> Any:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def keys(spark: Any, params: dict[str, str]) -> None:
    rows = files(
        spark,
        params["input"],
        "s string, f double, d decimal(10,2), t timestamp, day date, b binary, ok boolean, label string",
    )
    counted = sparkstate.keyed(rows, params["by"].split(",")).process(
        Count(), uid="count", output_schema="label string, count bigint"
    )
    counted.sink(sparkstate.FileSink(params["output"], format="json"))


def alarm(spark: Any, params: dict[str, str]) -> None:
    rows = files(spark, params["input"], "label string")
    sparkstate.keyed(rows, "label").process(
        Alarm(), uid="alarm", output_schema="label string, count bigint"
    ).sink(sparkstate.FileSink(params["output"], format="json"))


def without_late_rows(spark: Any, params: dict[str, str]) -> Any:
    """The counted rows; late ones go to a side output, which the caller may read or not."""
    rows = files(spark, params["input"], "label string, at timestamp").withWatermark("at", "10 seconds")
    counted = sparkstate.keyed(rows, "label").process(
        Count(), uid="count", output_schema="label string, count bigint", late_output=LATE
    )
    counted.sink(sparkstate.FileSink(params["output"], format="json"))
    return counted


def late(spark: Any, params: dict[str, str]) -> None:
    counted = without_late_rows(spark, params)
    counted.side_output(LATE).sink(sparkstate.FileSink(params["output"] + "-late", format="json"))


def function_sink(spark: Any, params: dict[str, str]) -> None:
    def write(df: Any, epoch: int) -> None:
        time.sleep(float(params.get("sleep", "0")))
        twice = [df.count(), df.count()]
        rows = sorted(tuple(row) for row in df.collect())
        Path(params["output"]).mkdir(exist_ok=True)
        failed = Path(params["output"]).with_name("failed")
        if str(epoch) == params.get("fail_once") and not failed.exists():
            failed.touch()
            raise RuntimeError("the sink cannot write")
        (Path(params["output"]) / f"{epoch}.json").write_text(json.dumps({"counts": twice, "rows": rows}))

    rows = files(spark, params["input"], "label string")
    sparkstate.keyed(rows, "label").process(
        Count(), uid="count", output_schema="label string, count bigint"
    ).sink(write)


def settings(spark: Any, params: dict[str, str]) -> None:
    """In each epoch: what the session, its JVM and its Hadoop say of the names in ``params["names"]``, and one time."""
    name_of, java = json.loads(params["names"]), spark.sparkContext._jvm.java.lang.System
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()

    def write(df: Any, epoch: int) -> None:
        told = {
            "session": spark.conf.get(name_of["session"], None),
            "jvm": java.getProperty(name_of["jvm"]),
            "hadoop": hadoop.get(name_of["hadoop"]),
            "noon": df.selectExpr("date_format(timestamp_seconds(43200), 'HH:mm') AS noon").first().noon,
        }
        Path(params["output"]).write_text(json.dumps(told))

    rows = files(spark, params["input"], "label string")
    sparkstate.keyed(rows, "label").process(
        Count(), uid="count", output_schema="label string, count bigint"
    ).sink(write)


CASES = {
    "keys": keys,
    "alarm": alarm,
    "late": late,
    "late_unread": without_late_rows,
    "function_sink": function_sink,
    "settings": settings,
}


def job(spark: Any, params: dict[str, str]) -> None:
    if params.get("backend") == "rocksdb":
        sparkstate.set_state_backend(sparkstate.EmbeddedRocksDBStateBackend())
    CASES[params["case"]](spark, params)
