"""The calls of a function of a keyed and a broadcast stream, and the contexts that it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from sparkstate import errors, user_errors
from sparkstate.connected_functions import BroadcastContext, ReadOnlyContext
from sparkstate.operators.common import user_function
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.spec import BroadcastSpec
from sparkstate.operators.state.context import BoundTimerService, Cursor
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.runtime_context import OperatorRuntimeContext
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.operators.two_inputs.key_visits import KeyVisits
from sparkstate.operators.two_inputs.two_input_calls import Call, PairedCalls
from sparkstate.state.descriptors import MapStateDescriptor, StateDescriptor
from sparkstate.state.operator_state import BroadcastState, ReadOnlyBroadcastState

BROADCAST = 1
"""The number of the broadcast input."""


class BroadcastCalls(PairedCalls):
    """Not thread-safe: one piece of work at a time."""

    spec: BroadcastSpec

    def __init__(
        self,
        spec: BroadcastSpec,
        tables: OperatorTables,
        operator_states: OperatorStates,
        budget: EpochBudget | None,
    ) -> None:
        super().__init__(spec, tables, operator_states)
        self._budget = budget
        self._states = BroadcastStates(spec, operator_states)
        self._is_broadcasting = False
        self.cursor = self._make_cursor(self._states)

    def bind(self, overlay: Overlay, watermark: int) -> None:
        super().bind(overlay, watermark)
        if self._is_broadcasting:
            # A broadcast row is never undone, and it may change every key: a journal would hold all of them.
            self.cursor.journal = None

    visits_refusal = ""
    """Why ``apply_to_keyed_state`` cannot be used."""

    def _make_cursor(self, states: BroadcastStates) -> ReadingCursor:
        """The context of the rows of the first input."""
        return ReadingCursor(states)

    def _methods(self) -> tuple[Call, Call]:
        return self.spec.function.process_element, self.spec.function.process_broadcast_element

    def declare(self) -> None:
        """Declare the broadcast states, so that they are restored and stored."""
        for descriptor in self.spec.states:
            self._states.declare(descriptor)

    def broadcast(self, overlay: Overlay, batch: pa.RecordBatch, context: OperatorRuntimeContext) -> None:
        """Call the function for rows of the broadcast stream, which are in their order."""
        stamp = self.spec.event_time_column
        stamps = [None] * batch.num_rows if stamp is None else arrow_rows.column_values(batch.column(stamp))
        self.broadcast_rows(overlay, stamps, self.rows(batch, BROADCAST), context)

    def broadcast_rows(
        self,
        overlay: Overlay,
        stamps: Iterable[int | None],
        rows: Iterable[Any],
        context: OperatorRuntimeContext,
    ) -> None:
        """The same for rows that are Python values already. ``context`` is the one that ``open`` was given."""
        self._is_broadcasting = True
        self.bind(overlay, overlay.watermark)
        self.without_key(context.handles.values())
        visits = KeyVisits(self, self._budget, overlay, context, self.visits_refusal)
        ctx = _BroadcastContext(self._states, self.cursor.service, visits)
        yielded: list[Any] = []
        emitted: list[int | None] = []
        row: Any = None
        try:
            for stamp, row in zip(stamps, rows, strict=True):
                # The handles of visited keys take their time from the cursor.
                ctx.stamp = self.cursor.stamp = stamp
                before = len(yielded)
                yielded.extend(self.outputs.kept(self.calls[BROADCAST](row, ctx) or ()))
                emitted.extend([ctx.stamp] * (len(yielded) - before))
        except user_function.RAISED as error:
            raise self._broadcast_error(overlay, error, row, visits.place_of(error)) from error
        finally:
            visits.end()
            self._is_broadcasting = False
        self.outputs.put(overlay, yielded, emitted if self.spec.keeps_times else None)

    def _broadcast_error(self, overlay: Overlay, error: BaseException, row: Any, place: str) -> Exception:
        if isinstance(error, errors.SparkstateError) and not isinstance(error, errors.StateError):
            return error
        return errors.UserCodeError(
            f"operator {self.spec.uid!r}, epoch {overlay.epoch}, broadcast row {user_function.shorten(row)}{place}: "
            f"{user_errors.describe(error)}{self._why_not_rejected()}"
        )

    def _why_not_rejected(self) -> str:
        if self.spec.on_error == "fail":
            return ""
        return (
            " (on_error='side-output' is for rows of the first stream: each slot applies a broadcast row by itself, "
            "so a slot in which it failed would go on with other broadcast state than the others; catch the error in "
            "process_broadcast_element)"
        )


class BroadcastStates:
    """The broadcast states that the job names."""

    def __init__(self, spec: BroadcastSpec, states: OperatorStates) -> None:
        self._uid = spec.uid
        self._states = states
        self._written: dict[str, BroadcastState[Any, Any]] = {}
        self._read: dict[str, ReadOnlyBroadcastState[Any, Any]] = {}

    def declare(self, descriptor: MapStateDescriptor) -> None:
        """Make the handles of one."""
        handle = self._states.get_broadcast_state(descriptor)
        self._written[descriptor.name], self._read[descriptor.name] = handle, _Reader(handle)

    def to_write(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The handle for ``process_broadcast_element``."""
        self._check(descriptor)
        return self._written[descriptor.name]

    def to_read(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """The handle for all other calls."""
        self._check(descriptor)
        return self._read[descriptor.name]

    def _check(self, descriptor: MapStateDescriptor) -> None:
        name = getattr(descriptor, "name", None)
        if name not in self._written:
            raise errors.StateError(
                f"operator {self._uid!r}: {descriptor!r} is not a broadcast state of its stream, which has "
                f"{sorted(self._written)}; name it in broadcast(…)"
            )


class _Reader(ReadOnlyBroadcastState[Any, Any]):
    """Without the methods that write."""

    def __init__(self, handle: BroadcastState[Any, Any]) -> None:
        self._handle = handle

    def get(self, key: Any) -> Any:
        return self._handle.get(key)

    def contains(self, key: Any) -> bool:
        return self._handle.contains(key)

    def items(self) -> Iterator[tuple[Any, Any]]:
        return self._handle.items()

    def keys(self) -> Iterator[Any]:
        return self._handle.keys()

    def values(self) -> Iterator[Any]:
        return self._handle.values()

    def is_empty(self) -> bool:
        return self._handle.is_empty()


class ReadingCursor(Cursor, ReadOnlyContext):
    """The context of rows with a key, and of timers."""

    __slots__ = ("_states",)

    def __init__(self, states: BroadcastStates) -> None:
        super().__init__()
        self._states = states

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._states.to_read(state_descriptor)


class _BroadcastContext(BroadcastContext):
    def __init__(self, states: BroadcastStates, service: BoundTimerService, visits: KeyVisits) -> None:
        self._states = states
        self._service = service
        self._visits = visits
        self.stamp: int | None = None

    def timestamp(self) -> int | None:
        return self.stamp

    def current_watermark(self) -> int:
        return self._service.current_watermark()

    def current_processing_time(self) -> int:
        return self._service.current_processing_time()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._states.to_write(state_descriptor)

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], object]
    ) -> None:
        self._visits.apply(state_descriptor, function)
