"""Streams as a job declares them, on Spark's plans: lengths of time, and rows without keys on their way to slots."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.spark import spark_session

import sparkstate
from sparkstate import MapStateDescriptor, Types, columns
from sparkstate.durations import Time
from sparkstate.functions import KeyedProcessFunction
from sparkstate.spark import graph, planning, plans, shipping

pytestmark = pytest.mark.spark
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def files(folder: Path) -> DataFrame:
    reader = spark_session.get().readStream.schema("k string, v double, at timestamp")
    return reader.option("maxFilesPerTrigger", "1").parquet(str(folder))


class Nothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return None


def test_lengths_of_time_are_given_as_to_windows(tmp_path: Path) -> None:
    def job() -> None:
        one = sparkstate.keyed(
            files(tmp_path),
            "k",
            event_time="at",
            delay=Time.minutes(2),
            idle_timeout=datetime.timedelta(seconds=5),
        )
        joined = one.interval_join(one).between(Time.minutes(-1), datetime.timedelta(milliseconds=7))
        assert (joined._operation.least, joined._operation.most) == (-60_000, 7)
        one.process(Nothing(), uid="u", output_schema="k string").sink(lambda df, epoch: None)

    (source,) = graph.declare(job).sources
    assert (source.delay_ms, source.idle_timeout_ms) == (120_000, 5000)


def test_rows_without_keys_go_to_the_slots_in_turn(tmp_path: Path) -> None:
    def job() -> None:
        known = sparkstate.broadcast(files(tmp_path), RULES)
        spread = sparkstate.stream(files(tmp_path)).connect(known)
        finish_of = spread.process(
            sparkstate.BroadcastProcessFunction(), uid="spread", output_schema="k string"
        )
        finish_of.sink(lambda frame, epoch: None)

    declared = graph.declare(job)
    (spec,) = planning.operator_specs(declared)
    assert spec.key_columns == ()
    ship = shipping.Shipping(declared, declared.operators["spread"], 128, [3, 70, 100])
    struct = plans.stream_type(declared, None, 1)
    rows = [(str(number), 0.0, None) for number in range(90)]
    frame = spark_session.get().createDataFrame(rows, struct).repartition(5)
    of_epoch = frame.select(
        F.struct("*").alias(columns.rows_of(1)),
        F.lit(None).cast(struct).alias(columns.rows_of(0)),
        F.lit(1).alias(columns.SOURCE),
    )
    shipped = ship.of_epoch(of_epoch).collect()
    counts = Counter(row[columns.KEY_GROUP] for row in shipped)
    assert counts.keys() == {3, 70, 100}
    assert max(counts.values()) - min(counts.values()) <= 5, "one for each partition at most"
    assert sorted(int(row[columns.of_input(0, "k")]) for row in shipped) == list(range(90))
