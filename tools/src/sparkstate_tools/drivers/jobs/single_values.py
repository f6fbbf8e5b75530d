"""A value under the number of each row of ``totals.py``, which expires in processing time and is never read: ``ttl`` in
ms, ``bytes`` of a value."""

from __future__ import annotations

import random
from typing import Any

import totals

import sparkstate
from sparkstate import KeyedProcessFunction, StateTtlConfig, Time, Types, ValueStateDescriptor


class SingleValues(KeyedProcessFunction):
    """Writes; yields nothing."""

    def __init__(self, ttl_ms: int, value_bytes: int) -> None:
        self._ttl_ms = ttl_ms
        self._value_bytes = value_bytes

    def open(self, ctx: Any) -> None:
        descriptor = ValueStateDescriptor("value", Types.STRING())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(self._ttl_ms)).build())
        self.value = ctx.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        # Random text: RocksDB compresses what repeats.
        self.value.update(random.Random(value.id).randbytes(self._value_bytes // 2).hex())


def _nothing(frame: Any, epoch: int) -> None:
    """A job needs a sink; this one has no rows."""


def job(spark: Any, params: dict[str, str]) -> None:
    sparkstate.keyed(totals.source(spark, params), "id").process(
        SingleValues(int(params["ttl"]), int(params["bytes"])), uid="single", output_schema="id bigint"
    ).sink(_nothing)
