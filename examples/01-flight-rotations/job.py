"""Every aircraft's departures from New York in order, its accumulated delay, and who did not come back.

The rules (README.md gives the reasons):

- Event time is the **scheduled** departure in UTC: ``time_hour`` plus ``minute``. Every row has one, also a
  cancelled one.
- A row without a tail number belongs to no aircraft: side output ``skipped``, reason ``no tail number``.
- A row without ``dep_time`` was cancelled and is no departure: side output ``skipped``, reason ``cancelled``.
- A departure without ``arr_delay`` (diverted) is a departure; its delay counts as 0.
- Departures of one aircraft at the same minute are taken in the order of (carrier, flight, origin,
  destination).
- An aircraft is **grounded** when ``hours`` have passed since its last departure and no other is scheduled up
  to and including that instant. The end of the input counts as no further departure.

Arrival order does not matter, as long as it stays within the watermark's delay: departures wait in state
until the watermark has passed them, so the output is the same however the input is cut into epochs, and after
any recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sparkstate
from sparkstate import KeyedProcessFunction, MapStateDescriptor, OutputTag, Types, ValueStateDescriptor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkstate.functions import Context, OnTimerContext, RuntimeContext

HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALLOWED_DELAY = "1 hour"
"""Above the disorder of the input (30 minutes at most), so that no row is late."""

INPUT = (
    "tailnum string, carrier string, flight int, origin string, dest string, "
    "time_hour timestamp, minute int, dep_time int, arr_delay int"
)
DEPARTURES = (
    "tailnum string, scheduled timestamp, carrier string, flight int, origin string, dest string, "
    "position long, delay long, total_delay long"
)
GROUNDED = OutputTag(
    "grounded", "tailnum string, since timestamp, noticed timestamp, departures long, total_delay long"
)
SKIPPED = OutputTag(
    "skipped", "reason string, scheduled timestamp, carrier string, flight int, origin string, dest string"
)
FLIGHT = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING(), Types.STRING(), Types.INT()])
"""Carrier, flight, origin, destination, delay in minutes: sorted as they stand, ties follow the rules."""
ROTATION = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
"""The last departure (ms), the number of departures, the accumulated delay (minutes)."""


class Rotations(KeyedProcessFunction):
    """Keyed by tail number.

    ``hours`` is the time after which an aircraft without a further departure is grounded.
    """

    def __init__(self, hours: int) -> None:
        self.horizon_ms = hours * HOUR_MS

    def open(self, ctx: RuntimeContext) -> None:
        self.waiting = ctx.get_map_state(MapStateDescriptor("waiting", Types.LONG(), Types.LIST(FLIGHT)))
        self.rotation = ctx.get_state(ValueStateDescriptor("rotation", ROTATION))

    def process_element(self, flight: Any, ctx: Context) -> Iterator[Any]:
        scheduled = ctx.timestamp()
        reason = (
            "no tail number" if flight.tailnum is None else "cancelled" if flight.dep_time is None else None
        )
        if reason is not None:
            yield (
                SKIPPED,
                (reason, utc(scheduled), flight.carrier, flight.flight, flight.origin, flight.dest),
            )
            return
        departure = (flight.carrier, flight.flight, flight.origin, flight.dest, flight.arr_delay or 0)
        self.waiting.put(scheduled, [*(self.waiting.get(scheduled) or ()), departure])
        ctx.timer_service().register_event_time_timer(scheduled)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        """The watermark has passed ``timestamp``: all departures up to it are known."""
        tailnum = ctx.get_current_key()
        last, departures, total = self.rotation.value() or (None, 0, 0)
        flights = self.waiting.get(timestamp)
        if (
            flights is None
        ):  # nothing departs now, so this timer is the one that was set `hours` after a departure
            if last is not None and last + self.horizon_ms == timestamp:
                yield GROUNDED, (tailnum, utc(last), utc(timestamp), departures, total)
            return
        for carrier, flight, origin, dest, delay in sorted(flights):
            departures += 1
            total += delay
            yield tailnum, utc(timestamp), carrier, flight, origin, dest, departures, delay, total
        self.waiting.remove(timestamp)
        self.rotation.update((timestamp, departures, total))
        self._move_alarm(last, timestamp, ctx)

    def _move_alarm(self, last: int | None, departed: int, ctx: OnTimerContext) -> None:
        timers = ctx.timer_service()
        # A departure may wait at the very instant of the old alarm; then they share one timer, which stays.
        if last is not None and not self.waiting.contains(last + self.horizon_ms):
            timers.delete_event_time_timer(last + self.horizon_ms)
        timers.register_event_time_timer(departed + self.horizon_ms)


def utc(timestamp_ms: int) -> datetime:
    """The instant as an aware datetime."""
    return EPOCH + timedelta(milliseconds=timestamp_ms)


def job(spark: SparkSession, params: Mapping[str, str]) -> None:
    """Parameters: ``input`` (watched for Parquet files), ``output``, ``hours`` (168, a week)."""
    flights = (
        spark.readStream.schema(INPUT)
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
        .selectExpr("*", "timestampadd(MINUTE, minute, time_hour) AS scheduled")
        .withWatermark("scheduled", ALLOWED_DELAY)
    )
    rotations = sparkstate.keyed(flights, "tailnum").process(
        Rotations(int(params.get("hours", "168"))), uid="rotations", output_schema=DEPARTURES
    )
    rotations.sink(sparkstate.FileSink(f"{params['output']}/departures", format="parquet"))
    rotations.side_output(GROUNDED).sink(
        sparkstate.FileSink(f"{params['output']}/grounded", format="parquet")
    )
    rotations.side_output(SKIPPED).sink(sparkstate.FileSink(f"{params['output']}/skipped", format="parquet"))
