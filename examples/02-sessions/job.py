"""Sessions of clicks, then figures per landing page: two keyed operators in a row, in one epoch transaction.

- ``Sessions``, keyed by user: clicks less than ``gap_minutes`` apart belong together. An event-time timer
  closes a session when the watermark has passed its last click by the gap. A processing-time timer raises an
  **idle** alarm when a user has not clicked for ``idle_seconds`` by the clock on the wall.
- ``LandingPages``, keyed by the page on which a session began: sessions, clicks and seconds per UTC day, told
  when the watermark has passed the day.

Clicks older than the watermark go to the side output ``late`` and change nothing. The clicks come from a
folder of JSON files or from a Kafka topic; nothing else in the job depends on which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sparkstate
from sparkstate import (
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ReduceFunction,
    ReducingStateDescriptor,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparkstate.functions import Context, OnTimerContext, RuntimeContext

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000

CLICK = "user string, page string, at timestamp"
SESSIONS = "user string, started timestamp, ended timestamp, clicks long, landing string"
LANDING_PAGES = "landing string, day timestamp, sessions long, clicks long, seconds long"
IDLE = OutputTag("idle", "user string, clicks long")
LATE = OutputTag("late")
"""Rows as they came: clicks, from Kafka with their partition."""

SESSION = Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])
"""The last click (ms), the number of clicks, the page of the first one."""
DAY = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
"""Sessions, clicks, milliseconds."""


class Sum(ReduceFunction):
    """Adds."""

    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Sessions(KeyedProcessFunction):
    """Keyed by user; the open sessions are kept by their first click. Clicks may come in any order."""

    def __init__(self, gap_ms: int, idle_ms: int) -> None:
        self.gap_ms = gap_ms
        self.idle_ms = idle_ms

    def open(self, ctx: RuntimeContext) -> None:
        self.sessions = ctx.get_map_state(MapStateDescriptor("sessions", Types.LONG(), SESSION))
        self.clicks = ctx.get_reducing_state(ReducingStateDescriptor("clicks", Sum(), Types.LONG()))
        self.alarm = ctx.get_state(ValueStateDescriptor("alarm", Types.LONG()))

    def process_element(self, click: Any, ctx: Context) -> None:
        self._add(ctx.timestamp(), click.page, ctx)
        self.clicks.add(1)
        self._move_alarm(ctx)

    def _add(self, at: int, page: str, ctx: Context) -> None:
        """Join the click and all open sessions that are less than the gap away into one."""
        first, last, clicks, landing = at, at, 1, page
        for start, (end, count, start_page) in list(self.sessions.items()):
            if start - self.gap_ms < at < end + self.gap_ms:
                first, landing = min((first, landing), (start, start_page))
                last, clicks = max(last, end), clicks + count
                self.sessions.remove(start)
                ctx.timer_service().delete_event_time_timer(end + self.gap_ms)
        self.sessions.put(first, (last, clicks, landing))
        ctx.timer_service().register_event_time_timer(last + self.gap_ms)

    def _move_alarm(self, ctx: Context) -> None:
        timers = ctx.timer_service()
        if (before := self.alarm.value()) is not None:
            timers.delete_processing_time_timer(before)
        alarm = timers.current_processing_time() + self.idle_ms
        timers.register_processing_time_timer(alarm)
        self.alarm.update(alarm)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        user = ctx.get_current_key()
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME:
            self.alarm.clear()
            yield IDLE, (user, self.clicks.get())
            return
        for first, (last, clicks, landing) in list(self.sessions.items()):
            if last + self.gap_ms == timestamp:
                self.sessions.remove(first)
                yield user, utc(first), utc(last), clicks, landing


class LandingPages(KeyedProcessFunction):
    """Keyed by landing page.

    A session counts for the day in which it was closed, that is: its last click plus the gap.
    """

    def open(self, ctx: RuntimeContext) -> None:
        self.days = ctx.get_map_state(MapStateDescriptor("days", Types.LONG(), DAY))

    def process_element(self, session: Any, ctx: Context) -> None:
        day = ctx.timestamp() // DAY_MS * DAY_MS
        sessions, clicks, duration_ms = self.days.get(day) or (0, 0, 0)
        took_ms = (session.ended - session.started) // timedelta(milliseconds=1)
        self.days.put(day, (sessions + 1, clicks + session.clicks, duration_ms + took_ms))
        ctx.timer_service().register_event_time_timer(day + DAY_MS)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        day = timestamp - DAY_MS
        sessions, clicks, duration_ms = self.days.get(day)
        self.days.remove(day)
        yield ctx.get_current_key(), utc(day), sessions, clicks, duration_ms // 1000


def utc(timestamp_ms: int) -> datetime:
    """The instant as an aware datetime."""
    return EPOCH + timedelta(milliseconds=timestamp_ms)


def read_clicks(spark: SparkSession, params: Mapping[str, str]) -> DataFrame:
    """From the folder ``input``, one file an epoch, or from the topic ``topic`` of the broker ``kafka``."""
    if "kafka" not in params:
        return spark.readStream.schema(CLICK).option("maxFilesPerTrigger", 1).json(params["input"])
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", params["kafka"])
        .option("subscribe", params["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", params.get("rows_per_epoch", "10000"))
        .load()
    )
    clicks = messages.selectExpr(
        "topic", "partition", f"from_json(CAST(value AS STRING), '{CLICK}') AS click"
    )
    return clicks.select("click.*", "topic", "partition")


def job(spark: SparkSession, params: Mapping[str, str]) -> None:
    """Parameters: ``input``, or ``kafka`` and ``topic``; ``output``; the others have defaults."""
    clicks = read_clicks(spark, params).withWatermark("at", params.get("delay", "10 minutes"))
    gap_ms = int(params.get("gap_minutes", "30")) * 60_000
    idle_ms = int(params.get("idle_seconds", "60")) * 1000
    output = params["output"]

    # A partition that is read behind the others holds the watermark, so that its clicks are not late.
    parts = ("topic", "partition") if "kafka" in params else None
    stream = sparkstate.keyed(clicks, "user", watermark_partition=parts, idle_timeout="5 minutes")
    sessions = stream.process(
        Sessions(gap_ms, idle_ms), uid="sessions", output_schema=SESSIONS, late_output=LATE
    )
    sessions.sink(sparkstate.FileSink(f"{output}/sessions", format="parquet"))
    sessions.side_output(IDLE).sink(sparkstate.FileSink(f"{output}/idle", format="parquet"))
    sessions.side_output(LATE).sink(sparkstate.FileSink(f"{output}/late", format="parquet"))
    (
        sessions.keyed("landing")
        .process(LandingPages(), uid="landing-pages", output_schema=LANDING_PAGES)
        .sink(sparkstate.FileSink(f"{output}/landing-pages", format="parquet"))
    )
