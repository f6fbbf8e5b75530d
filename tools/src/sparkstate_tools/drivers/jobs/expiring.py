"""Totals and recent rows of a key, which expire in event time; a count that may do so, and one of processing time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import totals

import sparkstate
from sparkstate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

SCHEMA = "k string, id bigint, total bigint, recent bigint, rows bigint, clocked bigint"


class Expiring(KeyedProcessFunction):
    """Yields the sum of a key since it was last quiet for the time-to-live, how many rows of it are recent, and how
    many there were: since it was quiet if ``rows_expire``."""

    def __init__(self, ttl_ms: int, rows_expire: bool) -> None:
        self._ttl_ms = ttl_ms
        self._rows_expire = rows_expire

    def open(self, ctx: Any) -> None:
        by_events = StateTtlConfig.new_builder(Time.milliseconds(self._ttl_ms)).use_event_time().build()
        by_clock = StateTtlConfig.new_builder(Time.days(1)).update_ttl_on_read_and_write().build()
        total = ValueStateDescriptor("total", Types.LONG())
        recent = ListStateDescriptor("recent", Types.STRING())
        rows = ValueStateDescriptor("rows", Types.LONG())
        total.enable_time_to_live(by_events)
        recent.enable_time_to_live(by_events)
        if self._rows_expire:
            rows.enable_time_to_live(by_events)
        clocked = ValueStateDescriptor("clocked", Types.LONG())
        clocked.enable_time_to_live(by_clock)
        self.clocked = ctx.get_state(clocked)
        self.total = ctx.get_state(total)
        self.recent = ctx.get_list_state(recent)
        self.rows = ctx.get_state(rows)

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        self.recent.add(str(row.id))
        self.rows.update((self.rows.value() or 0) + 1)
        self.clocked.update((self.clocked.value() or 0) + 1)
        yield row.k, row.id, total, len(self.recent.get()), self.rows.value(), self.clocked.value()


def job(spark: Any, params: dict[str, str]) -> None:
    rows = totals.source(spark, params)
    sparkstate.keyed(rows, "k", event_time="at", delay=0).process(
        Expiring(int(params["ttl"]), "rows_expire" in params),
        uid="expiring",
        output_schema=SCHEMA,
    ).sink(sparkstate.FileSink(f"{params['output']}/expiring"))
