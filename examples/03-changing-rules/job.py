"""Fraud by rules that change while they are applied: a stream of payments, and one of rules that every slot sees.

A payment above the limit of its method is a strike; the third strike of a card within an hour is an alert. A limit
holds from a moment of event time on, so a payment waits until the watermark of both streams has passed it: then all
limits that hold for it are there, however rows were cut into epochs, and whatever was killed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sparkstate
from sparkstate import KeyedBroadcastProcessFunction, ListStateDescriptor, MapStateDescriptor, Types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkstate import RuntimeContext

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_MS = 3_600_000
STRIKES = 3

PAYMENT = "id long, card string, method string, amount long, at timestamp"
RULE = "method string, most long, since timestamp"
ALERT = "card string, payment long, at timestamp, amount long"

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LIST(Types.TUPLE([Types.LONG(), Types.LONG()])))
"""By method, its limits in order of time: from when on (ms), and how much."""
WAITING = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])
"""A payment: id, method, amount."""


class Fraud(KeyedBroadcastProcessFunction):
    """Keyed by card."""

    def open(self, ctx: RuntimeContext) -> None:
        self.waiting = ctx.get_map_state(MapStateDescriptor("waiting", Types.LONG(), Types.LIST(WAITING)))
        self.strikes = ctx.get_list_state(ListStateDescriptor("strikes", Types.LONG()))

    def process_broadcast_element(self, rule: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        limits = ctx.get_broadcast_state(LIMITS)
        known = sorted({*(limits.get(rule.method) or ()), (milliseconds(rule.since), rule.most)})
        # Older ones than the one that holds at the watermark are of no use any more.
        held = [since for since, _ in known if since <= ctx.current_watermark()]
        limits.put(rule.method, [each for each in known if not held or each[0] >= held[-1]])

    def process_element(self, payment: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        at = ctx.timestamp()
        later = self.waiting.get(at) or []
        self.waiting.put(at, [*later, (payment.id, payment.method, payment.amount)])
        ctx.timer_service().register_event_time_timer(at)

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, int, datetime, int]]:
        limits = ctx.get_broadcast_state(LIMITS)
        for number, method, amount in sorted(self.waiting.get(timestamp)):
            if amount <= limit_at(limits.get(method) or (), timestamp):
                continue
            strikes = [at for at in self.strikes.get() if at > timestamp - HOUR_MS]
            strikes.append(timestamp)
            if len(strikes) == STRIKES:
                yield ctx.get_current_key(), number, EPOCH + timedelta(milliseconds=timestamp), amount
                strikes = []
            self.strikes.update(strikes)
        self.waiting.remove(timestamp)


def limit_at(limits: Any, at_ms: int) -> float:
    """The limit that holds at a moment; none before the first."""
    held = [most for since, most in limits if since <= at_ms]
    return held[-1] if held else float("inf")


def milliseconds(moment: datetime) -> int:
    """Since the Unix epoch."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def job(spark: SparkSession, params: Mapping[str, str]) -> None:
    """Parameters: ``payments``, ``rules`` and ``output``, all folders."""
    payments = spark.readStream.schema(PAYMENT).option("maxFilesPerTrigger", 1).parquet(params["payments"])
    rules = spark.readStream.schema(RULE).option("maxFilesPerTrigger", 1).parquet(params["rules"])
    (
        sparkstate.keyed(payments.withWatermark("at", "10 minutes"), "card")
        .connect(sparkstate.broadcast(rules, LIMITS, event_time="since"))
        .process(Fraud(), uid="fraud", output_schema=ALERT)
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
