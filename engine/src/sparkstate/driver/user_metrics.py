"""The metrics that functions made, from what the slots tell to what a reader sees. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sparkstate.control import documents, port
from sparkstate.slots import protocol

MOST_IN_STATUS = 500
"""The status is asked for often, and its readers bound an answer's bytes."""


def by_slot(replies: Iterable[protocol.SlotStatus]) -> tuple[port.SlotMetric, ...]:
    """Each slot's own numbers."""
    return tuple(
        port.SlotMetric(reply.slot, _document(metric)) for reply in replies for metric in reply.user_metrics
    )


def over_slots(metrics: Sequence[port.SlotMetric]) -> tuple[documents.UserMetric, ...]:
    """One for each operator, name and kind, in the order in which they first come."""
    grouped: dict[tuple[str, str, str], list[documents.UserMetric]] = {}
    for one in metrics:
        metric = one.metric
        grouped.setdefault((metric.operator, metric.name, metric.kind), []).append(metric)
    return tuple(_together(same) for same in list(grouped.values())[:MOST_IN_STATUS])


def not_shown(replies: Iterable[protocol.SlotStatus]) -> bool:
    """Whether a function made more metrics than are shown."""
    return any(reply.user_metrics_not_shown for reply in replies)


def _document(metric: protocol.UserMetric) -> documents.UserMetric:
    return documents.UserMetric(
        operator=metric.operator,
        name=metric.name,
        kind=metric.kind,
        count=metric.count,
        rate=metric.rate,
        sum=metric.sum,
        least=metric.least,
        largest=metric.largest,
    )


def _together(same: Sequence[documents.UserMetric]) -> documents.UserMetric:
    return same[0].model_copy(
        update={
            "count": _fold(sum, [one.count for one in same]),
            "rate": _fold(sum, [one.rate for one in same]),
            "sum": _fold(sum, [one.sum for one in same]),
            "least": _fold(min, [one.least for one in same]),
            "largest": _fold(max, [one.largest for one in same]),
        }
    )


def _fold(how: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return how(known) if known else None
