"""Orders and payments: two file sources with different columns, an operator of both, and operators behind it.

``matched`` connects the sources; ``counted`` connects its output with a source; ``settled`` connects its two outputs;
``priced`` lets every slot see a third source, as do ``checked`` and ``announced`` without keys; ``joined`` joins the
sources by time; ``large`` and ``spent`` read one with short methods of a keyed stream. With ``params["methods"]`` the
other short methods do so too: each operator costs a job of Spark in every epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessJoinFunction,
    Types,
    ValueStateDescriptor,
)

UNPAID = OutputTag("unpaid", "customer string, id bigint")
PATIENCE_MS = 1000
NEVER = 10**15
"""A time that only the end of the input reaches."""


class Match(KeyedCoProcessFunction):
    """Brings an order and its payment together, whichever comes first; a timer tells of orders that nobody paid."""

    def open(self, ctx: Any) -> None:
        self.orders = ctx.get_map_state(MapStateDescriptor("orders", Types.LONG(), Types.LONG()))
        self.payments = ctx.get_map_state(MapStateDescriptor("payments", Types.LONG(), Types.STRING()))
        self.due = ctx.get_map_state(MapStateDescriptor("due", Types.LONG(), Types.LONG()))

    def process_element1(self, order: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        method = self.payments.get(order.id)
        if method is not None:
            self.payments.remove(order.id)
            yield order.customer, order.id, order.amount, method
            return
        self.orders.put(order.id, order.amount)
        self.due.put(order.id, order.at + PATIENCE_MS)
        ctx.timer_service().register_event_time_timer(order.at + PATIENCE_MS)

    def process_element2(self, payment: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        amount = self.orders.get(payment.order_id)
        if amount is None:
            self.payments.put(payment.order_id, payment.method)
            return
        self.orders.remove(payment.order_id)
        yield payment.payer, payment.order_id, amount, payment.method

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[OutputTag, tuple[Any, ...]]]:
        for number in [number for number, due in self.due.items() if due <= timestamp]:
            self.due.remove(number)
            if self.orders.contains(number):
                self.orders.remove(number)
                yield UNPAID, (ctx.get_current_key(), number)


class Count(KeyedCoProcessFunction):
    """How many rows of each input a key had, told at the end."""

    def open(self, ctx: Any) -> None:
        self.first = ctx.get_state(ValueStateDescriptor("first", Types.LONG()))
        self.second = ctx.get_state(ValueStateDescriptor("second", Types.LONG()))

    def process_element1(self, row: Any, ctx: Any) -> None:
        self.first.update((self.first.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(NEVER)

    def process_element2(self, row: Any, ctx: Any) -> None:
        self.second.update((self.second.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(NEVER)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield ctx.get_current_key(), self.first.value() or 0, self.second.value() or 0


class Settle(KeyedCoProcessFunction):
    """Tells whether an order was paid."""

    def process_element1(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield row.id, "paid"

    def process_element2(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield row.id, "unpaid"


RATES = MapStateDescriptor("rates", Types.STRING(), Types.STRING())
KNOWN = MapStateDescriptor("known", Types.STRING(), Types.LONG())
ORDERS = ValueStateDescriptor("orders", Types.LONG())


class RateHistory(KeyedBroadcastProcessFunction):
    """Keeps the history of each rate; each key tells them at the end, and how many came after its first order."""

    def open(self, ctx: Any) -> None:
        self.orders = ctx.get_state(ORDERS)
        self.seen = ctx.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, order: Any, ctx: Any) -> None:
        self.orders.update((self.orders.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(NEVER)

    def process_broadcast_element(self, rate: Any, ctx: Any) -> None:
        rates = ctx.get_broadcast_state(RATES)
        rates.put(rate.name, f"{rates.get(rate.name) or ''}{rate.factor},")
        ctx.apply_to_keyed_state(ORDERS, lambda key, orders: self.seen.update((self.seen.value() or 0) + 1))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        told = ";".join(
            f"{name}:{history}" for name, history in sorted(ctx.get_broadcast_state(RATES).items())
        )
        yield ctx.get_current_key(), self.orders.value(), told, self.seen.value() or 0


class Check(BroadcastProcessFunction, CheckpointedFunction):
    """Tells with each order how many rates are known; each slot tells at the end how many orders it had."""

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.stored = store.get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.count = sum(self.stored.get())

    def process_element(self, order: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        self.count += 1
        yield order.id, ctx.get_broadcast_state(KNOWN).get("all") or 0

    def process_broadcast_element(self, rate: Any, ctx: Any) -> None:
        known = ctx.get_broadcast_state(KNOWN)
        known.put("all", (known.get("all") or 0) + 1)

    def snapshot_state(self, ctx: Any) -> None:
        self.stored.update([self.count])

    def finish(self) -> Iterator[tuple[Any, ...]]:
        yield -1, self.count


class AnnouncedRow(BroadcastProcessFunction):
    """Passes rows of another operator on."""

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield (row.id,)

    def process_broadcast_element(self, rate: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(KNOWN).put("last", rate.factor)


class Pair(ProcessJoinFunction):
    """Orders and payments of one customer at about the same time."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield left.id, right.order_id, ctx.get_timestamp()


