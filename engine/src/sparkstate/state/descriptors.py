"""Descriptors: name and types of a state. The name is its identity across restarts, within its operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sparkstate import errors
from sparkstate.serde.expiring import ExpiringType, TimeToLive
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state import ttl
from sparkstate.state.folding import AggregateFunction, ReduceFunction

RESERVED_PREFIX = "_timer_state/"
"""Names of the engine's own tables."""
WINDOW_PREFIX = "_window/"
"""Names of the engine's own states in a window operator."""
NAME_LENGTH_MAX = 255


class StateDescriptor:
    """Base of all descriptors."""

    kind: ClassVar[str]
    """``value``, ``list``, ``map``, ``reducing`` or ``aggregating``."""

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_LENGTH_MAX or "\0" in name:
            raise errors.StateError(
                f"{name!r} cannot be the name of a state; give a string of 1 to {NAME_LENGTH_MAX} characters"
            )
        for reserved in (RESERVED_PREFIX, WINDOW_PREFIX):
            if name.startswith(reserved):
                raise errors.StateError(
                    f"state name {name!r}: names that start with {reserved!r} are reserved"
                )
        _require_type(name, type_info)
        self.name = name
        self.type_info = type_info
        self.ttl_config: ttl.StateTtlConfig | None = None
        """None: values do not expire."""

    def get_name(self) -> str:
        """The name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: ttl.StateTtlConfig) -> None:
        """Let the values of the state expire (of lists and maps: each element). Call it before the descriptor is used.
        With the update type ``Disabled`` they do not."""
        if not isinstance(ttl_config, ttl.StateTtlConfig):
            raise errors.StateError(
                f"state {self.name!r}: its time-to-live is {ttl_config!r}; give one made by "
                "StateTtlConfig.new_builder(Time.hours(1)).build()"
            )
        self.ttl_config = ttl_config

    @property
    def stored_type(self) -> TypeInformation:
        """The type of the values as they are stored: with stamps, where they expire."""
        config = self.ttl_config
        if config is None or not config.is_enabled():
            return self.type_info
        in_event_time = config.time_characteristic is ttl.StateTtlConfig.TtlTimeCharacteristic.EventTime
        return ExpiringType(self.type_info, TimeToLive(config.ttl.to_milliseconds(), in_event_time))

    def identity(self) -> tuple[str, ...]:
        """The parts that must be equal for two descriptors to mean the same state."""
        return (self.kind, self.stored_type.describe())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info.describe()})"


def _require_type(name: str, type_info: Any) -> None:
    if not isinstance(type_info, TypeInformation):
        raise errors.StateError(
            f"state {name!r}: its type is {type_info!r}; give one made by Types, for example Types.LONG()"
        )


class ValueStateDescriptor(StateDescriptor):
    """One value of ``value_type_info`` per key."""

    kind = "value"

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """A list per key; ``type_info`` is the type of its elements."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor):
    """A map per key; ``type_info`` is the type of its values, ``key_type_info`` that of its keys."""

    kind = "map"

    def __init__(self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        super().__init__(name, value_type_info)
        _require_type(name, key_type_info)
        if not key_type_info.is_key_type:
            raise errors.StateError(
                f"map state {name!r}: {key_type_info.describe()} cannot be the type of its keys; "
                "use a scalar type or a tuple of scalar types"
            )
        self.key_type_info = key_type_info

    def identity(self) -> tuple[str, ...]:
        return (*super().identity(), self.key_type_info.describe())


class _CallableReduce(ReduceFunction):
    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._function(value1, value2)


class ReducingStateDescriptor(StateDescriptor):
    """One value per key, to which added values are reduced by a ``ReduceFunction`` or a function of two arguments."""

    kind = "reducing"

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation,
    ) -> None:
        super().__init__(name, type_info)
        if not isinstance(reduce_function, ReduceFunction):
            if not callable(reduce_function):
                raise errors.StateError(
                    f"reducing state {name!r}: {reduce_function!r} is neither a ReduceFunction nor callable"
                )
            reduce_function = _CallableReduce(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction:
        """How two values become one."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """One accumulator of ``state_type_info`` per key, kept by an ``AggregateFunction``."""

    kind = "aggregating"

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise errors.StateError(
                f"aggregating state {name!r}: {agg_function!r} is not an AggregateFunction"
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """How values are folded."""
        return self._agg_function
