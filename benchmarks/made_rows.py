"""The job of ``scale_on_nodes.py``: a keyed sum of rows that Spark makes, so that no pod needs files for its input.

``params``: ``rows`` of an epoch; ``tasks`` that make them; ``keys``; ``function`` (one of ``keyed_sums.FUNCTIONS``).
The driver's log has a line for each epoch that has been answered.
"""

from __future__ import annotations

from typing import Any

from keyed_sums import FUNCTIONS

import sparkstate

ANSWERED = "answered epoch "


def answered(frame: Any, epoch: int) -> None:
    """Read the output and drop it, as the other benchmarks do; say so."""
    frame.write.format("noop").mode("overwrite").save()
    print(f"{ANSWERED}{epoch}", flush=True)


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls. The keys of an epoch are spread by a multiplicative hash of the row's number."""
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", params["rows"])
        .option("numPartitions", params["tasks"])
        .load()
    )
    rows = numbers.selectExpr(f"value * 2654435761 % 4294967296 % {params['keys']} AS k", "value % 100 AS v")
    function = FUNCTIONS[params["function"]]()
    summed = sparkstate.keyed(rows, "k").process(function, uid="sum", output_schema="k long, total long")
    summed.sink(answered)
