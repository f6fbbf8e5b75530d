"""``apply_to_keyed_state``, for the broadcast rows of one piece of work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from sparkstate import errors
from sparkstate.operators.common import user_function
from sparkstate.operators.keyed.calls import RecordCalls
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.handles import StateHandle
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.runtime_context import OperatorRuntimeContext
from sparkstate.operators.two_inputs.key_scan import KeyScan
from sparkstate.state import descriptors

_GETTERS: Final[Mapping[type[descriptors.StateDescriptor], str]] = MappingProxyType(
    {
        descriptors.ValueStateDescriptor: "get_state",
        descriptors.ListStateDescriptor: "get_list_state",
        descriptors.MapStateDescriptor: "get_map_state",
        descriptors.ReducingStateDescriptor: "get_reducing_state",
        descriptors.AggregatingStateDescriptor: "get_aggregating_state",
    }
)
"""By descriptor, the method of a runtime context that gives the handle."""


class KeyVisits:
    """Visits of all keys of a state, between two broadcast rows. ``end`` when there are no more rows."""

    def __init__(
        self,
        calls: RecordCalls,
        budget: EpochBudget | None,
        overlay: Overlay,
        context: OperatorRuntimeContext,
        refusal: str = "",
    ) -> None:
        self._calls = calls
        self._budget = budget
        self._overlay = overlay
        self._context = context
        self._uid = calls.spec.uid
        self._refusal = refusal
        """Why no visit may begin now."""
        self._failure: tuple[BaseException | None, str] = (None, "")

    def apply(self, descriptor: descriptors.StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        """Call the function with each key that has something in the state, and the state."""
        if self._refusal:
            raise errors.StateError(f"operator {self._uid!r}: apply_to_keyed_state {self._refusal}")
        handle = self._handle_of(descriptor)

        def visit(key: Any, state: StateHandle) -> None:
            try:
                _call(function, key, state)
            except user_function.RAISED as error:
                self._failure = error, f", apply_to_keyed_state({descriptor.name!r}) at key {key!r}"
                raise

        self._refusal = (
            "was called by the function that it calls; make the second call after the first has returned"
        )
        try:
            KeyScan(self._calls, self._budget, self._overlay, handle).run(visit)
        finally:
            self._calls.without_key(self._context.handles.values())
            self._refusal = ""

    def _handle_of(self, descriptor: descriptors.StateDescriptor) -> StateHandle:
        getter = next((name for kind, name in _GETTERS.items() if isinstance(descriptor, kind)), None)
        if getter is None:
            raise errors.StateError(
                f"operator {self._uid!r}: apply_to_keyed_state takes the descriptor of a keyed state that open() "
                f"has declared, not {descriptor!r}"
            )
        handle: StateHandle = getattr(self._context, getter)(descriptor)
        return handle

    def place_of(self, error: BaseException) -> str:
        """State and key of the visit that raised it, as an error tells them; empty if none did."""
        failed, place = self._failure
        return place if failed is error else ""

    def end(self) -> None:
        """No visit may begin any more, even if the function has kept its context."""
        self._refusal = "belongs to process_broadcast_element; it cannot be used after that has returned"


def _call(function: Callable[[Any, Any], object], key: Any, state: StateHandle) -> None:
    if inspect.isgenerator(function(key, state)):
        raise errors.StateError(
            "the function yields, and nothing takes what it yields, so its code would never run; collect rows in a "
            "list, and yield them in process_broadcast_element"
        )