def together(one: Any, other: Any) -> tuple[Any, ...]:
    """The first order of a customer, with the amounts of both and the later time."""
    return one.customer, one.id, one.amount + other.amount, max(one.at, other.at)


def other_methods(orders: Any) -> dict[str, Any]:
    """A short method each, by the operator's uid."""
    return {
        "halved": orders.map(
            lambda order: (order.id, order.amount // 2), uid="halved", output_schema="id bigint, half bigint"
        ),
        "pieces": orders.flat_map(
            lambda order: [(order.id, piece) for piece in range(order.amount % 3)],
            uid="pieces",
            output_schema="id bigint, piece bigint",
        ),
        "together": orders.reduce(together, uid="together"),
        "least": orders.min("amount", uid="least"),
        "latest": orders.max("at", uid="latest"),
    }


def read(spark: Any, params: dict[str, str], name: str, schema: str) -> Any:
    return (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{params['input']}/{name}")
    )


def job(spark: Any, params: dict[str, str]) -> None:
    orders = read(spark, params, "orders", "customer string, id bigint, amount bigint, at bigint")
    payments = read(spark, params, "payments", "payer string, order_id bigint, method string, paid timestamp")
    of_customer = sparkstate.keyed(orders, "customer", event_time="at", delay=500)
    of_payer = sparkstate.keyed(payments.withWatermark("paid", "500 milliseconds"), "payer")
    out = params["output"]
    matched = of_customer.connect(of_payer).process(
        Match(), uid="matched", output_schema="customer string, id bigint, amount bigint, method string"
    )
    unpaid = matched.side_output(UNPAID)
    counted = (
        matched.keyed("customer")
        .connect(of_customer)
        .process(Count(), uid="counted", output_schema="customer string, matched bigint, orders bigint")
    )
    settled = (
        matched.keyed("id")
        .connect(unpaid.keyed("id"))
        .process(Settle(), uid="settled", output_schema="id bigint, became string")
    )
    joined = (
        of_customer.interval_join(of_payer)
        .between(-20, "40 ms")
        .upper_bound_exclusive()
        .process(Pair(), uid="joined", output_schema="id bigint, order_id bigint, later bigint")
    )
    rates = read(spark, params, "rates", "name string, factor bigint")
    priced = of_customer.connect(sparkstate.broadcast(rates, RATES)).process(
        RateHistory(), uid="priced", output_schema="customer string, orders bigint, rates string, seen bigint"
    )
    known = sparkstate.broadcast(rates, KNOWN)
    checked = (
        sparkstate.stream(orders, event_time="at", delay=500)
        .connect(known)
        .process(Check(), uid="checked", output_schema="id bigint, known bigint")
    )
    announced = matched.connect(known).process(AnnouncedRow(), uid="announced", output_schema="id bigint")
    large = of_customer.filter(lambda order: order.amount > 6, uid="large")
    spent = of_customer.sum("amount", uid="spent")
    others = other_methods(of_customer) if "methods" in params else {}
    for name, stream in (
        ("matched", matched),
        ("unpaid", unpaid),
        ("counted", counted),
        ("settled", settled),
        ("joined", joined),
        ("priced", priced),
        ("checked", checked),
        ("announced", announced),
        ("large", large),
        ("spent", spent),
        *others.items(),
    ):
        stream.sink(sparkstate.FileSink(f"{out}/{name}"))
