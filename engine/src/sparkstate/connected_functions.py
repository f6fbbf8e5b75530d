"""The classes for a job's author whose function has rows of two streams. Names and meaning are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias

from sparkstate.functions import Context, KeyedFunction, OnTimerContext, RuntimeContext
from sparkstate.state import descriptors, operator_state

_Context: TypeAlias = Context
_OnTimerContext: TypeAlias = OnTimerContext


class KeyedCoProcessFunction(KeyedFunction):
    """The user's code for the records of two keyed streams with the same keys, which share state and timers."""

    Context: TypeAlias = _Context
    OnTimerContext: TypeAlias = _OnTimerContext
    inputs: ClassVar[str] = "two keyed streams"
    stamps_rows: ClassVar[bool] = False
    """Whether it yields pairs of the event time of a row, for a next operator, and the row. Rows have the time of the
    record that made them otherwise."""

    def open(self, ctx: RuntimeContext) -> None:
        """Called once in every slot, after the state was restored and before the first record."""

    def process_element1(self, value: Any, ctx: _Context) -> Iterable[Any] | None:
        """Called for every record of the first stream, within an epoch before those of the second. Yields output
        rows, as ``KeyedProcessFunction`` does."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_element1")

    def process_element2(self, value: Any, ctx: _Context) -> Iterable[Any] | None:
        """Called for every record of the second stream. Yields output rows."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_element2")

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[Any] | None:
        """Called for every due timer, in order of time. Yields output rows. Does nothing unless overridden."""

    def close(self) -> None:
        """Called once at the end, also after a failure. It emits nothing: ``finish`` does."""


class ReadOnlyContext(OnTimerContext):
    """Given to ``process_element`` and ``on_timer`` of a :class:`KeyedBroadcastProcessFunction`."""

    @abstractmethod
    def get_broadcast_state(
        self, state_descriptor: descriptors.MapStateDescriptor
    ) -> operator_state.ReadOnlyBroadcastState[Any, Any]:
        """The broadcast state of that name, for reading: slots that changed it for their own keys would differ."""


class _UnkeyedContext(ABC):
    """The times of a row that has no key."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The row's event time in ms, None without event time."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark in ms; ``MIN_WATERMARK`` before the first."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Wall time in ms: fixed for the whole epoch, and the same in every slot."""


class BroadcastContext(_UnkeyedContext):
    """Given to ``process_broadcast_element``. There is no key."""

    @abstractmethod
    def get_broadcast_state(
        self, state_descriptor: descriptors.MapStateDescriptor
    ) -> operator_state.BroadcastState[Any, Any]:
        """The broadcast state of that name. Every slot has to make the same changes to it."""

    @abstractmethod
    def apply_to_keyed_state(
        self,
        state_descriptor: descriptors.StateDescriptor,
        function: Callable[[Any, Any], object],
    ) -> None:
        """Call ``function(key, state)`` for each key of the slot that has something in the keyed state of that name,
        which ``open`` has declared; each slot does so for keys of its own. The function may read and change all keyed
        state of that key. It returns nothing; rows to put out go into a list, to be yielded afterwards.

        Keys that this epoch has changed before come first, the others in the order of the state backend: with RocksDB
        by key group and encoded key, with HashMap in no order. Takes as long as reading the state does.
        """


_ReadOnlyContext: TypeAlias = ReadOnlyContext


class KeyedBroadcastProcessFunction(KeyedFunction):
    """The user's code for the records of a keyed stream, and for those of a stream that every slot sees."""

    ReadOnlyContext: TypeAlias = _ReadOnlyContext
    Context: TypeAlias = BroadcastContext
    OnTimerContext: TypeAlias = _ReadOnlyContext
    inputs: ClassVar[str] = "a keyed stream and a broadcast one"

    def open(self, ctx: RuntimeContext) -> None:
        """Called once in every slot, after the state was restored and before the first record."""

    def process_element(self, value: Any, ctx: _ReadOnlyContext) -> Iterable[Any] | None:
        """Called for every record of the keyed stream. Yields output rows."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_element")

    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Called for every record of the broadcast stream, in every slot and in the same order; within an epoch these
        come before the keyed records. Each slot puts out the rows that it yields."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_broadcast_element")

    def on_timer(self, timestamp: int, ctx: _ReadOnlyContext) -> Iterable[Any] | None:
        """Called for every due timer, in order of time. Yields output rows. Does nothing unless overridden."""

    def close(self) -> None:
        """Called once at the end, also after a failure. It emits nothing: ``finish`` does."""


class UnkeyedReadOnlyContext(_UnkeyedContext):
    """Given to ``process_element`` of a :class:`BroadcastProcessFunction`. There is no key, and there are no timers."""

    @abstractmethod
    def get_broadcast_state(
        self, state_descriptor: descriptors.MapStateDescriptor
    ) -> operator_state.ReadOnlyBroadcastState[Any, Any]:
        """The broadcast state of that name, for reading: slots that changed it for their own rows would differ."""


class BroadcastProcessFunction(KeyedFunction):
    """The user's code for the records of a stream without keys, and for those of a stream that every slot sees. It has
    no keyed state and no timers."""

    ReadOnlyContext: TypeAlias = UnkeyedReadOnlyContext
    Context: TypeAlias = BroadcastContext
    inputs: ClassVar[str] = "a stream without keys and a broadcast one"

    def open(self, ctx: RuntimeContext) -> None:
        """Called once in every slot, after the state was restored and before the first record."""

    def process_element(self, value: Any, ctx: UnkeyedReadOnlyContext) -> Iterable[Any] | None:
        """Called for every record of the stream without keys, in one of the slots. Yields output rows."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_element")

    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Called for every record of the broadcast stream, in every slot and in the same order; within an epoch these
        come before the other records. Each slot puts out the rows that it yields."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_broadcast_element")

    def close(self) -> None:
        """Called once at the end, also after a failure. It emits nothing: ``finish`` does."""
