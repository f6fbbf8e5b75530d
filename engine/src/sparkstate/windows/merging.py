"""The windows of a key that may merge, and the places of their contents.

Theory. When windows merge, moving the contents of the larger one would cost as much as the window is large, for every
row that makes a session longer. So contents have a place of their own: a window that grows keeps its place, and only
the contents of the other windows that it takes in are moved. Places are small numbers, unique within the key, of which
the least free one is taken: a key that has one session at a time keeps its contents in place 0, which is the default
namespace, and that one is read ahead for a whole batch.

The windows of a key are one value of its state: start, end and place of each, in order. It is read ahead, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

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


class MergingWindows:
    """The windows of the current key. One object serves all keys: ``load`` comes first."""

    def __init__(self, assigner: MergingWindowAssigner) -> None:
        self._assigner = assigner
        self._descriptor = states.own(ValueStateDescriptor("merging", Types.PRIMITIVE_ARRAY(Types.LONG())))
        self._state: api.ValueState[list[int]]
        self._places: dict[TimeWindow, int] = {}
        self._changed = False

    def open(self, runtime: RuntimeContext) -> None:
        """Ask for the state."""
        self._state = runtime.get_state(self._descriptor)

    def load(self) -> None:
        """Read the windows of the current key."""
        flat = iter(self._state.value() or ())
        self._places = {
            TimeWindow(start, end): place for start, end, place in zip(flat, flat, flat, strict=True)
        }
        self._changed = False

    def save(self) -> None:
        """Write them, if they are others."""
        if not self._changed:
            return
        self._changed = False
        flat = [number for window in sorted(self._places) for number in (*window, self._places[window])]
        self._state.update(flat or None)

    def namespace(self, window: TimeWindow) -> Any:
        """The namespace of the contents of a window. Raises ``KeyError`` if it is no more."""
        return self._places[window] or None

    def __contains__(self, window: TimeWindow) -> bool:
        return window in self._places

    def add(self, window: TimeWindow, merged: Merged) -> tuple[TimeWindow, bool]:
        """The window that a row's own window becomes a part of, and whether it was not there before."""
        if window in self._places:
            return window, False
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
