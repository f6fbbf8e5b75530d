"""Windows: the parts of a keyed stream whose rows belong together. Names and meaning are PyFlink's.

A window is a tuple, because it is the namespace under which state and timers of the window are stored: what a store
gives back is equal to the window that was put there. The one global window is stored in the default namespace, whose
values are read ahead for a whole batch of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

from sparkstate import errors
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK


class Window(ABC):
    """A part of a stream. It ends: all of its rows have a timestamp of at most ``max_timestamp``."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that belongs to the window, ms since the Unix epoch."""


class MergeCallback(ABC):
    """Takes the answer of ``MergingWindowAssigner.merge_windows``."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
        """These windows become that one."""


class _Span(NamedTuple):
    start: int
    end: int


class _Identity(NamedTuple):
    id: int


class TimeWindow(_Span, Window):
    """The time from ``start`` (included) to ``end`` (excluded), both in ms since the Unix epoch."""

    __slots__ = ()

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two have a moment in common or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The least window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of ``window_size`` that holds ``timestamp``; windows start at ``offset`` and at
        whole sizes from it. All in ms."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        """Tell ``callback`` of every run of windows that meet or touch, of at least two windows."""
        run: list[TimeWindow] = []
        cover: TimeWindow | None = None
        for window in sorted(set(windows)):
            if cover is not None and cover.intersects(window):
                run.append(window)
                cover = cover.cover(window)
                continue
            if cover is not None and len(run) > 1:
                callback.merge(run, cover)
            run, cover = [window], window
        if cover is not None and len(run) > 1:
            callback.merge(run, cover)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(_Identity, Window):
    """The window number ``id`` of its key, among windows of a number of rows."""

    __slots__ = ()

    def max_timestamp(self) -> int:
        return MAX_WATERMARK

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window of a key to which all of its rows belong."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The global window."""
        return GLOBAL

    def max_timestamp(self) -> int:
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


GLOBAL = GlobalWindow()


def time_window(start: int, size: int) -> TimeWindow:
    """The window of ``size`` ms from ``start``, cut at both ends of time."""
    return TimeWindow(max(start, MIN_WATERMARK), min(start + size, MAX_WATERMARK))


def namespace_of(window: Any) -> Any:
    """The namespace of a window's state and timers."""
    if isinstance(window, (TimeWindow, CountWindow)):
        return window
    if isinstance(window, GlobalWindow):
        return None
    raise errors.StateError(
        f"a WindowAssigner returned {window!r} as a window; return TimeWindow, CountWindow or GlobalWindow objects"
    )


def window_of(namespace: Any) -> Window:
    """The window of a namespace: the inverse of :func:`namespace_of`."""
    if namespace is None:
        return GLOBAL
    return TimeWindow(*namespace) if len(namespace) == 2 else CountWindow(*namespace)
