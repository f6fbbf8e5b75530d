"""A job with as much state as its input asks for; README.md tells what it does and how it is checked.

``params``: ``input`` (folder of Parquet files), ``output`` (folder), ``value_bytes`` (1000).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, Types, ValueStateDescriptor

STEP = 1_000_003
MASK = (1 << 63) - 1
NOISE_BYTES = 1 << 20


class Chain(KeyedProcessFunction):
    """A chain of checksums per key, and a value made from the last one, which is proved at every visit."""

    def __init__(self, value_bytes: int) -> None:
        self.value_bytes = value_bytes

    def open(self, ctx: Any) -> None:
        self.noise = random.Random(7).randbytes(NOISE_BYTES + self.value_bytes)
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.checksum = ctx.get_state(ValueStateDescriptor("checksum", Types.LONG()))
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def made_from(self, checksum: int) -> bytes:
        """The value that belongs to a checksum."""
        at = checksum % NOISE_BYTES
        return self.noise[at : at + self.value_bytes]

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        before = self.checksum.value()
        if before is not None and self.value.value() != self.made_from(before):
            raise ValueError(f"the stored value of key {row.k} is not the one that was written last")
        checksum = ((before or 0) * STEP + row.v) & MASK
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.checksum.update(checksum)
        self.value.update(self.made_from(checksum))
        yield row.k, count, checksum


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    files = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1)
    rows = files.option("pathGlobFilter", "*.parquet").parquet(params["input"])  # plan.json lies beside them
    chains = sparkstate.keyed(rows, "k").process(
        Chain(int(params.get("value_bytes", "1000"))),
        uid="chain",
        output_schema="k long, count long, checksum long",
    )
    chains.sink(sparkstate.FileSink(params["output"], format="parquet"))
