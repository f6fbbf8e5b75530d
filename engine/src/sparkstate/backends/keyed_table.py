"""The part of the contract of stores (``backends.base``) that lists the keys of a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

KeyParts: TypeAlias = Iterator[Sequence[tuple[int, Any]]]
"""Key groups and keys, a part of them at a time; no part is empty."""


class KeyedTable(Protocol):
    """A table whose keys can be listed: every one but those of timers."""

    def keys(self, at_once: int) -> KeyParts:
        """Every key that has something in the default namespace, once, with its key group; at most ``at_once`` in a
        part. The order is the store's own. Nothing may be committed before the last part was taken, and whoever takes
        no more parts need not say so: between two parts, nothing is held but memory for about one."""


class SpilledKeys(Protocol):
    """The keys of a table of a spill, whatever the committed tables have."""

    def keys(self, at_once: int) -> KeyParts:
        """As of a ``KeyedTable``, of every key that a change in the default namespace was spilled for, even of a
        deletion. Changes that are added meanwhile for keys that came already do not bring them once more."""

    def mentions(self, kgs: Sequence[int], keys: Sequence[Any]) -> list[bool]:
        """For each of these keys whether ``keys`` has it."""
