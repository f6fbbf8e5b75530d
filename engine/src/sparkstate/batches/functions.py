"""``KeyedBatchFunction`` and what it is given: keyed state, timers and output on Arrow batches.

A function is opened once per slot, where it asks for its state, and then called once per batch and once per set of due
timers. A running sum, answered for each row::

    class RunningSum(KeyedBatchFunction):
        def open(self, ctx):
            self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_batch(self, batch, keys, ctx):
            before = self.total.get(keys, default=0)
            self.total.update(keys, pc.add(before, keys.sum("amount")))
            yield batch.append_column("total", keys.cumulative_sum("amount", start=before))

The engine decides how many rows come together: any cut of the input, also one row at a time, has to give the same
results. Only state survives a failure, as for ``KeyedProcessFunction``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa

from sparkstate.batches import state
from sparkstate.batches.keys import BatchKeys
from sparkstate.functions import KeyedFunction, RuntimeInfo, TimeDomain
from sparkstate.state import descriptors


class RowError(Exception):
    """Raise it in ``process_batch`` to name the row that cannot be processed; the epoch fails with that row in its
    message. ``row`` counts from 0 within the batch as the function was given it."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row
        self.message = message

    def __reduce__(self) -> tuple[type[RowError], tuple[int, str]]:
        return RowError, (self.row, self.message)


class BatchTimerService(ABC):
    """Time, and timers of the keys of the call at hand. ``per_key`` has one timestamp per key, in ms; where it is null,
    or ``mask`` is not true, nothing happens."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark in ms since the Unix epoch; ``MIN_WATERMARK`` before the first."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Wall time in ms: fixed for the whole epoch."""

    @abstractmethod
    def register_event_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        """Call ``on_timers`` when the watermark reaches the timestamps."""

    @abstractmethod
    def register_processing_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        """Call ``on_timers`` in the first epoch whose processing time is not before the timestamps."""

    @abstractmethod
    def delete_event_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        """Forget those timers; nothing happens where there is none."""

    @abstractmethod
    def delete_processing_time_timers(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        """Forget those timers; nothing happens where there is none."""


class BatchRuntimeContext(RuntimeInfo):
    """Given to ``open``: where a function gets its state. Asking twice with the same descriptor gives
    the same handle."""

    @abstractmethod
    def get_state(
        self, state_descriptor: descriptors.ValueStateDescriptor, *, in_namespaces: bool = False
    ) -> state.BatchValueState:
        """One value per key. ``in_namespaces``: each call names namespaces, so that the values of the default namespace
        are not read ahead."""

    @abstractmethod
    def get_list_state(self, state_descriptor: descriptors.ListStateDescriptor) -> state.BatchListState:
        """A list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: descriptors.MapStateDescriptor) -> state.BatchMapState:
        """A map per key."""

    @abstractmethod
    def get_reducing_state(
        self, state_descriptor: descriptors.ReducingStateDescriptor
    ) -> state.BatchAppendingState:
        """One value per key, into which added ones are folded."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: descriptors.AggregatingStateDescriptor
    ) -> state.BatchAppendingState:
        """One accumulator per key."""


class BatchContext(ABC):
    """Given to ``process_batch``. One object, reused: do not keep it beyond the call."""

    @abstractmethod
    def timestamps(self) -> pa.Array:
        """The event time of each row in ms, int64; null where it has none."""

    @abstractmethod
    def timer_service(self) -> BatchTimerService:
        """Times, and timers of the batch's keys."""

    @abstractmethod
    def with_timestamps(self, frame: Any, timestamps: Any) -> Any:
        """``frame`` with the event time of each of its rows, to be yielded. The next operator sees it, unless it names
        an ``event_time`` column; rows that are yielded without have no event time there."""

    @abstractmethod
    def count_late_rows(self, count: int) -> None:
        """Count rows that came too late. For a function that judges lateness itself."""


class OnTimersContext(BatchContext):
    """Given to ``on_timers``; ``timestamps()`` are those of the timers."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Which clock fired."""

    @abstractmethod
    def namespace(self) -> Any:
        """The namespace with which these timers were registered; None is the default one."""


class KeyedBatchFunction(KeyedFunction):
    """The user's code for the batches of a keyed stream."""

    is_ordered_across_keys: ClassVar[bool] = True
    """Whether ``on_timers`` gets the due timers of all keys in order of time. False: those of each key are in order,
    and a call may have later timers of some keys than the next call has of others. Where each key has many due timers
    in an epoch, calls are then fewer and larger."""
    undo_refusal: ClassVar[str] = (
        "a KeyedBatchFunction sees many records at once, so no single one can be undone; yield the rows that it "
        "rejects to a side output of its own"
    )

    def open(self, ctx: BatchRuntimeContext) -> None:
        """Called once in every slot, after the state was restored and before the first batch."""

    def process_batch(
        self, batch: pa.RecordBatch, keys: BatchKeys, ctx: BatchContext
    ) -> Iterable[Any] | None:
        """Called for every batch. Yields frames (``pa.RecordBatch``, ``pa.Table``, pandas, Polars) with at least the
        columns of the output schema; ``yield tag, frame`` sends one to a side output. Rows of one key are in the order
        in which they came."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_batch")

    def on_timers(self, timestamps: pa.Array, keys: BatchKeys, ctx: OnTimersContext) -> Iterable[Any] | None:
        """Called for due timers, in order of time (see ``is_ordered_across_keys``); of each key there is one at a time,
        the least. Yields frames. Does nothing unless overridden."""

    def close(self) -> None:
        """Called once at the end, also after a failure. It emits nothing: ``finish`` does."""
