"""A dict with copy-on-write views. ``backends.copy_on_write`` has the theory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sparkstate.backends import copy_on_write

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


class LayeredDict(copy_on_write.CopyOnWrite[dict[Any, Any], View]):
    """The dict. ``get`` answers ``ABSENT`` for a missing key."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__({})

    def get(self, key: Any) -> Any:
        value = self.top.get(key, ABSENT)
        if value is ABSENT and self._frozen and key not in self.top:
            for layer in reversed(self._frozen):
                if key in layer:
                    return layer[key]
        return value

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """The values, and ``default`` for a missing key."""
        top = self.top  # before the look at the frozen layers
        if not self._frozen:
            return list(map(top.get, keys, itertools.repeat(default)))
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
        return iter(View(tuple(self._layers())).merged().items())

    def all_keys(self) -> list[Any]:
        """The keys of all layers; a key may come several times, and its entry may be deleted."""
        return [key for layer in self._layers() for key in layer]

    def each_key(self) -> Iterator[Any]:
        """All keys, without a merged copy: those of newer layers first. The dict must not change meanwhile."""
        layers = self._layers()
        for number in reversed(range(len(layers))):
            above = layers[number + 1 :]
            for key, value in layers[number].items():
                if value is not ABSENT and not any(key in layer for layer in above):
                    yield key

    def estimated_len(self) -> int:
        """The number of entries: exact when flat, otherwise an upper bound."""
        return sum(map(len, self._layers()))

    def _is_used(self) -> bool:
        return bool(self.top)

    def _empty(self) -> dict[Any, Any]:
        return {}

    def _view(self, frozen: tuple[dict[Any, Any], ...]) -> View:
        return View(frozen)

    def _merge(self, base: dict[Any, Any], layer: dict[Any, Any], *, keeps_marks: bool) -> None:
        if keeps_marks:
            base.update(layer)
        else:
            _fold(base, layer)
