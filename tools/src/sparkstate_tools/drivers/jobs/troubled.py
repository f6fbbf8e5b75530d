"""``totals`` behind a source that makes trouble: a column that raises, tasks that somebody cancels."""

from __future__ import annotations

import threading
import time
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
    threading.Thread(target=_cancel_when_told, args=(spark, folder / "cancel"), daemon=True).start()


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


def _cancel_when_told(spark: Any, told: Path) -> None:
    """Do as a person who clicks in Spark's page."""
    while not told.exists():
        time.sleep(0.05)
    spark.sparkContext.cancelAllJobs()
    told.unlink()
