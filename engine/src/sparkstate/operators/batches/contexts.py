"""The contexts that the user's code is given. One of each per operator, reused for every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns, errors
from sparkstate.batches import functions, state
from sparkstate.batches import keys as batch_keys
from sparkstate.batches.keys import BatchKeys
from sparkstate.functions import MetricGroup, TimeDomain
from sparkstate.operators.batches import states
from sparkstate.operators.batches.binding import Binding, chosen
from sparkstate.operators.rows import frames
from sparkstate.operators.state.column_timers import ColumnTimers
from sparkstate.operators.state.overlay import TimerOverlay
from sparkstate.operators.state.runtime_context import OperatorRuntimeContext
from sparkstate.serde import composite
from sparkstate.state import descriptors

S = TypeVar("S")


class OperatorBatchRuntimeContext(functions.BatchRuntimeContext):
    """Makes handles on columns, each over the handle per key that ``inner`` makes."""

    def __init__(self, inner: OperatorRuntimeContext, binding: Binding) -> None:
        self._inner = inner
        self._binding = binding
        self._made: dict[str, Any] = {}

    def get_state(
        self, state_descriptor: descriptors.ValueStateDescriptor, *, in_namespaces: bool = False
    ) -> state.BatchValueState:
        handle: Any = self._inner.get_state(state_descriptor)
        handle.is_spaced = in_namespaces
        return self._over(state_descriptor, handle, states.ColumnValueState)

    def get_list_state(self, state_descriptor: descriptors.ListStateDescriptor) -> state.BatchListState:
        return self._over(
            state_descriptor, self._inner.get_list_state(state_descriptor), states.ColumnListState
        )

    def get_map_state(self, state_descriptor: descriptors.MapStateDescriptor) -> state.BatchMapState:
        return self._over(
            state_descriptor, self._inner.get_map_state(state_descriptor), states.ColumnMapState
        )

    def get_reducing_state(
        self, state_descriptor: descriptors.ReducingStateDescriptor
    ) -> state.BatchAppendingState:
        handle = self._inner.get_reducing_state(state_descriptor)
        return self._over(state_descriptor, handle, states.ColumnAppendingState)

    def get_aggregating_state(
        self, state_descriptor: descriptors.AggregatingStateDescriptor
    ) -> state.BatchAppendingState:
        handle = self._inner.get_aggregating_state(state_descriptor)
        return self._over(state_descriptor, handle, states.ColumnAppendingState)

    def _over(
        self, descriptor: descriptors.StateDescriptor, handle: Any, made: Callable[[Any, Binding], S]
    ) -> S:
        found = self._made.get(descriptor.name)
        if found is None:
            found = self._made[descriptor.name] = made(handle, self._binding)
        return cast("S", found)

    def get_task_name(self) -> str:
        return self._inner.get_task_name()

    def get_number_of_parallel_subtasks(self) -> int:
        return self._inner.get_number_of_parallel_subtasks()

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._inner.get_max_number_of_parallel_subtasks()

    def get_index_of_this_subtask(self) -> int:
        return self._inner.get_index_of_this_subtask()

    def get_task_name_with_subtasks(self) -> str:
        return self._inner.get_task_name_with_subtasks()

    def get_attempt_number(self) -> int:
        return self._inner.get_attempt_number()

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._inner.get_job_parameter(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._inner.get_metrics_group()


class BoundBatchTimerService(functions.BatchTimerService):
    """Timers of the keys at hand, written to the overlay at hand."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._service = binding.cursor.service

    def current_watermark(self) -> int:
        return self._service.current_watermark()

    def current_processing_time(self) -> int:
        return self._service.current_processing_time()

    def register_event_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        self._put(TimeDomain.EVENT_TIME, keys, per_key, mask, True)

    def register_processing_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        self._put(TimeDomain.PROCESSING_TIME, keys, per_key, mask, True)

    def delete_event_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        self._put(TimeDomain.EVENT_TIME, keys, per_key, mask, False)

    def delete_processing_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        self._put(TimeDomain.PROCESSING_TIME, keys, per_key, mask, False)

    def _put(self, domain: TimeDomain, keys: BatchKeys, per_key: Any, mask: Any, registered: bool) -> None:
        timers: TimerOverlay = self._binding.overlay.timers[domain]
        if isinstance(timers, ColumnTimers) and timers.is_columnar:
            if self._put_columns(timers, keys, per_key, mask, registered):
                return
            timers.leave_columns()
        numbers, flags = self._binding.numbers(keys), chosen(keys, mask)
        stamps = _whole(batch_keys.per_key(keys, per_key)).to_pylist()
        known = self._binding.overlay.known.keys
        for place, (number, stamp) in enumerate(zip(numbers, stamps, strict=True)):
            if stamp is not None and (flags is None or flags[place]):
                timers.put((stamp, known[number], None), registered, None)

    def _put_columns(
        self, timers: ColumnTimers, keys: BatchKeys, per_key: Any, mask: Any, registered: bool
    ) -> bool:
        """False: a key is null, which has no place in columns."""
        numbers, flags = self._binding.number_array(keys), chosen(keys, mask)
        stamps = _whole(batch_keys.per_key(keys, per_key))
        if stamps.null_count:
            valid = stamps.is_valid().to_numpy(zero_copy_only=False)
            flags = valid if flags is None else flags & valid
            stamps = stamps.fill_null(0)
        times = stamps.to_numpy()
        if flags is not None:
            numbers, times = numbers[flags], times[flags]
        known = self._binding.overlay.known
        longs = known.long_array(numbers)
        if longs is None:
            return False
        if len(longs):
            timers.put_columns(longs, known.group_array()[numbers], times, registered)
        return True


def _whole(array: pa.Array) -> pa.Array:
    if pa.types.is_null(array.type):
        return array.cast(pa.int64())
    if not pa.types.is_integer(array.type):
        raise errors.StateError(
            f"timestamps are an array of {array.type}; give whole milliseconds since the Unix epoch"
        )
    return pc.cast(array, pa.int64())


class Context(functions.OnTimersContext):
    """The context that both calls are given."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._service = BoundBatchTimerService(binding)
        self.stamps: pa.Array = pa.nulls(0, pa.int64())
        self.domain = TimeDomain.EVENT_TIME
        self.timer_namespace: Any = None

    def timestamps(self) -> pa.Array:
        return self.stamps

    def timer_service(self) -> functions.BatchTimerService:
        return self._service

    def with_timestamps(self, frame: Any, timestamps: Any) -> pa.RecordBatch:
        batch = frames.to_batch(frame)
        stamps = _whole(batch_keys.to_array(timestamps))
        if len(stamps) != batch.num_rows:
            raise errors.StateError(
                f"with_timestamps(…) got {len(stamps)} timestamps for a frame of {batch.num_rows} rows"
            )
        names = [name for name in batch.schema.names if name != columns.TIMESTAMP]
        return batch.select(names).append_column(columns.TIMESTAMP, stamps)

    def count_late_rows(self, count: int) -> None:
        self._binding.overlay.late_rows += count

    def time_domain(self) -> TimeDomain:
        return self.domain

    def namespace(self) -> Any:
        return composite.as_given(self.timer_namespace)
