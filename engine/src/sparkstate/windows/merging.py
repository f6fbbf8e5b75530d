"""The windows of a key that may merge, and the places of their contents.

Theory. When windows merge, moving the contents of the larger one would cost as much as the window is large, for every
row that makes a session longer. So contents have a place of their own: a window that grows keeps its place, and only
the contents of the other windows that it takes in are moved. Places are small numbers, unique within the key, of which
the least free one is taken: a key that has one session at a time keeps its contents in place 0, which is the default
namespace, and that one is read ahead for a whole batch.

The windows of a key are one value of its state, ``_WINDOW`` for each of them, in order. It is read ahead, too.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeAlias

from sparkstate import errors
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, RuntimeContext
from sparkstate.serde.types import Types
from sparkstate.state import api
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.windows import states
from sparkstate.windows.assigner import MergingWindowAssigner
from sparkstate.windows.window import MergeCallback, TimeWindow

Merged: TypeAlias = Callable[[TimeWindow, Sequence[TimeWindow], Any, Sequence[Any]], None]
"""Called with the result, the windows that are no more, the namespace of the result's contents, and the namespaces
whose contents have to be moved there."""

_WINDOW: Final = struct.Struct(">qqq")
"""A stored window: start, end, place."""
_SPAN: Final = struct.Struct(">qq")


class MergingWindows:
    """The windows of the current key. One object serves all keys: ``load`` comes first.

    They stay the bytes that they are stored as: an epoch of many rows opens many sessions of a key before the watermark
    ends the first, and to read and write all of them for each row costs most of what the row costs. Only a row whose
    window begins before the last one has them all taken apart.
    """

    def __init__(self, assigner: MergingWindowAssigner, state: api.ValueState[bytes]) -> None:
        self._assigner = assigner
        self._touching = assigner.merges_what_touches
        self._state = state
        self._stored = b""
        self._changed = False

    def load(self) -> None:
        """Read the windows of the current key."""
        self._stored = self._state.value() or b""
        self._changed = False

    def save(self) -> None:
        """Write them, if they are others."""
        if self._changed:
            self._changed = False
            self._state.update(self._stored or None)

    def namespace(self, window: TimeWindow) -> Any:
        """The namespace of the contents of a window. Raises ``KeyError`` if it is no more."""
        at = self._find(window)
        if at < 0:
            raise KeyError(window)
        return _WINDOW.unpack_from(self._stored, at)[2] or None

    def __contains__(self, window: TimeWindow) -> bool:
        return self._find(window) >= 0

    def retire(self, window: TimeWindow) -> None:
        """The window has ended."""
        if (at := self._find(window)) >= 0:
            self._become(self._stored[:at] + self._stored[at + _WINDOW.size :])

    def _find(self, window: TimeWindow) -> int:
        """The place of the window among the stored bytes; below 0: nowhere."""
        wanted = _SPAN.pack(*window)
        at = self._stored.find(wanted)
        while at >= 0 and at % _WINDOW.size:  # across two windows
            at = self._stored.find(wanted, at + 1)
        return at

    def _become(self, stored: bytes) -> None:
        self._stored = stored
        self._changed = True

    def add(self, window: TimeWindow, merged: Merged) -> tuple[TimeWindow, bool]:
        """The window that a row's own window becomes a part of, and whether it was not there before. Raises
        ``StateError`` for a window, or one that it merges into, that cannot be stored."""
        try:
            if self._touching and (found := self._add_last(window, merged)) is not None:
                return found
            if window in self:
                return window, False
            places = _Places(self._stored)
            if self._touching:
                actual, is_new = places.add_touching(window, merged)
            else:
                actual, is_new = places.add_by(self._assigner, window, merged)
            if is_new:
                self._become(places.stored())
        except struct.error:
            raise errors.StateError(
                f"the window assigner put a row into {window!r}, which cannot be stored, or merged it into such a "
                f"window; start and end must be whole numbers from {MIN_WATERMARK} to {MAX_WATERMARK}"
            ) from None
        return actual, is_new

    def _add_last(self, window: TimeWindow, merged: Merged) -> tuple[TimeWindow, bool] | None:
        """The same for a window that begins no earlier than the last one, and so can touch no other;
        None if it begins before that one."""
        stored = self._stored
        if not stored:
            self._become(_WINDOW.pack(*window, 0))
            return window, True
        numbers = struct.unpack(f">{len(stored) // 8}q", stored)
        start, end, place = numbers[-3:]
        # Of sessions, no earlier one reaches as far. State may come from windows of another assigner, which do.
        if window.start < start or max(numbers[1:-3:3], default=MIN_WATERMARK - 1) >= window.start:
            return None
        if window.start > end:
            self._become(stored + _WINDOW.pack(*window, _free_place(numbers[2::3])))
            return window, True
        last = TimeWindow(start, end)
        if window.end <= end:
            return last, False
        result = TimeWindow(start, window.end)
        self._become(stored[: -_WINDOW.size] + _WINDOW.pack(*result, place))
        merged(result, [last], place or None, [])
        return result, True


class _Places:
    """The windows of a key taken apart, while some of them merge."""

    def __init__(self, stored: bytes) -> None:
        self._places = {TimeWindow(start, end): place for start, end, place in _WINDOW.iter_unpack(stored)}

    def stored(self) -> bytes:
        """In order."""
        places = self._places
        return b"".join([_WINDOW.pack(*window, places[window]) for window in sorted(places)])

    def add_by(
        self, assigner: MergingWindowAssigner, window: TimeWindow, merged: Merged
    ) -> tuple[TimeWindow, bool]:
        """Ask the assigner which windows become one with a new one."""
        answer = _Answer()
        assigner.merge_windows([*self._places, window], answer)
        actual: TimeWindow | None = None
        for these, result in answer.merges:
            if window in these:
                actual = result
            self._merge(these, result, merged)
        if actual is None:
            actual = window
            self._places[window] = _free_place(self._places.values())
        elif actual not in self._places:
            raise errors.StateError(
                f"{assigner!r} merged {window!r} into {actual!r}, and that window into another one; "
                "merge_windows must name each window once"
            )
        return actual, True

    def add_touching(self, window: TimeWindow, merged: Merged) -> tuple[TimeWindow, bool]:
        """The same where the assigner merges what meets or touches, as sessions do. No two windows of the key do."""
        touched = [other for other in self._places if window.intersects(other)]
        if not touched:
            self._places[window] = _free_place(self._places.values())
            return window, True
        result = window
        for other in touched:
            result = result.cover(other)
        if touched == [result]:
            return result, False
        self._merge(touched, result, merged)
        return result, True

    def _merge(self, these: Iterable[TimeWindow], result: TimeWindow, merged: Merged) -> None:
        gone = sorted(window for window in these if window in self._places)
        places = [self._places.pop(window) for window in gone]
        if not places:
            places = [_free_place(self._places.values())]
        self._places[result] = places[0]
        if gone and gone != [result]:
            merged(
                result, [w for w in gone if w != result], places[0] or None, [p or None for p in places[1:]]
            )


def _free_place(places: Collection[int]) -> int:
    """The least that no window has."""
    if not places or max(places) == len(places) - 1:
        return len(places)
    taken = set(places)
    return next(place for place in itertools.count() if place not in taken)


def opened(assigner: MergingWindowAssigner, runtime: RuntimeContext) -> MergingWindows:
    """Asks for the state."""
    descriptor = states.own(ValueStateDescriptor("merging", Types.PRIMITIVE_ARRAY(Types.BYTE())))
    return MergingWindows(assigner, runtime.get_state(descriptor))


class _Answer(MergeCallback):
    """Notes what an assigner merges."""

    def __init__(self) -> None:
        self.merges: list[tuple[set[TimeWindow], TimeWindow]] = []

    def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
        if not isinstance(merge_result, TimeWindow):
            raise errors.StateError(
                f"merge_windows merged windows into {merge_result!r}, which is no TimeWindow"
            )
        self.merges.append((set(to_be_merged), merge_result))
