"""What a slot tells of itself beside its state: its memory, and the metrics that its functions made."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sparkstate.operators.base import Operator
from sparkstate.slots import protocol


def user_metrics(operators: Mapping[str, Operator[Any]], now_s: float) -> tuple[protocol.UserMetric, ...]:
    """The functions' own metrics. ``now_s``: a clock that only goes forward."""
    return tuple(
        protocol.UserMetric(operator=uid, **asdict(reading))
        for uid, operator in operators.items()
        for reading in operator.metrics.read(now_s)
    )


def metrics_not_shown(operators: Mapping[str, Operator[Any]]) -> int:
    """How many metrics were made beyond those that operators show."""
    return sum(operator.metrics.not_shown for operator in operators.values())


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
