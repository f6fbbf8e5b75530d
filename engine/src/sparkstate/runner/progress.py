"""The live line of ``sparkstate run``, and the words for sizes, rates and times."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from typing import TextIO

from sparkstate import clock as clocks
from sparkstate.control import documents
from sparkstate.driver import long_work

PLAIN_PERIOD_S = 5.0
"""How often a line is written where there is no terminal to keep one line alive on."""
_REDRAW_S = 0.2


def size(count: int) -> str:
    """``512 B``, ``1.5 MiB``."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def rate(per_s: float) -> str:
    """``950 rows/s``, ``12.3 k rows/s``, ``1.2 M rows/s``."""
    if per_s < 1000:
        return f"{per_s:.0f} rows/s"
    if per_s < 1_000_000:
        return f"{per_s / 1000:.1f} k rows/s"
    return f"{per_s / 1_000_000:.1f} M rows/s"


def duration(ms: int) -> str:
    """``0.4 s``, ``12 s``, ``3 min 20 s``, ``5 h 12 min``, ``3 d 4 h``."""
    if ms < 0:
        return "-" + duration(-ms)
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    for large, small, large_name, small_name in ((60, 1, "min", "s"), (3600, 60, "h", "min")):
        if seconds < large * (60 if large == 60 else 24):
            return f"{seconds // large} {large_name} {seconds % large // small} {small_name}"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"


def line(status: documents.JobStatus, now_ms: int) -> str:
    """Storages that are away, epoch, rows per second, state size, last checkpoint and lag, in one line."""
    parts = [status.phase.value.lower()] if status.phase is not documents.DriverPhase.RUNNING else []
    parts += [f"storage away {duration(max(0, now_ms - each.since_ms))}" for each in status.storage_away]
    parts += [work(each) for each in status.progress]
    parts.append(f"epoch {status.epoch}" if status.epoch is not None else "no epoch yet")
    parts.append(rate(status.rows_per_s))
    parts.append(f"state {size(status.state_bytes)}")
    parts.append(_checkpoint(status, now_ms))
    if status.watermark_ms == documents.END_OF_INPUT_WATERMARK:
        parts.append("input ended")
    elif status.lag_ms is not None:
        parts.append(f"lag {duration(status.lag_ms)}")
    if status.restarts:
        parts.append(f"{status.restarts} restart{'s' if status.restarts > 1 else ''}")
    return " · ".join(parts)


def work(under_way: documents.Progress) -> str:
    """``restore 120.0 MiB of 1.2 GiB, 12 s left``; behind ``rescale 2 to 3 slots: `` where the restore is one."""
    name = f" {under_way.name}" if under_way.name else ""
    before, after = under_way.slots_before, under_way.slots_after
    rescale = "" if before is None or after is None else f"rescale {before} to {after} slots: "
    doing = f"{rescale}{under_way.kind}{name}"
    return amount(doing, under_way.done_bytes, under_way.total_bytes, under_way.left_ms)


def amount(doing: str, done_bytes: int, total_bytes: int, left_ms: int | None) -> str:
    """``purge 1.0 MiB of 2.0 MiB, 12 s left``."""
    left = "" if left_ms is None else f", {duration(left_ms)} left"
    return f"{doing} {size(done_bytes)} of {size(total_bytes)}{left}"


def outage(place: documents.StorageAway, now_ms: int) -> str:
    """``s3://bucket/state is away for 12 s (store checkpoint 7): …``."""
    lasts = duration(max(0, now_ms - place.since_ms))
    return f"{place.url} is away for {lasts} ({place.doing}): {place.message}"


def _checkpoint(status: documents.JobStatus, now_ms: int) -> str:
    last = status.last_checkpoint
    if last is None:
        return "no checkpoint yet"
    ended_ms = last.trigger_ms + (last.duration_ms or 0)
    took = f", took {duration(last.duration_ms)}" if last.duration_ms is not None else ""
    uploaded = f", {size(last.uploaded_bytes)} new" if last.uploaded_bytes is not None else ""
    return f"checkpoint {last.id} {duration(max(0, now_ms - ended_ms))} ago{took}{uploaded}"


class Reporter:
    """Writes messages and the live line: rewritten in place on a terminal, else every few seconds.

    Safe to call from several threads.
    """

    def __init__(self, stream: TextIO, clock: clocks.Clock, *, show_progress: bool = True) -> None:
        self._stream = stream
        self._clock = clock
        self._show_progress = show_progress
        self._terminal = stream.isatty()
        self._lock = threading.Lock()
        self._shown = ""
        self._next_plain_s = 0.0
        self._phase: documents.DriverPhase | None = None

    def message(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._write(f"{text}\n")

    def progress(self, status: documents.JobStatus) -> None:
        """The live line, renewed."""
        if not self._show_progress:
            return
        text = line(status, self._clock.now_ms())
        with self._lock:
            if self._terminal:
                self._write("", shown=text)
            elif self._clock.monotonic() >= self._next_plain_s or status.phase is not self._phase:
                self._next_plain_s = self._clock.monotonic() + PLAIN_PERIOD_S
                self._write(f"{text}\n")
            self._phase = status.phase

    def clear(self) -> None:
        """Take the live line away, before something else is written or at the end."""
        with self._lock:
            self._write("", shown="")

    def _write(self, text: str, shown: str | None = None) -> None:
        """Erase the live line, write ``text``, draw the live line (``shown`` if given) again."""
        erase = "\r\x1b[2K" if self._shown else ""
        self._shown = self._shown if shown is None else shown
        columns = shutil.get_terminal_size().columns
        # The terminal was closed, or the pipe's reader left: the job goes on, and its end is still clean.
        with suppress(OSError, ValueError):
            self._stream.write(f"{erase}{text}{self._shown[: columns - 1]}")
            self._stream.flush()


class TransferLine:
    """One live line about one piece of long work, on a terminal; elsewhere nothing is written."""

    def __init__(self, stream: TextIO, clock: clocks.Clock, doing: str, period_s: float = _REDRAW_S) -> None:
        self._stream = stream
        self._clock = clock
        self._doing = doing
        self._terminal = stream.isatty()
        self._began = clock.monotonic()
        self._period_s = period_s
        self._next_s = 0.0

    def takes_turn(self) -> bool:
        """Whether a terminal is there and its line is due; after that, not before a period is over."""
        now = self._clock.monotonic()
        if not self._terminal or now < self._next_s:
            return False
        self._next_s = now + self._period_s
        return True

    def tell(self, done_bytes: int, total_bytes: int) -> None:
        """So much is done of so much."""
        if self.takes_turn():
            left = long_work.left_ms(done_bytes, total_bytes, self._clock.monotonic() - self._began)
            self._write(amount(self._doing, done_bytes, total_bytes, left))

    def show(self, under_way: documents.Progress) -> None:
        """The work of a driver, which has seen it begin and knows the time left. For the caller whose turn it is."""
        if self._terminal:
            self._write(work(under_way))

    def clear(self) -> None:
        """Take the line away."""
        if self._terminal:
            self._write("")

    def _write(self, text: str) -> None:
        shown = text[: shutil.get_terminal_size().columns - 1]
        with suppress(OSError, ValueError):  # the terminal was closed: the work goes on
            self._stream.write(f"\r\x1b[2K{shown}")
            self._stream.flush()
