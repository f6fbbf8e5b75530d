"""The part of the contract of spills (``backends.base.Spill``) for changes that come in the order of their keys."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class OrderedSpill(Protocol):
    """A spill that takes less time where the keys of each addition lie behind those of the additions before."""

    def expect_order(self) -> None:
        """The additions will come in the order of key groups and keys, nearly all of them. Call it before the first
        one. An addition out of order is taken as well, and costs more from then on."""


@runtime_checkable
class OrderedSpills(Protocol):
    """A factory that makes such spills."""

    makes_ordered_spills: bool
