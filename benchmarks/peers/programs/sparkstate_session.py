"""sparkstate's job of the load ``session``: rows of a key less than a gap apart form a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkstate import KeyedProcessFunction, MapStateDescriptor, Types

ANSWER = "k long, begun long, n long, total long"
OPEN = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
"""The time of the last row (ms), the number of rows, their sum."""


class Sessions(KeyedProcessFunction):
    """The open sessions of a key by their begin. Rows may come in any order, as far as the watermark allows."""

    def __init__(self, gap_ms: int) -> None:
        self.gap_ms = gap_ms

    def open(self, ctx: Any) -> None:
        self.sessions = ctx.get_map_state(MapStateDescriptor("sessions", Types.LONG(), OPEN))

    def process_element(self, row: Any, ctx: Any) -> None:
        """Join the row and all open sessions that are less than the gap away into one."""
        at: int = ctx.timestamp()
        begun, last, count, total = at, at, 1, row.v
        near = [
            (begin, one)
            for begin, one in self.sessions.items()
            if begin - self.gap_ms < at < one[0] + self.gap_ms
        ]
        for begin, (end, n, before) in near:
            begun, last = min(begun, begin), max(last, end)
            count, total = count + n, total + before
        for begin, (end, _, _) in near:
            if begin != begun:
                self.sessions.remove(begin)
            if end != last:
                ctx.timer_service().delete_event_time_timer(end + self.gap_ms)
        self.sessions.put(begun, (last, count, total))
        ctx.timer_service().register_event_time_timer(last + self.gap_ms)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int, int, int]]:
        """Those sessions that the timer is of are closed."""
        for begin, (end, count, total) in list(self.sessions.items()):
            if end + self.gap_ms == timestamp:
                self.sessions.remove(begin)
                yield ctx.get_current_key(), begin, count, total
