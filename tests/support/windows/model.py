"""Windows as Flink's documentation describes them, in plain Python: each key has a list of panes.

Written from Flink's pages on windows and the Javadoc of its triggers and evictors. It shares no code with
``sparkstate.windows``, so that the two can be compared. A pane holds its rows; its trigger's facts are two numbers; its
timers are a set. Time goes on at the end of an epoch, as in sparkstate: due timers of processing time first, without
those that they register themselves, then those of event time, with those.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

NEVER = 2**63 - 1
"""The end of all time."""
EVENT, PROCESSING = "event", "processing"


@dataclass(frozen=True)
class Program:
    """What a job declares."""

    windows: str
    """tumbling, sliding, session, dynamic, global, count or slidingcount."""
    time: str = EVENT
    size: int = 10
    slide: int = 10
    offset: int = 0
    trigger: tuple[str, int] | None = None
    """("count", n), ("event every", ms) or ("processing every", ms); None: the windows' own."""
    purging: bool = False
    evictor: tuple[str, int, bool] | None = None
    """("count", n, afterwards) or ("time", ms, afterwards)."""
    lateness: int = 0

    @property
    def in_event_time(self) -> bool:
        return self.time == EVENT and self.windows in ("tumbling", "sliding", "session", "dynamic")

    @property
    def merges(self) -> bool:
        return self.windows in ("session", "dynamic")

    @property
    def by_count(self) -> bool:
        return self.windows in ("count", "slidingcount")


@dataclass
class Pane:
    """One window of one key."""

    name: tuple[Any, ...]
    last: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    """Value and event time."""
    count: int = 0
    following: int | None = None
    timers: set[tuple[str, int]] = field(default_factory=set)
    added: int = 0


