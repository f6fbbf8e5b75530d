"""``totals`` behind a source that makes trouble: a column that raises, tasks that somebody cancels, and a thread
of its own that stops its query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import totals


def job(spark: Any, params: dict[str, str]) -> None:
    from pyspark.sql import functions as F

    folder = Path(params["trouble"])
    raising = {
        int(number): int(times) for number, times in (each.split("x") for each in params["raise"].split())
    }
    shaky = F.udf(_ShakyFunction(str(folder), raising), "bigint")
    rows = totals.source(spark, params).withColumn("v", shaky("id", "v"))
    if "shuffle" in params:
        rows = rows.repartition(int(params["shuffle"]), "k")
    totals.declare(rows.select("k", "id", "v", "at"), params)
    for name, act in (("cancel", _cancel), ("stop", _stop)):
        threading.Thread(target=_act_when_told, args=(act, spark, folder / name), daemon=True).start()
    if "stop_at" in params:
        threading.Thread(target=_stop_at, args=(spark, Path(params["stop_at"])), daemon=True).start()


class _ShakyFunction:
    """Passes ``v`` on, but raises at certain rows the first few times that Spark asks."""

    def __init__(self, folder: str, raising: dict[int, int]) -> None:
        self._folder = folder
        self._raising = raising

    def __call__(self, number: int, value: int) -> int:
        for time_ in range(self._raising.get(number, 0)):
            try:
                Path(self._folder, f"raised-{number}-{time_}").touch(exist_ok=False)
            except FileExistsError:
                continue
            raise ValueError(f"the source fails at row {number}, time {time_ + 1}")
        return value


def _act_when_told(act: Callable[[Any], None], spark: Any, told: Path) -> None:
    while not told.exists():
        time.sleep(0.05)
    act(spark)
    told.unlink()


def _stop_at(spark: Any, entry: Path) -> None:
    """As soon as Spark has written it, without a pause: that moment is short."""
    while not entry.exists():
        pass
    _stop(spark)


def _cancel(spark: Any) -> None:
    """Do as a person who clicks in Spark's page."""
    spark.sparkContext.cancelAllJobs()


def _stop(spark: Any) -> None:
    """Do as code that takes the job's query for its own."""
    for query in spark.streams.active:
        query.stop()
