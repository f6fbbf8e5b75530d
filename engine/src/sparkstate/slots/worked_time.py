"""How long operators have worked on the attempts of epochs: on batches of rows, and on the end of an epoch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sparkstate import clock

_Attempt = tuple[int, str, int]
"""Epoch, operator, attempt."""


class WorkedTime:
    """The clock is read twice for a batch, never for a record. One thread at a time: whoever runs the operators."""

    def __init__(self, clock_: clock.Clock) -> None:
        self._clock = clock_
        self._seconds: dict[_Attempt, float] = {}

    @contextlib.contextmanager
    def measured(self, epoch: int, operator: str, attempt: int) -> Iterator[None]:
        """The time inside is work on that attempt."""
        began, key = self._clock.monotonic(), (epoch, operator, attempt)
        try:
            yield
        finally:
            self._seconds[key] = self._seconds.get(key, 0.0) + self._clock.monotonic() - began

    def milliseconds(self, epoch: int, operator: str, attempt: int) -> float:
        """The time so far; 0 for an attempt that never came."""
        return self._seconds.get((epoch, operator, attempt), 0.0) * 1000

    def forget(self, epoch: int) -> None:
        """This epoch and earlier ones are over."""
        for key in [key for key in self._seconds if key[0] <= epoch]:
            del self._seconds[key]
