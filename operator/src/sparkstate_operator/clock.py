"""The only reader of time. Everything else is handed a :class:`Clock`; a test has its own and never sleeps."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sparkstate_spec.periodic import SOON_S

_EPOCH_YEAR = 1970


class Clock(Protocol):
    """The questions that the operator asks about time."""

    def now(self) -> datetime:
        """Wall time, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back and also count while the process or the machine sleeps."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251

    def monotonic(self) -> float:
        # Not CLOCK_MONOTONIC, which stops while the machine is suspended: a leader must find its Lease expired then.
        return time.clock_gettime(time.CLOCK_BOOTTIME)


def text(moment: datetime) -> str:
    """As Kubernetes writes times: whole seconds, ``Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_text(moment: datetime) -> str:
    """As Kubernetes writes MicroTime (leases)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(value: str | None) -> datetime | None:
    """A time of Kubernetes; None stays None."""
    return datetime.fromisoformat(value) if value else None


def read(value: str | None) -> datetime | None:
    """A time out of an annotation, which anybody may edit, in UTC. None for any other text, and for a time before the
    Unix epoch: the earliest ones cannot be converted to UTC, or be written as Kubernetes writes times."""
    try:
        found = parse(value)
        utc = found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
    return utc if utc is not None and utc.year >= _EPOCH_YEAR else None


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether a time that has passed by the clock that told it is still to come, by more than clocks may differ. That
    clock was ahead: another operator's, or this one's before it was set."""
    return moment > now + timedelta(seconds=SOON_S)


def from_ms(value: int | None) -> datetime | None:
    """Milliseconds since the Unix epoch, as the engine's REST writes times."""
    return None if value is None else datetime.fromtimestamp(value / 1000, UTC)
