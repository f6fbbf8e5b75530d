"""The benchmark's job: a keyed sum by a per-record Python function that answers every record.

``params``: ``input`` (folder of Parquet files); ``answered`` (a file to which the sink appends the time at which it
had read an epoch's output; used for latency); ``function`` (``sum``, ``batches``, ``added`` or ``padded``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from keyed_sums import FUNCTIONS

import sparkstate


def sink(answered: str | None) -> Callable[[Any, int], None]:
    """Read the output and drop it, as the contenders do; note when."""

    def nothing(frame: Any, epoch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()
        if answered:
            with open(answered, "a", encoding="ascii") as file:
                file.write(f"{time.time()}\n")

    return nothing


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    rows = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(params["input"])
    processed = sparkstate.keyed(rows, "k").process(
        FUNCTIONS[params["function"]](), uid="sum", output_schema="k long, total long"
    )
    processed.sink(sink(params.get("answered")))
