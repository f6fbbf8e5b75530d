"""The calls of a function of a stream without keys and a broadcast one."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from sparkstate import errors, user_errors
from sparkstate.connected_functions import UnkeyedReadOnlyContext
from sparkstate.functions import RuntimeContext
from sparkstate.operators.spec import UnkeyedBroadcastSpec
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.runtime_context import OperatorRuntimeContext
from sparkstate.operators.two_inputs.broadcast_calls import BroadcastCalls, BroadcastStates, ReadingCursor

_REMEDY: Final = "key the stream, and use a KeyedBroadcastProcessFunction"


class UnkeyedBroadcastCalls(BroadcastCalls):
    """Not thread-safe: one piece of work at a time."""

    spec: UnkeyedBroadcastSpec
    visits_refusal = f"needs keyed state, and a BroadcastProcessFunction has none; {_REMEDY}"

    def _make_cursor(self, states: BroadcastStates) -> ReadingCursor:
        return UnkeyedCursor(states)

    def open(self, context: RuntimeContext) -> None:
        super().open(context)
        if isinstance(context, OperatorRuntimeContext) and context.handles:
            raise errors.DeclarationError(
                f"operator {self.spec.uid!r}: open() declares the keyed state {sorted(context.handles)}, and the rows "
                f"of a BroadcastProcessFunction have no key; {_REMEDY}, or make it a CheckpointedFunction, whose "
                "operator state belongs to a slot"
            )

    def user_error(self, overlay: Overlay, error: BaseException, where: str) -> Exception:
        if isinstance(error, errors.SparkstateError) and not isinstance(error, errors.StateError):
            return error
        return errors.UserCodeError(
            f"operator {self.spec.uid!r}, epoch {overlay.epoch}, {where}: {user_errors.describe(error)}"
        )


class UnkeyedCursor(ReadingCursor, UnkeyedReadOnlyContext):
    """The context of rows without a key."""

    __slots__ = ()

    def current_watermark(self) -> int:
        return self.service.current_watermark()

    def current_processing_time(self) -> int:
        return self.service.current_processing_time()

    def timer_service(self) -> NoReturn:
        raise errors.StateError(f"timers belong to a key, and the rows of this function have none; {_REMEDY}")

    def get_current_key(self) -> Any:
        raise errors.StateError(f"the rows of this function have no key; {_REMEDY}")
