"""The class that ``stateBackend.class`` names: one object of it in each slot makes the stores of that slot's shards."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkstate.backends.base import ShardStore
from sparkstate.keygroups import KeyGroupRange


@dataclass(frozen=True, kw_only=True)
class BackendContext:
    """The facts that a backend is told when a slot makes it."""

    options: Mapping[str, str] = field(default_factory=dict)
    """``stateBackend.options`` of the job, as they were written."""
    directory: Path
    """A folder of this object's own on the slot's local disk; it exists, is empty, and goes with the slot."""
    memory_bytes: int | None = None
    """Bytes that caches and buffers of all the slot's stores may take together: ``managedMemoryPerSlot`` or
    ``fixedMemoryPerSlot``. None: nothing bounds them."""


class BackendFactory(abc.ABC):
    """The base of every state backend of the user's own. It satisfies the ``StoreFactory`` contract.

    The constructor takes the context alone. Let it raise ``ValueError`` for an option that it does not like: the job
    is then refused. For ``ConnectionError`` and ``TimeoutError``, which say that something is away, it tries again.
    """

    def __init__(self, context: BackendContext) -> None:
        self.context = context

    @abc.abstractmethod
    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> ShardStore:
        """An empty store for these key groups. ``directory`` is its own, and may not exist yet.

        A slot has several stores, and several slots run on one machine: stores share nothing but this object.
        """

    def memory(self) -> Mapping[str, int]:
        """Bytes of what the stores share, by name, for status and metrics; nothing unless overridden."""
        return {}

    def metrics(self) -> Mapping[str, float]:
        """Figures of the backend by name (lower case, ``-`` between words), for metrics; none unless overridden."""
        return {}

    def close(self) -> None:  # noqa: B027 - most backends have nothing to free
        """Free what the stores shared. They are all closed before."""
