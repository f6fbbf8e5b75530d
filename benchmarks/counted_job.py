"""The benchmark's keyed sum with its calls of the JVM written down, for ``spark_part.py``.

``params``: ``input`` (folder of Parquet files), ``calls`` (file for the calls), ``compilations`` (file for counts of
compiled plans), ``output`` (folder of a ``FileSink``; without it, a function reads the output and drops it).
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import job as plain

import sparkstate
from sparkstate_tools.tracing import jvm_calls

_LOOK_S = 0.5


def watch(spark: Any, calls: Path, compilations: Path) -> None:
    """Write down all calls from now on, and every half second how much code Spark has compiled for plans."""
    counting = jvm_calls.Calls(spark._jvm._gateway_client, jvm_calls.written(calls))

    def look() -> None:
        with counting.uncounted(), compilations.open("a", buffering=1, encoding="ascii") as file:
            compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
            while True:
                file.write(json.dumps([time.time(), compiled.getCount()]) + "\n")
                time.sleep(_LOOK_S)

    threading.Thread(target=look, daemon=True).start()


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    watch(spark, Path(params["calls"]), Path(params["compilations"]))
    output = params.get("output")
    plain.summed(spark, params).sink(sparkstate.FileSink(output) if output else plain.sink(None))
