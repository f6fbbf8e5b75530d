"""The context that ``open`` is given: it makes the state handles of one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from sparkstate import errors
from sparkstate.backends.base import StateKind, TableSpec
from sparkstate.functions import MetricGroup, RuntimeContext
from sparkstate.operators import user_metrics
from sparkstate.operators.spec import JobFacts
from sparkstate.operators.state import collection_handles, expiring_handles, handles
from sparkstate.operators.state.context import Cursor
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state import api, descriptors

H = TypeVar("H", bound=handles.StateHandle)

Register = Callable[[TableSpec], handles.TableOf]
"""Creates a table in every shard's store; gives key group → table."""


class OperatorRuntimeContext(RuntimeContext):
    """Makes handles, one for each state; after ``open`` it makes no more, and gives out those that it has made."""

    def __init__(
        self,
        uid: str,
        key_type: TypeInformation,
        cursor: Cursor,
        register: Register,
        *,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        undoes_records: bool,
        facts: JobFacts,
        value_handle_class: Callable[
            [TypeInformation, bool], type[handles.ValueStateHandle]
        ] = handles.value_handle_class,
    ) -> None:
        """``value_handle_class``: the class for a value state of a type, in an operator that may undo records."""
        self._uid = uid
        self._key_type = key_type
        self._cursor = cursor
        self._register = register
        self._subtask = subtask
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._undoes_records = undoes_records
        self._facts = facts
        self._value_handle_class = value_handle_class
        self.metrics = user_metrics.UserMetrics(uid)
        self._identities: dict[str, tuple[str, ...]] = {}
        self.handles: dict[str, handles.StateHandle] = {}
        self.is_open = True

    def get_state(self, state_descriptor: descriptors.ValueStateDescriptor) -> api.ValueState[Any]:
        self._check(state_descriptor, descriptors.ValueStateDescriptor)
        return self._handle(
            state_descriptor,
            StateKind.VALUE,
            self._value_handle_class(state_descriptor.type_info, self._undoes_records),
            expiring_handles.ExpiringValueStateHandle,
        )

    def get_list_state(self, state_descriptor: descriptors.ListStateDescriptor) -> api.ListState[Any]:
        self._check(state_descriptor, descriptors.ListStateDescriptor)
        return self._handle(
            state_descriptor,
            StateKind.LIST,
            collection_handles.ListStateHandle,
            expiring_handles.ExpiringListStateHandle,
        )

    def get_map_state(self, state_descriptor: descriptors.MapStateDescriptor) -> api.MapState[Any, Any]:
        self._check(state_descriptor, descriptors.MapStateDescriptor)
        return self._handle(
            state_descriptor,
            StateKind.MAP,
            collection_handles.MapStateHandle,
            expiring_handles.ExpiringMapStateHandle,
            state_descriptor.key_type_info,
        )

    def get_reducing_state(
        self, state_descriptor: descriptors.ReducingStateDescriptor
    ) -> api.ReducingState[Any]:
        self._check(state_descriptor, descriptors.ReducingStateDescriptor)
        handle = self._handle(
            state_descriptor,
            StateKind.REDUCING,
            handles.ReducingStateHandle,
            expiring_handles.ExpiringReducingStateHandle,
        )
        handle.function = state_descriptor.get_reduce_function()
        return handle

    def get_aggregating_state(
        self, state_descriptor: descriptors.AggregatingStateDescriptor
    ) -> api.AggregatingState[Any, Any]:
        self._check(state_descriptor, descriptors.AggregatingStateDescriptor)
        handle = self._handle(
            state_descriptor,
            StateKind.AGGREGATING,
            handles.AggregatingStateHandle,
            expiring_handles.ExpiringAggregatingStateHandle,
        )
        handle.function = state_descriptor.get_agg_function()
        return handle

    def get_task_name(self) -> str:
        return self._uid

    def get_number_of_parallel_subtasks(self) -> int:
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._subtask

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._uid} ({self._subtask + 1}/{self._parallelism})"

    def get_attempt_number(self) -> int:
        return self._facts.attempt

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._facts.parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self.metrics.group()

    def _check(self, descriptor: Any, wanted: type[descriptors.StateDescriptor]) -> None:
        if not isinstance(descriptor, wanted):
            raise errors.StateError(
                f"operator {self._uid!r}: expected a {wanted.__name__}, got {descriptor!r}"
            )
        if not self.is_open and descriptor.name not in self.handles:
            raise errors.StateError(
                f"operator {self._uid!r}: state {descriptor.name!r} was first asked for after open(); ask for it in "
                "open(): the values of a batch's keys are read before its first record, so all states must be known "
                "by then"
            )
        before = self._identities.setdefault(descriptor.name, descriptor.identity())
        if before != descriptor.identity():
            raise errors.StateError(
                f"operator {self._uid!r}: state {descriptor.name!r} is declared twice, "
                f"as {' of '.join(before)} and as {' of '.join(descriptor.identity())}; "
                "give each state a name of its own"
            )

    def _handle(
        self,
        descriptor: descriptors.StateDescriptor,
        kind: StateKind,
        lasting_class: type[H],
        expiring_class: type[expiring_handles.ExpiringHandle],
        user_key_type: TypeInformation | None = None,
    ) -> H:
        """The handle of a state: of the first class, or of the second, which extends it, if values expire."""
        found = self.handles.get(descriptor.name)
        if found is None:
            found = self._make(descriptor, kind, lasting_class, expiring_class, user_key_type)
            self.handles[descriptor.name] = found
        elif isinstance(found, expiring_handles.ExpiringHandle) and found.config != descriptor.ttl_config:
            raise errors.StateError(
                f"operator {self._uid!r}: state {descriptor.name!r} is declared twice, with "
                f"{found.config} and with {descriptor.ttl_config}; use one descriptor"
            )
        return cast("H", found)

    def _make(
        self,
        descriptor: descriptors.StateDescriptor,
        kind: StateKind,
        lasting_class: type[handles.StateHandle],
        expiring_class: type[expiring_handles.ExpiringHandle],
        user_key_type: TypeInformation | None,
    ) -> handles.StateHandle:
        spec = TableSpec(
            uid=self._uid,
            name=descriptor.name,
            kind=kind,
            key_type=self._key_type,
            value_type=descriptor.stored_type,
            user_key_type=user_key_type,
        )
        config = descriptor.ttl_config
        if config is None or not config.is_enabled():
            return lasting_class(spec, len(self.handles), self._cursor, self._register(spec))
        handle = expiring_class(spec, len(self.handles), self._cursor, self._register(spec))
        handle.config = config
        return handle
