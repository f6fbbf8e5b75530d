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
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from sparkstate import errors
from sparkstate.functions import RuntimeContext
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


class MergingWindows:
    """The windows of the current key. One object serves all keys: ``load`` comes first."""

    def __init__(self, assigner: MergingWindowAssigner, state: api.ValueState[bytes]) -> None:
        self._assigner = assigner
        self._touching = assigner.merges_what_touches
        self._state = state
        self._places: dict[TimeWindow, int] = {}
        self._changed = False

    def load(self) -> None:
        """Read the windows of the current key."""
        self._places = {
            TimeWindow(start, end): place
            for start, end, place in _WINDOW.iter_unpack(self._state.value() or b"")
        }
        self._changed = False

    def save(self) -> None:
        """Write them, if they are others."""
        if not self._changed:
            return
        self._changed = False
        places = self._places
        stored = b"".join([_WINDOW.pack(*window, places[window]) for window in sorted(places)])
        self._state.update(stored or None)

    def namespace(self, window: TimeWindow) -> Any:
        """The namespace of the contents of a window. Raises ``KeyError`` if it is no more."""
        return self._places[window] or None

    def __contains__(self, window: TimeWindow) -> bool:
        return window in self._places

    def add(self, window: TimeWindow, merged: Merged) -> tuple[TimeWindow, bool]:
        """The window that a row's own window becomes a part of, and whether it was not there before."""
        if window in self._places:
            return window, False
        if self._touching:
            return self._add_touching(window, merged)
        answer = _Answer()
        self._assigner.merge_windows([*self._places, window], answer)
        actual: TimeWindow | None = None
        for these, result in answer.merges:
            if window in these:
                actual = result
            self._merge(these, result, merged)
        if actual is None:
            actual = window
            self._places[window] = self._free_place()
        elif actual not in self._places:
            raise errors.StateError(
                f"{self._assigner!r} merged {window!r} into {actual!r}, and that window into another one; "
                "merge_windows must name each window once"
            )
        self._changed = True
        return actual, True

    def _add_touching(self, window: TimeWindow, merged: Merged) -> tuple[TimeWindow, bool]:
        """The same where the assigner merges what meets or touches, as sessions do. No two windows of the key do."""
        touched = [other for other in self._places if window.intersects(other)]
        if not touched:
            self._places[window] = self._free_place()
            self._changed = True
            return window, True
        result = window
        for other in touched:
            result = result.cover(other)
        if touched == [result]:
            return result, False
        self._merge(touched, result, merged)
        return result, True

    def retire(self, window: TimeWindow) -> None:
        """The window has ended."""
        if self._places.pop(window, None) is not None:
            self._changed = True

    def _merge(self, these: Iterable[TimeWindow], result: TimeWindow, merged: Merged) -> None:
        gone = sorted(window for window in these if window in self._places)
        places = [self._places.pop(window) for window in gone]
        if not places:
            places = [self._free_place()]
        self._places[result] = places[0]
        self._changed = True
        if gone and gone != [result]:
            merged(
                result, [w for w in gone if w != result], places[0] or None, [p or None for p in places[1:]]
            )

    def _free_place(self) -> int:
        taken = set(self._places.values())
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
