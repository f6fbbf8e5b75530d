"""The calls by which a function takes part in checkpoints (``sparkstate.checkpointed``); none where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkstate import errors
from sparkstate.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from sparkstate.operators.base import StateImage
from sparkstate.operators.common import user_function
from sparkstate.operators.spec import Restored
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.state.operator_state import OperatorStateStore


class CheckpointHooks:
    """Of one operator in one slot. Not thread-safe: the operator calls it under its lock."""

    def __init__(
        self, function: object, uid: str, states: OperatorStates, restored: Restored, is_first: bool
    ) -> None:
        self._function = function
        self._uid = uid
        self._states = states
        self._restored = restored
        self._is_first = is_first
        self._uncommitted: int | None = None

    def initialize(self, keyed_state_store: Any) -> None:
        """Let the function declare its operator state, and fill its variables."""
        function = self._function
        if isinstance(function, CheckpointedFunction):
            context = _InitializationContext(self._restored.checkpoint_id, self._states, keyed_state_store)
            user_function.declaring(
                self._uid, "initialize_state()", lambda: function.initialize_state(context)
            )

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> Sequence[StateImage]:
        """Let the function write its variables; then the committed operator state, for a snapshot."""
        function = self._function
        if isinstance(function, CheckpointedFunction):
            if self._uncommitted is not None:
                raise errors.StateError(
                    f"operator {self._uid!r}: checkpoint {checkpoint_id} began between the end of epoch "
                    f"{self._uncommitted} and its commit. This is a bug. Please report."
                )
            context = _SnapshotContext(checkpoint_id, timestamp_ms)
            with self._states.at_once():
                step = f"checkpoint {checkpoint_id}: snapshot_state()"
                user_function.calling(self._uid, step, lambda: function.snapshot_state(context))
        return self._states.images(self._is_first)

    def finished(self, epoch: int) -> None:
        """The function has seen the rows of this epoch, so its variables are ahead of the committed state."""
        self._uncommitted = epoch

    def committed(self) -> None:
        """They no longer are."""
        self._uncommitted = None

    @property
    def listens(self) -> bool:
        """Whether :meth:`notify` calls anything."""
        return isinstance(self._function, CheckpointListener)

    def notify(self, checkpoint_id: int, *, completed: bool) -> None:
        """Tell the function what became of a checkpoint."""
        function = self._function
        if not isinstance(function, CheckpointListener):
            return
        if completed:
            step, call = "notify_checkpoint_complete()", function.notify_checkpoint_complete
        else:
            step, call = "notify_checkpoint_aborted()", function.notify_checkpoint_aborted
        self._states.unbind()
        user_function.calling(self._uid, f"checkpoint {checkpoint_id}: {step}", lambda: call(checkpoint_id))


class _InitializationContext(FunctionInitializationContext):
    def __init__(self, checkpoint_id: int | None, states: OperatorStateStore, keyed: Any) -> None:
        self._checkpoint_id = checkpoint_id
        self._states = states
        self._keyed = keyed

    def is_restored(self) -> bool:
        return self._checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._states

    def get_keyed_state_store(self) -> Any:
        return self._keyed


class _SnapshotContext(FunctionSnapshotContext):
    def __init__(self, checkpoint_id: int, timestamp_ms: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._timestamp_ms = timestamp_ms

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp_ms
