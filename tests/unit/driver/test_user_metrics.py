"""Functions' own metrics, from the slots' words to one row for each."""

from __future__ import annotations

import msgspec
from support.storage.stores import ManualClock

from sparkstate.control import documents
from sparkstate.driver import user_metrics
from sparkstate.driver.view import JobView
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress

REPLY = protocol.SlotStatus(
    slot=0, pid=7, shards=(0,), state_bytes=9, state_rows=1, rss_bytes=10, memory={}, metrics={}
)
ADDRESSES = [SlotAddress(slot, "executor-1", 7, "/s", 0) for slot in range(2)]


def metric(kind: str, name: str = "m", **numbers: float) -> protocol.UserMetric:
    return protocol.UserMetric(operator="op", name=name, kind=kind, **numbers)


def replies(*of_slots: list[protocol.UserMetric], not_shown: int = 0) -> list[protocol.SlotStatus]:
    return [
        msgspec.structs.replace(
            REPLY, slot=slot, user_metrics=tuple(metrics), user_metrics_not_shown=not_shown
        )
        for slot, metrics in enumerate(of_slots)
    ]


def view() -> JobView:
    return JobView(documents.JobIdentity(job_uid="u", attempt=1), "job", "shop", "rocksdb", ManualClock())


def test_the_status_has_each_metric_once_over_all_slots() -> None:
    shown = view()
    shown.note_slots(
        ADDRESSES,
        replies(
            [
                metric("counter", "rows", count=5),
                metric("gauge", "open", least=4, largest=4),
                metric("meter", "seen", count=7, rate=2.5),
                metric("distribution", "size", count=2, sum=30, least=10, largest=20),
            ],
            [
                metric("counter", "rows", count=-2),
                metric("gauge", "open", least=9, largest=9),
                metric("meter", "seen", count=1, rate=0.5),
                metric("distribution", "size", count=0, sum=0),
            ],
        ),
    )
    rows, opened, seen, size = shown.status().user_metrics
    assert rows == documents.UserMetric(operator="op", name="rows", kind="counter", count=3)
    assert (opened.least, opened.largest) == (4, 9)
    assert (seen.count, seen.rate) == (8, 3.0)
    assert (size.count, size.sum, size.least, size.largest) == (2, 30, 10, 20)
    assert [one.slot for one in shown.user_metrics()] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_the_status_is_bounded_and_says_that_more_were_made() -> None:
    shown = view()
    many = [metric("counter", f"m{number}", count=1) for number in range(user_metrics.MOST_IN_STATUS + 9)]
    shown.note_slots(ADDRESSES, replies(many, many, not_shown=3))
    shown.note_slots(ADDRESSES, replies(many, many, not_shown=4))
    status = shown.status()
    assert len(status.user_metrics) == user_metrics.MOST_IN_STATUS
    assert len([notice for notice in status.notices if "give metrics fixed names" in notice]) == 1


def test_metrics_of_an_incarnation_are_never_said_to_be_the_next_ones() -> None:
    shown = view()
    shown.note_slots(ADDRESSES, replies([metric("counter", count=5)], []))
    shown.note_incarnation(2, None, None)
    assert shown.status().user_metrics == shown.user_metrics() == ()
