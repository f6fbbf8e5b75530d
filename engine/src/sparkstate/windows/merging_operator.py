"""The window operator for windows that merge: sessions, and those of an author's ``MergingWindowAssigner``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sparkstate import errors
from sparkstate.functions import Context, OutputTag, RuntimeContext
from sparkstate.windows import contexts, merging
from sparkstate.windows.assigner import MergingWindowAssigner
from sparkstate.windows.contents import OpenContents
from sparkstate.windows.evictors import Evictor
from sparkstate.windows.functions import AnyWindowFunction
from sparkstate.windows.trigger import Trigger
from sparkstate.windows.window import TimeWindow
from sparkstate.windows.window_operator import Forget, WindowOperator


class MergingWindowOperator(WindowOperator):
    """Windows that merge."""

    def __init__(
        self,
        assigner: MergingWindowAssigner,
        trigger: Trigger,
        contents: OpenContents,
        function: AnyWindowFunction | None,
        *,
        contents_name: str,
        title: str,
        evictor: Evictor | None = None,
        lateness_ms: int = 0,
        late_tag: OutputTag | None = None,
    ) -> None:
        super().__init__(
            assigner,
            trigger,
            contents,
            function,
            contents_name=contents_name,
            title=title,
            evictor=evictor,
            lateness_ms=lateness_ms,
            late_tag=late_tag,
        )
        self._merging_assigner = assigner

    def open(self, ctx: RuntimeContext) -> None:
        super().open(ctx)
        self._windows = merging.opened(self._merging_assigner, ctx)

    def _merges(self) -> bool:
        return True

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        timers = self._bind(ctx)
        host = contexts.host_of(ctx)
        timestamp, watermark = host.timestamp(), timers.current_watermark()
        rows: list[Any] = []
        is_skipped = True
        windows = self._windows
        windows.load()
        for assigned in self.assigner.assign_windows(value, timestamp, self._assigner_scope):
            if not isinstance(assigned, TimeWindow):
                raise errors.StateError(
                    f"{self.assigner!r} assigned {assigned!r}; windows that merge must be TimeWindow objects"
                )
            window, is_new = windows.add(assigned, self._merge)
            last = window.max_timestamp()
            if self._in_event_time and last + self.lateness_ms <= watermark:
                self._retire_ended(window)
                continue
            is_skipped = False
            contents = windows.namespace(window)
            is_first = self._contents.add(contents, value, timestamp) or is_new
            if self._only_at_end and last > watermark:
                if is_first:
                    self._register_both(window, window, timers)
            else:
                rows += self._after_adding(value, timestamp, window, contents, is_first, host)
        windows.save()
        return self._late(value, timestamp, watermark, host) if is_skipped else rows

    def _merge(
        self, result: TimeWindow, gone: Sequence[TimeWindow], contents: Any, moved: Sequence[Any]
    ) -> None:
        """Windows have become one: so do their triggers, their timers and their contents."""
        is_authors = not self._merging_assigner.merges_what_touches
        if is_authors:
            self._check_end(result)
        scope = self._trigger_scope
        if is_authors or not self._only_at_end:
            scope.namespace, scope.merged = result, gone
            self.trigger.on_merge(result, scope)
        if is_authors:  # It may be a window without the row at hand, with which timers are set otherwise.
            self._register_end(result, scope)
        for window in gone:
            scope.namespace = window
            self.trigger.clear(window, scope)
            if self.lateness_ms or not self._only_at_end:
                self._delete_end(window, scope)
        self._contents.merge(contents, moved)

    def _retire_ended(self, window: TimeWindow) -> None:
        """A row came too late for its window. There is one where an earlier run of the job had a greater lateness."""
        contents = self._windows.namespace(window)
        if self._contents.values(contents):
            self._forget(window, contents)
        self._windows.retire(window)

    def _check_end(self, result: TimeWindow) -> None:
        scope = self._assigner_scope
        now = scope.get_current_watermark() if self._in_event_time else scope.get_current_processing_time()
        if self.end_of(result) <= now:
            raise errors.StateError(
                f"{self.assigner!r} merged windows into {result!r}, which has ended before {now}; merge_windows must "
                "return a window that covers those it merges"
            )

    def _on_timer(
        self, timestamp: int, window: Any, by_event_time: bool, host: contexts.Host
    ) -> list[Any] | None:
        windows = self._windows
        windows.load()
        if window not in windows:
            return None  # a timer that the trigger did not delete when the window was merged
        contents = windows.namespace(window)
        rows = self._fired_by(timestamp, window, contents, by_event_time, host)
        if self._has_ended(timestamp, window, by_event_time):
            self._forget(window, contents)
            windows.retire(window)
        windows.save()
        return rows

    def _end_by(self, forget: Forget, window: Any) -> None:
        windows = self._windows
        windows.load()
        if window in windows:
            forget(window, windows.namespace(window))
            windows.retire(window)
            windows.save()
