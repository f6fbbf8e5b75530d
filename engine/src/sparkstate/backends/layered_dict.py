"""A dict with copy-on-write views: the base of asynchronous snapshots of anything held in memory.

Theory. Normally all entries are in ``top``. ``freeze`` puts ``top`` aside as a layer that nobody changes any
more and starts an empty one, so a view of the whole costs nothing but that. From then on a read looks into
``top`` first and then into the frozen layers, newest first; a deletion leaves a mark. When all views are
released, the layers are folded into one again. Folding moves each entry written since the view at most once
per view, so it costs about as much as those writes did: a commit during and after a snapshot is at most about
twice as slow, and never waits for the snapshot.

Only the owner's thread writes, freezes and folds. Views are read, and released, by any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

ABSENT: Final = object()
"""Marks an entry as deleted in a layer, and "no such entry" in answers."""


class View:
    """The dict as it was when it was frozen. Read from any thread until released."""

    def __init__(self, layers: tuple[dict[Any, Any], ...]) -> None:
        self._layers = layers
        self.released = False

    def merged(self) -> dict[Any, Any]:
        """All entries. With a single layer that is the layer itself: do not change it."""
        if len(self._layers) == 1:
            return self._layers[0]
        entries: dict[Any, Any] = {}
        for layer in self._layers:
            _fold(entries, layer)
        return entries

    def release(self) -> None:
        """Let the owner fold the layers again, at its next write."""
        self.released = True
        self._layers = ({},)


def _fold(into: dict[Any, Any], layer: dict[Any, Any]) -> None:
    for key, value in layer.items():
        if value is ABSENT:
            into.pop(key, None)
        else:
            into[key] = value


class LayeredDict:
    """The dict. ``get`` answers ``ABSENT`` for a missing key."""

    __slots__ = ("_frozen", "_views", "top")

    def __init__(self) -> None:
        self.top: dict[Any, Any] = {}
        """Where writes go. The only layer when ``is_flat``; then it may be read directly."""
        self._frozen: list[dict[Any, Any]] = []
        self._views: list[View] = []

    @property
    def is_flat(self) -> bool:
        """Whether ``top`` is all there is."""
        return not self._frozen

    def get(self, key: Any) -> Any:
        value = self.top.get(key, ABSENT)
        if value is ABSENT and self._frozen and key not in self.top:
            for layer in reversed(self._frozen):
                if key in layer:
                    return layer[key]
        return value

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """The values, and ``default`` for a missing key."""
        if not self._frozen:
            get = self.top.get
            return [get(key, default) for key in keys]
        return [default if (value := self.get(key)) is ABSENT else value for key in keys]

    def get_own(self, key: Any) -> Any:
        """The value if it was written since the last freeze (then it may be changed in place), else ``ABSENT``."""
        return self.top.get(key, ABSENT)

    def set(self, key: Any, value: Any) -> None:
        self.top[key] = value

    def delete(self, key: Any) -> None:
        if self._frozen:
            self.top[key] = ABSENT
        else:
            self.top.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries; the dict must not change meanwhile."""
        return iter(View((*self._frozen, self.top)).merged().items())

    def estimated_len(self) -> int:
        """The number of entries: exact when flat, otherwise an upper bound."""
        return len(self.top) + sum(map(len, self._frozen))

    def freeze(self) -> View:
        """A view of all entries as they are now. Costs the same however many there are."""
        self.fold()
        if self.top or not self._frozen:
            self._frozen.append(self.top)
            self.top = {}
        view = View(tuple(self._frozen))
        self._views.append(view)
        return view

    def fold(self) -> None:
        """Make one layer of all when no view needs them apart. Called by the owner before it writes."""
        if not self._views:
            return
        self._views = [view for view in self._views if not view.released]
        if self._views or not self._frozen:
            return
        base = self._frozen[0]
        for layer in [*self._frozen[1:], self.top]:
            _fold(base, layer)
        self.top = base
        self._frozen = []
