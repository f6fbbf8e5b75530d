"""The states of triggers, assigners and window functions: found before the first row, given out by scope.

An operator asks for all of its states in ``open``, because the values of a batch's keys are read before its first row.
PyFlink's triggers and window functions name theirs only while they run. So their descriptors are looked for where
such code keeps them, in the attributes of the object and of its class, and are asked for in ``open``.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, Protocol, cast

from sparkstate import errors
from sparkstate.functions import RuntimeContext
from sparkstate.state import api, descriptors
from sparkstate.windows.functions import KeyedStateStore
from sparkstate.windows.trigger import Trigger

PREFIX: Final = descriptors.WINDOW_PREFIX
"""Of the names of the engine's own states in a window operator."""
TRIGGER: Final = PREFIX + "trigger/"
GLOBAL_NAMESPACE: Final = ()
"""Of the state that belongs to the global window; the key's own state is in the default namespace."""


def own(descriptor: descriptors.StateDescriptor, prefix: str = PREFIX) -> Any:
    """The same descriptor under a name that no author can give."""
    renamed = copy.copy(descriptor)
    renamed.name = prefix + descriptor.name
    return renamed


def descriptors_of(owner: object) -> Iterator[descriptors.StateDescriptor]:
    """The descriptors among the attributes of an object and of its classes, also in lists, dicts and triggers."""
    attributes = [value for kind in type(owner).__mro__ for value in vars(kind).values()]
    attributes += getattr(owner, "__dict__", {}).values()
    for value in attributes:
        if isinstance(value, Trigger):
            yield from descriptors_of(value)
        for found in _members(value):
            if isinstance(found, descriptors.StateDescriptor):
                yield found


def _members(value: object) -> Iterable[Any]:
    """A collection's members; a single value itself."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, (list, tuple)) else (value,)


def handle_of(runtime: RuntimeContext, descriptor: descriptors.StateDescriptor) -> Any:
    """The state of a descriptor, asked for by its class."""
    match descriptor:
        case descriptors.ValueStateDescriptor():
            return runtime.get_state(descriptor)
        case descriptors.ListStateDescriptor():
            return runtime.get_list_state(descriptor)
        case descriptors.MapStateDescriptor():
            return runtime.get_map_state(descriptor)
        case descriptors.ReducingStateDescriptor():
            return runtime.get_reducing_state(descriptor)
        case descriptors.AggregatingStateDescriptor():
            return runtime.get_aggregating_state(descriptor)
        case _:
            raise errors.StateError(f"{descriptor!r} is not a descriptor of a state")


class _DeclaringContext(Protocol):
    """The context of ``open``, as far as windows need more of it than an author's function does."""

    handles: Mapping[str, Any]
    """The states that were asked for, by name."""


def names_asked_for(runtime: RuntimeContext) -> frozenset[str]:
    """Of the states that were asked for so far."""
    return frozenset(cast("_DeclaringContext", runtime).handles)


class DeclaredStates:
    """The states of one owner, by the names of their descriptors. ``prefix`` keeps them apart from those of others."""

    def __init__(self, runtime: RuntimeContext, owner: object, prefix: str = "") -> None:
        self._owner = owner
        self._identities: dict[str, tuple[str, ...]] = {}
        self._handles: dict[str, Any] = {}
        for descriptor in descriptors_of(owner):
            self._identities.setdefault(descriptor.name, descriptor.identity())
            renamed = own(descriptor, prefix) if prefix else descriptor
            self._handles[descriptor.name] = handle_of(runtime, renamed)

    def of(self, descriptor: descriptors.StateDescriptor) -> Any:
        """The state of a descriptor."""
        name = getattr(descriptor, "name", None)
        if name not in self._handles:
            self._refuse(f"asks for the state {name!r}, whose descriptor is not one of its attributes")
        if self._identities[name] != descriptor.identity():
            self._refuse(f"asks for the state {name!r} as {descriptor!r}, while its attribute says otherwise")
        return self._handles[name]

    def clear(self, namespace: Any) -> None:
        """Empty all of them in this namespace."""
        for state in self._handles.values():
            state.set_current_namespace(namespace)
            state.clear()

    def _refuse(self, what: str) -> NoReturn:
        raise errors.StateError(
            f"{type(self._owner).__qualname__} {what}; keep each descriptor in an attribute that is set in __init__ or "
            "open(): all states must be known before the first row"
        )


class ScopedStore(KeyedStateStore):
    """The states of a window function in one scope: the key, or the current window."""

    def __init__(
        self, states: DeclaredStates, scopes: dict[str, Any], of_key: Collection[str] = frozenset()
    ) -> None:
        self._states = states
        self._scopes = scopes
        """Namespaces in which states were given out in the call at hand, by name of the state."""
        self._of_key = of_key
        """Names of states that the function has as those of the key, so that this scope cannot have them."""
        self.namespace: Any = None

    def get_state(self, state_descriptor: descriptors.ValueStateDescriptor) -> api.ValueState[Any]:
        return self._give(state_descriptor)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: descriptors.ListStateDescriptor) -> api.ListState[Any]:
        return self._give(state_descriptor)  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: descriptors.MapStateDescriptor) -> api.MapState[Any, Any]:
        return self._give(state_descriptor)  # type: ignore[no-any-return]

    def get_reducing_state(
        self, state_descriptor: descriptors.ReducingStateDescriptor
    ) -> api.ReducingState[Any]:
        return self._give(state_descriptor)  # type: ignore[no-any-return]

    def get_aggregating_state(
        self, state_descriptor: descriptors.AggregatingStateDescriptor
    ) -> api.AggregatingState[Any, Any]:
        return self._give(state_descriptor)  # type: ignore[no-any-return]

    def _give(self, descriptor: descriptors.StateDescriptor) -> Any:
        state = self._states.of(descriptor)
        if descriptor.name in self._of_key:
            raise errors.StateError(
                f"state {descriptor.name!r} is asked for from window_state(), and open() asked for it as a state of "
                "the key; give the state of the window and that of the key names of their own, and ask in open() for "
                "the latter alone"
            )
        if self._scopes.setdefault(descriptor.name, self.namespace) != self.namespace:
            raise errors.StateError(
                f"state {descriptor.name!r} is asked for from window_state() and from global_state() in one call; give "
                "the state of the window and that of the key names of their own"
            )
        state.set_current_namespace(self.namespace)
        return state


class RefusedStore(KeyedStateStore):
    """The states of a window that may merge: there are none."""

    def _refuse(self, state_descriptor: Any) -> NoReturn:
        raise errors.StateError(
            f"window_state() cannot give {state_descriptor!r}: windows that merge have no state of their own, as in "
            "Flink; use global_state(), or put it into the accumulator of aggregate()"
        )

    get_state = get_list_state = get_map_state = _refuse
    get_reducing_state = get_aggregating_state = _refuse
