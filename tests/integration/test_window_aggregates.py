"""Built-in aggregates of windows in whole jobs, beside Spark's own windows on the same rows; and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from support.spark import spark_session

import sparkstate
from sparkstate import errors
from sparkstate.functions import OutputTag
from sparkstate.phases import ProcessPhase
from sparkstate.spark import graph, planning
from sparkstate.windows import (
    CountEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from sparkstate_tools.drivers import driving, totals, window_rows

pytestmark = pytest.mark.spark


def spark_windows(folder: Path, keys: list[str], size: str, slide: str) -> list[dict[str, Any]]:
    """What Spark's own windows give for the same rows; first and last by event time, and by place within a file."""
    rows = spark_session.get().read.parquet(str(folder))
    window = F.window("at", size, slide)
    by_time = [
        F.min_by("v", "at").alias("first"),
        F.expr("max_by(v, at) filter (where v is not null)").alias("last"),
    ]
    made = rows.groupBy(*keys, window).agg(*window_rows.aggregates(), *by_time)
    bounds = [F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")]
    others = [f"`{name}`" for name in made.columns if name not in (*keys, "window")]
    return [row.asDict() for row in made.select(*keys, *bounds, *others).collect()]


def check_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]], keys: list[str]) -> None:
    """Equal, floating-point numbers up to rounding, distinct counts up to one in these small windows."""

    def by_window(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
        named = {(*(row[key] for key in keys), row["window_start"].timestamp()): row for row in rows}
        assert len(named) == len(rows)
        return named

    got, expected = by_window(found), by_window(wanted)
    assert got.keys() == expected.keys()
    for window, row in expected.items():
        for name, value in row.items():
            other = got[window][name]
            if isinstance(value, float) and other is not None:
                assert math.isclose(other, value, rel_tol=1e-9, abs_tol=1e-9), (window, name)
            elif name == "names":
                assert abs(other - value) <= 1
            elif name in ("window_start", "window_end", "newest"):
                assert other.timestamp() == value.timestamp(), (window, name)
            else:
                assert other == value, (window, name)


@pytest.mark.parametrize(
    ("backend", "keys", "size", "slide"),
    [("hashmap", ["k", "n"], "5 seconds", "2 seconds"), ("rocksdb", ["n"], "4 seconds", "1 second")],
)
def test_a_killed_job_gives_what_sparks_windows_give(
    tmp_path: Path, backend: str, keys: list[str], size: str, slide: str
) -> None:
    window_rows.make_input(tmp_path / "in", files=12)
    params = {"keys": ",".join(keys), "size": size, "slide": slide}
    document = driving.manifest(
        tmp_path, "window_aggregates.py", params=params, stateBackend={"type": backend}
    )
    with driving.Driver(tmp_path, document) as driver:
        driver.kill_in("slot-0", ProcessPhase.COMMIT)
        driver.finish()
    found = totals.read(tmp_path / "out")
    check_same(found, spark_windows(tmp_path / "in", keys, size, slide), keys)
