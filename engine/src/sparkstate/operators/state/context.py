"""The context objects that the user's code is given. One of each per operator, reused for every record."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Hashable
from typing import Any, Final, Protocol

from sparkstate import errors
from sparkstate.functions import MIN_WATERMARK, OnTimerContext, TimeDomain, TimerService
from sparkstate.operators.state import unkeyed
from sparkstate.operators.state.key_times import KeyTimes
from sparkstate.operators.state.overlay import Overlay, TimerOverlay
from sparkstate.serde import composite

_NO_KEY: Final = unkeyed.Unkeyed("the context")


class Namespaced(Protocol):
    """A state handle, as the cursor knows it."""

    def leave_namespace(self) -> None:
        """Back to the default namespace."""


class Cursor(OnTimerContext):
    """Where the operator stands: the current key, its time, the overlay. It is also what the user gets as ``ctx``.

    The current key is a number: its place in the overlay's list of keys. The record loop writes it for every
    record, state handles read it at every access; all that belongs to a batch is bound once per batch.
    """

    __slots__ = (
        "domain",
        "firing",
        "floor",
        "journal",
        "key_times",
        "keys",
        "kgs",
        "late_rows",
        "namespaced",
        "number",
        "service",
        "stamp",
        "stamps",
        "timer_namespace",
    )

    def __init__(self) -> None:
        self.number = 0
        self.stamp: int | None = None
        self.keys: Any = _NO_KEY
        """The keys of the overlay at hand, by number."""
        self.kgs: Any = _NO_KEY
        """Their key groups."""
        self.journal: list[Any] | None = None
        """The changes to put back to undo the current record; None where nothing is ever undone."""
        self.namespaced: list[Namespaced] = []
        """Handles whose namespace is not the default one."""
        self.service = BoundTimerService(self)
        self.domain = TimeDomain.EVENT_TIME
        self.firing: TimeDomain | None = None
        """The domain of the timers that fire; None: the function is called for rows."""
        self.floor = MIN_WATERMARK
        """While timers fire: the watermark from before their epoch."""
        self.key_times: KeyTimes | None = None
        """Where a call has many rows or timers: their event times. None: it has one, whose time is ``stamp``."""
        self.timer_namespace: Any = None
        self.late_rows = 0
        """Rows that the function found late, since they were counted last."""
        self.stamps: list[int | None] | None = None
        """Where timestamps are put out: those of the yielded rows, if the function gives them itself."""

    def unbind(self) -> None:
        """There is no key: to ask for it, or to set a timer, is refused."""
        self.keys = self.kgs = _NO_KEY
        self.service.unbind()

    def timestamp(self) -> int | None:
        return self.stamp

    def timer_service(self) -> TimerService:
        return self.service

    def get_current_key(self) -> Any:
        return self.keys[self.number]

    def time_domain(self) -> TimeDomain:
        return self.domain

    def namespace(self) -> Any:
        return composite.as_given(self.timer_namespace)

    def reset_namespaces(self) -> None:
        """Back to the default namespace, at the end of a record or timer."""
        for handle in self.namespaced:
            handle.leave_namespace()
        self.namespaced.clear()


class BoundTimerService(TimerService):
    """Timers of the current key, written to the overlay of the batch at hand."""

    __slots__ = ("_cursor", "_event", "_processing", "_processing_time", "_storable", "watermark")

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._storable: set[tuple[Hashable, ...]] = set()
        """Namespaces of the batch at hand that were found to be storable, each with its type or those of its items."""
        self.watermark = MIN_WATERMARK
        self._processing_time = 0
        self._event: TimerOverlay | unkeyed.Unkeyed = _NO_KEY
        self._processing: TimerOverlay | unkeyed.Unkeyed = _NO_KEY

    def bind(self, overlay: Overlay, watermark: int) -> None:
        """Work on this overlay from now on."""
        self.watermark = watermark
        self._storable.clear()
        self._processing_time = overlay.processing_time
        self._event = overlay.timers[TimeDomain.EVENT_TIME]
        self._processing = overlay.timers[TimeDomain.PROCESSING_TIME]

    def unbind(self) -> None:
        """There is no overlay: to set a timer, or to delete one, is refused."""
        self._event = self._processing = _NO_KEY

    def current_watermark(self) -> int:
        return self.watermark

    def current_processing_time(self) -> int:
        return self._processing_time

    def register_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self._put(self._event, timestamp, namespace, True)

    def register_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self._put(self._processing, timestamp, namespace, True)

    def delete_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self._put(self._event, timestamp, namespace, False)

    def delete_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self._put(self._processing, timestamp, namespace, False)

    def _put(
        self, timers: TimerOverlay | unkeyed.Unkeyed, timestamp: int, namespace: Any, registered: bool
    ) -> None:
        if type(timestamp) is not int or not -(2**63) <= timestamp < 2**63:
            timestamp = _whole(timestamp)
        if namespace is not None:
            self._check(namespace)
            if type(namespace) is not int and type(namespace) is not str:
                namespace = composite.told_apart(namespace)
        timers.put(
            (timestamp, self._cursor.keys[self._cursor.number], namespace), registered, self._cursor.journal
        )

    def _check(self, namespace: Hashable) -> None:
        """Raises ``SerializationError`` for a namespace that cannot be stored: with the record, because a table that
        keeps timers as objects would find out in a snapshot, where it ends every checkpoint."""
        # With its types: NumPy's 5 equals 5 and cannot be stored. What tuples within it hold would not show.
        kinds = map(type, namespace) if type(namespace) is tuple else (type(namespace),)
        told = (namespace, *kinds)
        with contextlib.suppress(TypeError):  # not hashable: refused below
            if told in self._storable:
                return
        composite.require_namespace(namespace)
        if tuple not in told[1:]:
            self._storable.add(told)


def _whole(timestamp: Any) -> int:
    """A timestamp of another type than int: other whole numbers, as NumPy's, are good; truth values are not."""
    with contextlib.suppress(TypeError):
        number = operator.index(timestamp)
        if not isinstance(timestamp, bool) and -(2**63) <= number < 2**63:
            return number
    raise errors.StateError(
        f"a timer's timestamp is {timestamp!r}; give whole milliseconds since the Unix epoch "
        "(a record without event time has the timestamp None)"
    )