class Model:
    """Runs a program. ``out`` and ``late`` are what was put out in the last epoch."""

    def __init__(self, program: Program, reduces: bool = False) -> None:
        """``reduces``: nothing comes of no rows, which an evictor may leave."""
        self.program = program
        self.reduces = reduces
        self.panes: dict[str, list[Pane]] = defaultdict(list)
        self.watermark: float = -math.inf
        self.now = 0
        self.seen: dict[str, int] = defaultdict(int)
        self.out: list[Any] = []
        self.late: list[Any] = []

    def epoch(self, rows: list[tuple[str, int, int]], watermark: int | None, now: int) -> None:
        """Rows are (key, value, event time)."""
        self.out, self.late, self.now = [], [], now
        for key, value, at in rows:
            self._row(key, value, at)
        due = sorted(
            (time, key, id(pane), pane)
            for key, panes in self.panes.items()
            for pane in panes
            for domain, time in pane.timers
            if domain == PROCESSING and time <= now
        )
        for time, key, _, pane in due:
            self._timer(key, pane, PROCESSING, time)
        if watermark is not None and watermark > self.watermark:
            self.watermark = watermark
            while due_event := min(self._due_events(), default=None, key=lambda item: item[0]):
                time, key, pane = due_event
                self._timer(key, pane, EVENT, time)

    def _due_events(self) -> list[tuple[int, str, Pane]]:
        return [
            (time, key, pane)
            for key, panes in self.panes.items()
            for pane in panes
            for domain, time in pane.timers
            if domain == EVENT and time <= self.watermark
        ]

    # --- rows

    def _row(self, key: str, value: int, at: int) -> None:
        program = self.program
        skipped = True
        for name, last in self._assigned(key, value, at):
            pane = self._pane(key, name, last)
            if program.in_event_time and pane.last + program.lateness <= self.watermark:
                continue
            skipped = False
            if pane not in self.panes[key]:
                self.panes[key].append(pane)
            pane.rows.append((value, at))
            pane.added += 1
            self._after_row(key, pane, at)
            if (end := self._end(pane)) != NEVER and pane in self.panes[key]:
                pane.timers.add((EVENT if program.in_event_time else PROCESSING, end))
            if program.by_count and pane.added == program.size:
                self.panes[key].remove(pane)
        if skipped and program.in_event_time and at + program.lateness <= self.watermark:
            self.late.append((key, value, at))

    def _assigned(self, key: str, value: int, at: int) -> list[tuple[tuple[Any, ...], int]]:
        p = self.program
        moment = at if p.time == EVENT else self.now
        match p.windows:
            case "tumbling" | "sliding":
                slide = p.size if p.windows == "tumbling" else p.slide
                starts = [s for s in range(moment - p.size + 1, moment + 1) if (s - p.offset) % slide == 0]
                return [(("time", s, s + p.size), s + p.size - 1) for s in starts]
            case "session" | "dynamic":
                gap = p.size if p.windows == "session" else value % 7 + 1
                return [(("time", moment, moment + gap), moment + gap - 1)]
            case "global":
                return [(("global",), NEVER)]
            case _:
                number = self.seen[key]
                self.seen[key] += 1
                slide = p.size if p.windows == "count" else p.slide
                return [
                    (("count", start // slide), NEVER)
                    for start in range(0, number + 1, slide)
                    if start <= number < start + p.size
                ]

    def _pane(self, key: str, name: tuple[Any, ...], last: int) -> Pane:
        """The pane of a window: of a session, the one that all sessions it touches have become."""
        if not self.program.merges:
            same = [pane for pane in self.panes[key] if pane.name == name]
            return same[0] if same else Pane(name, last)
        touched = sorted(
            (pane for pane in self.panes[key] if pane.name[1] <= name[2] and name[1] <= pane.name[2]),
            key=lambda pane: pane.name[1],
        )
        if not touched:
            return Pane(name, last)
        start = min(name[1], *(pane.name[1] for pane in touched))
        end = max(name[2], *(pane.name[2] for pane in touched))
        if [pane.name[1:] for pane in touched] == [(start, end)]:
            return touched[0]
        merged = Pane(("time", start, end), end - 1)
        for pane in touched:
            self.panes[key].remove(pane)
            merged.rows += pane.rows
            merged.count += pane.count
        known = [pane.following for pane in touched if pane.following is not None]
        self.panes[key].append(merged)
        self._merged_trigger(merged, min(known, default=None))
        return merged

    # --- triggers

    def _merged_trigger(self, pane: Pane, following: int | None) -> None:
        kind = self.program.trigger[0] if self.program.trigger else "end"
        pane.following = following
        if following is not None:
            pane.timers.add((EVENT if kind == "event every" else PROCESSING, following))
        if kind == "end" and self.program.time == EVENT and pane.last > self.watermark:
            pane.timers.add((EVENT, pane.last))
        if kind == "end" and self.program.time == PROCESSING and pane.last > self.now:
            pane.timers.add((PROCESSING, pane.last))

    def _after_row(self, key: str, pane: Pane, at: int) -> None:
        kind, number = self.program.trigger or self._own_trigger()
        if kind == "count":
            pane.count += 1
            if pane.count >= number:
                pane.count = 0
                self._fire(key, pane)
        elif kind == "processing end":
            pane.timers.add((PROCESSING, pane.last))
        elif kind in ("event end", "event every"):
            if pane.last <= self.watermark:
                self._fire(key, pane)
                return
            pane.timers.add((EVENT, pane.last))
            if kind == "event every" and pane.following is None:
                self._next(pane, at - at % number, EVENT)
        elif kind == "processing every" and pane.following is None:
            self._next(pane, self.now - self.now % number, PROCESSING)

    def _own_trigger(self) -> tuple[str, int]:
        if self.program.windows == "global":
            return "never", 0
        if self.program.by_count:
            return "count", self.program.size
        return f"{self.program.time} end", 0

    def _next(self, pane: Pane, time: int, domain: str) -> None:
        assert self.program.trigger is not None
        pane.following = min(time + self.program.trigger[1], pane.last)
        pane.timers.add((domain, pane.following))

    def _timer(self, key: str, pane: Pane, domain: str, time: int) -> None:
        if pane not in self.panes[key] or (domain, time) not in pane.timers:
            return
        pane.timers.discard((domain, time))
        kind, _ = self.program.trigger or self._own_trigger()
        if kind == f"{domain} end" and (domain == PROCESSING or time == pane.last):
            self._fire(key, pane)
        elif kind == f"{domain} every":
            if domain == EVENT and time == pane.last:
                self._fire(key, pane)
            elif pane.following == time:
                pane.following = None
                if domain == EVENT and pane.last == NEVER == self.watermark:
                    self._next(pane, NEVER, domain)
                elif domain == EVENT or time < pane.last:
                    self._next(pane, time, domain)
                self._fire(key, pane)
        if (domain == EVENT) is self.program.in_event_time and time == self._end(pane):
            self.panes[key].remove(pane)

    def _end(self, pane: Pane) -> int:
        if not self.program.in_event_time:
            return pane.last
        return min(pane.last + self.program.lateness, NEVER)

    # --- firing

    def _fire(self, key: str, pane: Pane) -> None:
        if not pane.rows:
            return
        evictor = self.program.evictor
        if evictor is not None and not evictor[2]:
            self._evict(pane)
        if pane.rows or (evictor is not None and not self.reduces):
            self.out.append((key, pane.name, tuple(value for value, _ in pane.rows)))
        if evictor is not None and evictor[2]:
            self._evict(pane)
        if self.program.purging:
            pane.rows.clear()

    def _evict(self, pane: Pane) -> None:
        assert self.program.evictor is not None
        kind, number, _ = self.program.evictor
        if kind == "count":
            pane.rows = pane.rows[max(0, len(pane.rows) - number) :]
        else:
            newest = max((at for _, at in pane.rows), default=0)
            pane.rows = [row for row in pane.rows if row[1] > newest - number]
