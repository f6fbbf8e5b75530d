"""Fires the due timers of an epoch, in order of time.

Processing-time timers up to the epoch's processing time fire first. They see the watermark from before the epoch,
as in Flink, where one that is due fires before the next watermark arrives. Those registered meanwhile wait for the
next epoch, because processing time stands still within one.

Event-time timers follow, if the watermark has advanced. Those that they register themselves are included, as long as
there are any: a timer that always registers a due one never ends, as in Flink. A timer that was registered for a time
behind the watermark waits for this too: only an advance of the watermark fires event-time timers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkstate import errors
from sparkstate.functions import TimeDomain
from sparkstate.operators.common import user_function
from sparkstate.operators.common.due_timers import CHUNK_TIMERS, DueTimers
from sparkstate.operators.keyed.calls import RecordCalls
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.overlay import Overlay, TimerKey

FLUSH_ROWS = 16_384
SETTLE_ELEMENTS = 8_192
"""So many elements of lists and maps that timers read or wrote are weighed before the next timer: a thousand windows
that fire together may hold more than memory does."""


def fire_all(calls: RecordCalls, budget: EpochBudget | None, overlay: Overlay, watermark: int) -> None:
    """Fire everything that is due at the end of an epoch."""
    calls.bind(overlay, overlay.watermark)
    _Firing(calls, budget, overlay, TimeDomain.PROCESSING_TIME, overlay.processing_time).run()
    if watermark > overlay.watermark:
        calls.bind(overlay, watermark)
        _Firing(calls, budget, overlay, TimeDomain.EVENT_TIME, watermark).run()


class _Firing:
    """One pass over the due timers of one domain."""

    def __init__(
        self, calls: RecordCalls, budget: EpochBudget | None, overlay: Overlay, domain: TimeDomain, until: int
    ) -> None:
        self._calls = calls
        self._overlay = overlay
        self._domain = domain
        self._watermark = calls.cursor.service.watermark
        self._due = DueTimers(calls.tables, budget, overlay, domain, until, self._rebind)
        self._yielded: list[Any] = []
        self._emitted: list[int | None] = []
        self._rejected: list[Any] = []
        self._rejected_at: list[int | None] = []
        self._elements = self._count_elements()
        """Elements in the overlay's tables when they were weighed last."""

    def run(self) -> None:
        cursor = self._calls.cursor
        cursor.domain = cursor.firing = self._domain
        cursor.floor = self._overlay.watermark
        try:
            self._fire_due()
        finally:
            cursor.firing = None

    def _fire_due(self) -> None:
        with self._due as due:
            for timer in due:
                self._fire(timer)
                if len(self._yielded) >= FLUSH_ROWS:
                    self._flush()
                elements = self._count_elements()
                if (
                    self._overlay.timers_fired % CHUNK_TIMERS == 0
                    or elements - self._elements >= SETTLE_ELEMENTS
                ):
                    due.make_room()
                    self._elements = self._count_elements()
        self._flush()
        self._calls.reject(self._overlay, self._rejected, self._rejected_at)

    def _count_elements(self) -> int:
        return sum([table.elements for table in self._overlay.tables])

    def _rebind(self) -> None:
        self._calls.bind(self._overlay, self._watermark)

    def _fire(self, timer: TimerKey) -> None:
        calls, cursor = self._calls, self._calls.cursor
        timestamp, key, cursor.timer_namespace = timer
        cursor.number = self._overlay.known.number_of(key)
        cursor.stamp = timestamp
        stamp = timestamp if self._domain is TimeDomain.EVENT_TIME else None
        before = len(self._yielded)
        self._overlay.timers_fired += 1
        try:
            on_timer: Callable[..., Any] = calls.spec.function.on_timer
            result = on_timer(timestamp, cursor)
            if result is not None:
                self._yielded.extend(calls.outputs.kept(result))
        except user_function.RAISED as error:
            # The timer itself stays fired, or it would fail again in every epoch to come.
            told = self._undo(timer, error, before)
            self._rejected.append((*(None for _ in calls.spec.row_columns), told))
            self._rejected_at.append(stamp)
            self._go_on(timer, before)
        if cursor.journal:
            cursor.journal.clear()
        if cursor.namespaced:
            cursor.reset_namespaces()
        self._emitted.extend(calls.stamps(stamp, len(self._yielded) - before))

    def _undo(self, timer: TimerKey, error: BaseException, before: int) -> str:
        """Put back what the timer changed, if such errors are rejected; the text of the error."""
        calls = self._calls
        failure = calls.user_error(self._overlay, error, self._describe(timer))
        if calls.spec.on_error == "fail" or not isinstance(failure, errors.UserCodeError):
            raise failure from error
        calls.undo_record(self._yielded, before)
        if calls.cursor.namespaced:
            calls.cursor.reset_namespaces()
        return str(failure)

    def _go_on(self, timer: TimerKey, before: int) -> None:
        """Do what the function has left to do for a rejected timer."""
        for call in self._calls.spec.function.after_rejected_timer():
            try:
                call(timer[0], self._calls.cursor)
            except user_function.RAISED as error:
                self._undo(timer, error, before)
            else:
                return

    def _describe(self, timer: TimerKey) -> str:
        domain = "event-time" if self._domain is TimeDomain.EVENT_TIME else "processing-time"
        return f"{domain} timer {timer[0]}" + ("" if timer[2] is None else f" of namespace {timer[2]!r}")

    def _flush(self) -> None:
        stamps = self._emitted if self._calls.spec.keeps_times else None
        self._calls.outputs.put(self._overlay, self._yielded, stamps)
        self._yielded, self._emitted = [], []
