"""Puts out what comes in, by way of a Spark worker that leaves word of itself for every batch it sees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction


class Echo(KeyedProcessFunction):
    """Puts out what comes in."""

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield row.k, row.id


def job(spark: Any, params: dict[str, str]) -> None:
    """The function that the driver calls."""
    seen = Path(params["seen"])

    def watched(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            libraries = Path(f"/proc/{os.getppid()}/maps").read_text()
            # Whoever looks into the folder must never find a file without its word.
            word = seen.with_name(f"{seen.name}-{os.getpid()}")
            word.write_text("loaded" if "pyarrow" in libraries else "bare")
            word.replace(seen / str(os.getpid()))
            yield batch

    files = spark.readStream.schema("k string, id long").option("maxFilesPerTrigger", 1)
    rows = files.parquet(params["input"]).mapInArrow(watched, "k string, id long")
    echo = sparkstate.keyed(rows, "k").process(Echo(), uid="echo", output_schema="k string, id long")
    echo.sink(sparkstate.FileSink(params["output"]))
