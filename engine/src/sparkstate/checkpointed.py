"""``CheckpointedFunction``, whose own variables are in checkpoints, and ``CheckpointListener``, which hears of them.

Both are mixed into a ``KeyedProcessFunction`` or another function of a keyed stream, that of ``map``, a window or an
interval join too. A buffer that lives in the function itself::

    class Batching(KeyedProcessFunction, CheckpointedFunction):
        def initialize_state(self, ctx):
            self.stored = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("buffer", Types.LONG()))
            self.buffer = self.stored.get()

        def process_element(self, value, ctx):
            self.buffer.append(value.amount)
            if len(self.buffer) == 100:
                yield (sum(self.buffer),)
                self.buffer.clear()

        def snapshot_state(self, ctx):
            self.stored.update(self.buffer)

The variables are exact. The rows of an epoch can come in several attempts, and a function's variables cannot be
undone, so the rows wait in the slot until the driver has chosen an attempt. A ``CheckpointedFunction`` is called for
those rows alone, and once (RFC 0039).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sparkstate.state.operator_state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """Given to ``initialize_state``."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether the job's state comes from a checkpoint or savepoint."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The number of that checkpoint or savepoint; None: the job's state began empty."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Where operator state is declared; a restored one can be read at once."""

    @abstractmethod
    def get_keyed_state_store(self) -> Any:
        """Where keyed state is declared: the context that ``open`` is given. Its values have no key yet."""


class FunctionSnapshotContext(ABC):
    """Given to ``snapshot_state``."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """The number of the checkpoint or savepoint."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """When the driver began it, in ms since the Unix epoch."""


class CheckpointedFunction:
    """A function with variables of its own that checkpoints hold."""

    def initialize_state(self, ctx: FunctionInitializationContext) -> None:
        """Called once in every slot, before ``open``: declare operator state, and fill the variables from it."""
        raise NotImplementedError(f"{type(self).__qualname__} must define initialize_state")

    def snapshot_state(self, ctx: FunctionSnapshotContext) -> None:
        """Called for every checkpoint and savepoint, between two epochs: write the variables into operator state, which
        is in that snapshot. An exception makes the snapshot fail, and undoes the writes of this call."""
        raise NotImplementedError(f"{type(self).__qualname__} must define snapshot_state")


class CheckpointListener:
    """A function that hears what became of checkpoints. It may hear it late, and not at all when the slot ends before;
    a restore tells by ``get_restored_checkpoint_id`` what is complete. Operator state cannot be used in these calls."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete: a restart goes back to it or to a later one. Does nothing unless overridden. An
        exception fails the job, which then restarts as after any other."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint has failed. Does nothing unless overridden; an exception fails the job."""
