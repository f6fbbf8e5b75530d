"""Whether an epoch ends beside the beginning of the next one, where nothing forbids it. Pure.

It pays where the sources have more rows: Spark plans and reads them meanwhile. Where they have none, Spark writes down
that the epoch is over and looks for new rows up to a hundred times a second. The sink's job then shares the processors
with that, and a small epoch is answered later (RFC 0056).

An epoch that ends beside the next one shows whether there are more rows: Spark has begun the next one by then, or it
still waits for rows. If it waits, the following epochs end before the next one begins, and after them another one
overlaps as a try.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

SHORT_S: Final = 0.3
"""An epoch whose end takes longer overlaps in any case: rows that come meanwhile would wait for it."""
_MOST: Final = 8
"""Epochs without a try: so many end by themselves where rows begin to come faster than they are processed."""


@dataclass(frozen=True)
class EpochOverlap:
    """All that is remembered of the epochs so far."""

    waits: int = 0
    """So many more epochs end by themselves."""
    pause: int = 1
    """Epochs that will end by themselves when the next try is in vain."""

    @property
    def pays(self) -> bool:
        """Whether the next epoch's end should run beside the one after it."""
        return self.waits == 0

    def after(self, took_s: float, *, overlapped: bool, was_of_use: bool) -> EpochOverlap:
        """An epoch's end took so long. ``was_of_use``: it ran beside the next epoch, which Spark had begun by then."""
        if took_s > SHORT_S or was_of_use:
            return EpochOverlap()
        if overlapped:
            return EpochOverlap(self.pause, min(2 * self.pause, _MOST))
        return replace(self, waits=max(0, self.waits - 1))
