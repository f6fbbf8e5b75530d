"""Windows in whole jobs: what they put out is what Spark SQL's windows say of the same rows, each window once, through
kills of slots, and over a savepoint into another backend and another number of slots."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from support.spark import spark_session

from sparkstate.control import documents
from sparkstate.phases import ProcessPhase
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark

WINDOWS = {
    "tumbling": lambda at: F.window(at, "300 milliseconds"),
    "sliding": lambda at: F.window(at, "600 milliseconds", "200 milliseconds", "50 milliseconds"),
    "session": lambda at: F.session_window(at, "20 milliseconds"),
}


def by_spark(rows: DataFrame, window: Column) -> Counter[tuple[Any, ...]]:
    """Key, start, end, sum and number of rows of each window."""
    sums = rows.groupBy("k", window.alias("w")).agg(F.sum("v").alias("total"), F.count("*").alias("n"))
    ends = [F.unix_millis(F.col(f"w.{end}")) for end in ("start", "end")]
    return Counter(tuple(row) for row in sums.select("k", *ends, "total", "n").collect())


def frame_of(rows: list[totals.Row]) -> DataFrame:
    session: Any = spark_session.get()
    frame: DataFrame = session.createDataFrame(rows, "k string, id bigint, v bigint, at bigint")
    return frame.withColumn("at", F.timestamp_millis("at"))


@pytest.mark.fault(
    broken="a slot is killed (SIGKILL)",
    when="in the middle of {moment} windows",
    expected="the epoch is processed again; each window is put out once, with all of its rows",
)
@pytest.mark.parametrize(
    ("moment", "backend"),
    [
        ("firing", "rocksdb"),
        ("merging", "hashmap"),
        *(
            pytest.param(moment, backend, marks=pytest.mark.extra)
            for moment, backend in (
                ("firing", "hashmap"),
                ("cleaning", "hashmap"),
                ("cleaning", "rocksdb"),
                ("merging", "rocksdb"),
            )
        ),
    ],
)
def test_windows_are_exact_when_a_slot_dies_in_the_middle_of_them(
    tmp_path: Path, moment: str, backend: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=10)
    died = tmp_path / "died"
    params = {"moment": moment, "died": str(died)}
    document = driving.manifest(tmp_path, "dying_windows.py", params=params, stateBackend={"type": backend})
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
        assert died.exists(), "no slot came so far"
        incarnations = {
            entry["incarnation"] for entry in driver.phases() if entry["process"].startswith("slot")
        }
        assert len(incarnations) == 2
    frame = frame_of(rows)
    for name in ("tumbling", "session"):
        found = Counter(tuple(row.values()) for row in totals.read(tmp_path / "out" / name))
        assert found == by_spark(frame, WINDOWS[name](F.col("at"))), name


@pytest.mark.parametrize(("first", "second"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_windows_are_those_of_spark_sql_through_kills_and_a_savepoint(
    tmp_path: Path, first: str, second: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=12)
    document = driving.manifest(
        tmp_path, "windowed.py", stateBackend={"type": first}, trigger={"processingTime": "100ms"}
    )
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driver.kill_in("slot-0", ProcessPhase.FINISH)
        driving.wait_for(
            lambda: all(totals.read(tmp_path / "out" / name) for name in WINDOWS),
            driving.PATIENCE_S,
            "windows of each kind",
            driver.process,
        )
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="half-way", stop=True))
        driver.finish()
    savepoint = driver.end()["savepoint"]["location"]

    rows += totals.make_input(tmp_path / "in", files=3, first=12, seed=8)
    copy = driving.manifest(
        tmp_path,
        "windowed.py",
        name="copy",
        slots=3,
        stateBackend={"type": second},
        restoreFrom={"uri": savepoint},
        params={"output": str(tmp_path / "copy")},
    )
    with driving.Driver(tmp_path / "second", copy) as driver:
        driver.kill_in("slot-1", ProcessPhase.COMMIT)
        driver.finish()

    frame = frame_of(rows)
    for name, window in WINDOWS.items():
        before = [tuple(row.values()) for row in totals.read(tmp_path / "out" / name)]
        after = [tuple(row.values()) for row in totals.read(tmp_path / "copy" / name)]
        assert before and after, name
        assert Counter(before + after) == by_spark(frame, window(F.col("at"))), name
