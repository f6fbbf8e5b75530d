"""sparkstate's job for each load; ``params`` come from ``on_sparkstate.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keyed_sums
from pyspark.sql import functions as F

import sparkstate
from sparkstate.windows import EventTimeSessionWindows

FUNCTIONS = {"record": keyed_sums.Sum, "batches": keyed_sums.BatchSum, "added": keyed_sums.Added}
LARGE = {"record": keyed_sums.PaddedSum, "batches": keyed_sums.PaddedBatchSum}
"""The same with 512 bytes of state for every key."""


def sink(answers: str | None) -> Callable[[Any, int], None]:
    """Read the output and drop it, or write it down."""

    def write(frame: Any, epoch: int) -> None:
        if answers:
            frame.write.mode("append").csv(answers)
        else:
            frame.write.format("noop").mode("overwrite").save()

    return write


def nexmark_job(params: dict[str, str], numbers: Callable[[], Any]) -> None:
    """A query over events; those of each kind have a source of their own."""
    from peers import nexmark
    from peers.programs import sparkstate_nexmark

    query, write = params["load"], sink(params.get("answers"))

    def events(kind: str) -> Any:
        return nexmark.stream(numbers(), kind, params)

    answered = sparkstate_nexmark.answered(query, events)
    answered.sink(lambda frame, epoch: write(sparkstate_nexmark.written(query, frame), epoch))


def sessions(rows: Any, params: dict[str, str]) -> Any:
    """The stream of sessions of the load ``session``."""
    timed = rows.withWatermark("ts", f"{params['delay_ms']} milliseconds")
    windows = sparkstate.keyed(timed, "k").window(EventTimeSessionWindows.with_gap(int(params["gap_ms"])))
    return windows.agg(F.count("*").alias("n"), F.sum("v").alias("total"), uid="answer")


def begun(frame: Any) -> Any:
    """Sessions as the comparison knows them."""
    return frame.selectExpr("k", "unix_millis(window_start)", "n", "total")


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    from peers import chunks, loads

    numbered = params["input"], int(params["slots"])
    write = sink(params.get("answers"))
    if params["load"] in loads.QUERIES:
        nexmark_job(params, lambda: chunks.numbers(spark, *numbered))
        return
    given = *numbered, params["key"], params["value"]
    if params["load"] == "session":
        rows = chunks.stream(spark, *given, params["time"])
        answered = sessions(rows, params)
        answered.sink(lambda frame, epoch: write(begun(frame), epoch))
        return
    functions = LARGE if params["load"] == "large" else FUNCTIONS
    answered = sparkstate.keyed(chunks.stream(spark, *given), "k").process(
        functions[params["function"]](), uid="answer", output_schema="k long, total long"
    )
    answered.sink(write)
