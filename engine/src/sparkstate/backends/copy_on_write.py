"""Copy-on-write in layers: the base of asynchronous snapshots of anything held in memory.

Theory. Normally all entries are in ``top``. ``freeze`` puts ``top`` aside as a layer that nobody changes any
more and starts an empty one, so a view of the whole costs nothing but that. From then on a read looks into
``top`` first and then into the frozen layers, newest first; a deletion leaves a mark. Layers that are in no view any
more are folded into one again, those above a view that somebody still reads into one above it: a savepoint may be
stored for as long as many checkpoints take. Folding moves each entry written since the view at most once per view, so
it costs about as much as those writes did: a commit during and after a snapshot is at most about twice as slow, and
never waits for the snapshot.

Only the owner's thread writes and folds, and nobody reads meanwhile. Views are read, and released, by any thread.
Another thread may freeze while the owner reads: ``freeze`` changes no layer, and a read looks up ``top`` before the
frozen layers. If ``top`` is set aside in between, the read finds the same layer again, and misses none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar


class ReleasableView(Protocol):
    """A view, as far as the layers below it are concerned."""

    released: bool


L = TypeVar("L")
V = TypeVar("V", bound=ReleasableView)


class CopyOnWrite(ABC, Generic[L, V]):
    """A store in layers of type ``L``. Views of several layers have type ``V``."""

    __slots__ = ("_frozen", "_views", "top")

    def __init__(self, top: L) -> None:
        self.top = top
        """Where writes go. The only layer when ``is_flat``; then it may be read directly."""
        self._frozen: list[L] = []
        self._views: list[tuple[V, int]] = []
        """With the number of layers that each is made of, the oldest ones."""

    @property
    def is_flat(self) -> bool:
        """Whether ``top`` is all there is."""
        return not self._frozen

    def freeze(self) -> V:
        """A view of all entries as they are now. Costs the same however many there are. Folds nothing: the owner may be
        reading the layers, and a dict or an index that grows shows its reader too few keys. Layers stay few, because
        each write folds those that no view needs."""
        self._drop_released()
        if self._is_used() or not self._frozen:
            self._frozen.append(self.top)
            self.top = self._empty()
        view = self._view(tuple(self._frozen))
        self._views.append((view, len(self._frozen)))
        return view

    def fold(self) -> None:
        """Make one layer of all that are in no view. Called by the owner before it writes."""
        if not self._frozen:
            return
        self._drop_released()
        viewed = max((layers for _, layers in self._views), default=0)
        if viewed == len(self._frozen):
            return
        base = self._frozen[viewed]
        for layer in [*self._frozen[viewed + 1 :], self.top]:
            self._merge(base, layer, keeps_marks=viewed > 0)
        self.top = base
        self._frozen = self._frozen[:viewed]

    def _layers(self) -> list[L]:
        """All layers for a read, the oldest first."""
        top = self.top
        frozen = [*self._frozen]
        return frozen if frozen and frozen[-1] is top else [*frozen, top]

    def _drop_released(self) -> None:
        self._views = [held for held in self._views if not held[0].released]

    @abstractmethod
    def _is_used(self) -> bool:
        """Whether ``top`` has an entry or a mark."""

    @abstractmethod
    def _empty(self) -> L:
        """A new layer."""

    @abstractmethod
    def _view(self, frozen: tuple[L, ...]) -> V:
        """A view of these layers, the oldest first."""

    @abstractmethod
    def _merge(self, base: L, layer: L, *, keeps_marks: bool) -> None:
        """Write a layer into an older one. Without ``keeps_marks`` nothing lies below that one."""
