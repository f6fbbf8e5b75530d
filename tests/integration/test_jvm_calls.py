"""How often an epoch calls Spark's JVM: each call waits for its answer, so they add up to a part of a small epoch."""

from __future__ import annotations

import dataclasses
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from support.slots import slots
from support.spark import spark_session

import sparkstate
from sparkstate import phases
from sparkstate.clock import SystemClock
from sparkstate.settings import TriggerSettings
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import feeding, graph, planning, plans, shipping
from sparkstate.spark.epochs import EpochRunner
from sparkstate.spark.query import Query
from sparkstate.spark.watermarks import Watermarks
from sparkstate_tools.tracing import jvm_calls, jvm_spans

pytestmark = pytest.mark.spark

EPOCHS = 4
DDL = "k string, v long"
ROWS = T.StructType([T.StructField("k", T.StringType()), T.StructField("v", T.LongType())])


def job(spark: Any, params: dict[str, Any]) -> None:
    rows = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(params["input"])
    processed = sparkstate.keyed(rows, "k").process(
        slots.Sum(), uid="sum", output_schema="k string, total long"
    )
    processed.sink(params["sink"])


class Counted:
    """A query over ``EPOCHS`` files with a slot in this process, and the calls that each of its epochs makes."""

    def __init__(self, folder: Path, sink: Any) -> None:
        self.sink = sink
        self._folder = folder
        self._spark: Any = spark_session.get()
        self.epochs: list[list[jvm_calls.Call]] = [[]]
        for number in range(EPOCHS):
            rows = pa.table({"k": ["a", "b"], "v": [number, 1]})
            (folder / "in").mkdir(exist_ok=True)
            pq.write_table(rows, folder / "in" / f"{number}.parquet")
        self._declared = graph.declare(job, self._spark, {"input": str(folder / "in"), "sink": sink})
        plan = dataclasses.replace(slots.plan(folder), operators=planning.operator_specs(self._declared))
        self.slot = slots.Slot(folder / "slot", plan)
        self.slot.restore()
        here = socket.gethostname()
        self._group = SlotGroup((dataclasses.replace(self.slot.address, host=here),), slots.KEY, 1, here)

    def run(self) -> None:
        time = SystemClock()
        recorder = phases.Phases("driver", time, {})
        runner = EpochRunner(
            self._spark,
            self._declared,
            slots.KEY_SPACE,
            self._group,
            Watermarks(()),
            time,
            recorder,
            lambda: None,
            60.0,
            is_selected=True,
        )

        def epoch(frame: DataFrame | None, number: int) -> None:
            self.epochs.append([])
            runner.run(frame, number)

        def tell(call: jvm_calls.Call) -> None:
            self.epochs[-1].append(call)

        calls = jvm_calls.Calls(self._spark._jvm._gateway_client, tell)
        try:
            query = Query.start(
                self._spark,
                self._declared,
                self._folder / "query",
                TriggerSettings(available_now=True),
                epoch,
                time,
                selected=shipping.in_query(self._declared, slots.KEY_SPACE.max_parallelism),
                tasks=feeding.tasks_at_once(self._spark, 1),
            )
            assert query.wait(120)
            assert query.failure is None
        finally:
            calls.stop()
            runner.close()

    def total(self, key: str) -> str:
        group = plans.key_group_of(self._spark, ROWS, ["k"], [key], slots.KEY_SPACE.max_parallelism)
        return self.slot.value(key, group)

    def close(self) -> None:
        self._group.close()
        self.slot.close()


def nothing(frame: DataFrame, epoch: int) -> None:
    """A sink that makes no calls of its own."""


@pytest.fixture
def counted(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Counted]:
    sink = sparkstate.FileSink(str(tmp_path / "out")) if request.param == "files" else nothing
    made = Counted(tmp_path, sink)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("counted", "most"), [("function", 19), ("files", 15)], indirect=["counted"], ids=["function", "files"]
)
def test_an_epoch_calls_the_jvm_no_more_often_than_it_did(counted: Counted, most: int) -> None:
    counted.run()
    assert counted.total("b") == str(EPOCHS), "the rows of all epochs became state"
    waited = [
        [call for call in epoch if call.kind != jvm_calls.RELEASE] for epoch in counted.epochs[1 : EPOCHS + 1]
    ]
    # From one callback to the next; after the last one come calls of the query's end.
    for calls in waited[1:-1]:
        names = Counter(f"{call.kind} {call.name}".strip() for call in calls)
        assert 5 < len(calls) <= most, f"{len(calls)} calls: {names}"
        sizes = [call.size for call in calls if call.name.endswith("SimplePythonFunction")]
        assert len(sizes) == (1 if isinstance(counted.sink, sparkstate.FileSink) else 2)
        assert max(sizes) < 4096, "each task gets the pickled function"


class EventLog:
    """Spark's own listener that writes the event log, added to a session that runs."""

    def __init__(self, spark: Any, folder: Path) -> None:
        folder.mkdir()
        context = spark._jsc.sc()
        conf = context.conf().clone()
        for name, value in jvm_spans.settings(folder).items():
            conf.set(name, value)
        scheduler = spark._jvm.org.apache.spark.scheduler
        uri = spark._jvm.java.net.URI(folder.as_uri())
        self._listener = scheduler.EventLoggingListener("log", spark._jvm.scala.Option.empty(), uri, conf)
        self._bus = context.listenerBus()

    def __enter__(self) -> None:
        self._listener.start()
        self._bus.addToEventLogQueue(self._listener)

    def __exit__(self, *_: object) -> None:
        self._bus.waitUntilEmpty()
        self._bus.removeListener(self._listener)
        self._listener.stop()


@pytest.mark.parametrize("counted", ["function"], indirect=True)
def test_sparks_event_log_tells_where_an_epoch_is_in_the_jvm(counted: Counted, tmp_path: Path) -> None:
    with EventLog(spark_session.get(), tmp_path / "events"):
        counted.run()
    found = jvm_spans.read(tmp_path / "events")
    batches = {span.epoch: span for span in found if span.track == "micro-batches"}
    assert {"addBatch", "queryPlanning"} <= batches[1].told.keys()
    for epoch in range(EPOCHS):
        of_epoch = [span for span in found if span.epoch == epoch and span.track != "micro-batches"]
        assert {span.track for span in of_epoch} == {"jobs", "tasks"}
        for span in of_epoch:
            assert span.name == "collect at feeding.py", "the job that brings the rows"
            assert batches[epoch].begin - 1 <= span.begin <= span.end <= batches[epoch].end + 1
            assert span.cpu_s is not None
            assert 0 < span.cpu_s <= 2 * (span.end - span.begin + 1) / 1000
