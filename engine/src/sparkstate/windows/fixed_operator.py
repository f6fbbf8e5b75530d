"""The window operator for windows that stay as the assigner made them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkstate.functions import Context
from sparkstate.windows import contexts, count_windows
from sparkstate.windows import window as window_module
from sparkstate.windows.window_operator import Forget, WindowOperator


class FixedWindowOperator(WindowOperator):
    """Tumbling, sliding, count and global windows, and those of an author's assigner that merges none."""

    def _merges(self) -> bool:
        return False

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        timers = self._bind(ctx)
        host = contexts.host_of(ctx)
        timestamp, watermark = host.timestamp(), timers.current_watermark()
        rows: list[Any] | None = None
        is_skipped = True
        for window in self.assigner.assign_windows(value, timestamp, self._assigner_scope):
            namespace = window_module.namespace_of(window)
            last = window.max_timestamp()
            if self._in_event_time and last + self.lateness_ms <= watermark:
                continue
            is_skipped = False
            is_first = self._contents.add(namespace, value, timestamp)
            if self._only_at_end and last > watermark:
                if is_first:
                    self._register_both(window, namespace, timers)
                continue
            put_out = self._after_adding(value, timestamp, window, namespace, is_first, host)
            if put_out:
                rows = put_out if rows is None else rows + put_out
            self._forget_if_complete(window, namespace)
        if is_skipped:
            return self._late(value, timestamp, watermark, host)
        return rows

    def _forget_if_complete(self, window: Any, namespace: Any) -> None:
        """A count window gets no row after its last one, and has no time at which it would end."""
        if isinstance(self.assigner, count_windows.CountSlidingWindowAssigner) and self.assigner.completes(
            window, self._assigner_scope
        ):
            self._forget(window, namespace)

    def _on_timer(
        self, timestamp: int, window: Any, by_event_time: bool, host: contexts.Host
    ) -> list[Any] | None:
        namespace = window_module.namespace_of(window)
        rows = self._fired_by(timestamp, window, namespace, by_event_time, host)
        if self._has_ended(timestamp, window, by_event_time):
            self._forget(window, namespace)
        return rows

    def _end_by(self, forget: Forget, window: Any) -> None:
        forget(window, window_module.namespace_of(window))
