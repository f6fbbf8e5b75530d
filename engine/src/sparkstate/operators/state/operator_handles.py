"""The handles of operator state. They keep values in stored form (``serde.typeinfo``), so that nothing a user still
holds can change them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

from sparkstate import errors
from sparkstate.checkpoint.operator_parts import Mode
from sparkstate.operators.state import operator_state_memory
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state import operator_state

_REMOVED: Final = object()
"""In the place of the value of an entry that was removed."""
_LOOKS: Final = 64
"""Changed entries of a map from each end that are weighed after a batch."""


@dataclass
class ListChanges:
    """The changes of one epoch to a list."""

    replaced: bool = False
    """The committed elements no longer count."""
    added: list[Any] = field(default_factory=list)
    weighed: int = 0
    """Of ``added``, how many the weight counts."""
    weight: int = 0
    """Bytes of those."""

    def replace(self, elements: list[Any]) -> None:
        """These are all elements."""
        self.replaced, self.added = True, elements
        self.weighed = self.weight = 0

    def weigh(self) -> int:
        """Bytes of ``added``, of which only new elements are looked at."""
        if self.weighed < len(self.added):
            self.weight += operator_state_memory.of_list(self.added[self.weighed :])
            self.weighed = len(self.added)
        return self.weight


@dataclass
class MapChanges:
    """The changes of one epoch to a map."""

    cleared: bool = False
    """The committed entries no longer count."""
    entries: dict[Any, Any] = field(default_factory=dict)


Changes: TypeAlias = dict[str, ListChanges | MapChanges]
"""Of one epoch to all operator state of an operator, by the name of the state."""


class _Handle:
    """The common part: name, type, and the refusal of uses that no epoch and no snapshot would hold."""

    mode: Mode

    def __init__(self, uid: str, name: str, value_type: TypeInformation) -> None:
        self.uid = uid
        self.name = name
        self.value_type = value_type
        self.size_bytes = 0
        """Memory of the committed state, an estimate."""

    def unbind(self) -> None:
        """Every use is refused."""
        self._changes: Any = _Unbound(self)

    def _freeze(self, value: Any) -> Any:
        try:
            return self.value_type.freeze(value)
        except errors.SerializationError as error:
            self._refuse(str(error))

    def _refuse(self, problem: str) -> NoReturn:
        raise errors.SerializationError(f"operator state {self.name!r} of operator {self.uid!r}: {problem}")


class _Unbound:
    """The stand-in for changes where there are none: refuses to be read or written."""

    def __init__(self, handle: _Handle) -> None:
        object.__setattr__(self, "_handle", handle)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python itself asks, as for a copy
            raise AttributeError(name)
        self._refuse()

    def __setattr__(self, name: str, value: object) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        handle = object.__getattribute__(self, "_handle")
        raise errors.StateError(
            f"operator state {handle.name!r} of operator {handle.uid!r} cannot be used here: use it in "
            "initialize_state, open, snapshot_state and finish, and for rows and timers, but not in close() or "
            "when a checkpoint is notified"
        )


class ListHandle(_Handle, operator_state.OperatorListState[Any]):
    """A split or a union list."""

    key_type: None = None

    def __init__(self, uid: str, name: str, mode: Mode, value_type: TypeInformation) -> None:
        super().__init__(uid, name, value_type)
        self.mode = mode
        self.committed: list[Any] = []
        self.unbind()

    def restore(self, committed: list[Any]) -> None:
        """Begin with these elements."""
        self.committed, self.size_bytes = committed, operator_state_memory.of_list(committed)

    def no_changes(self) -> ListChanges:
        """The changes with which an epoch begins."""
        return ListChanges()

    def bind(self, changes: ListChanges | MapChanges) -> None:
        """Work on these changes from now on."""
        self._changes = changes

    def commit(self, changes: ListChanges | MapChanges) -> None:
        """Make them state."""
        assert isinstance(changes, ListChanges)
        self.size_bytes = self.size_with(changes)
        if changes.replaced:
            self.committed = changes.added
        else:
            self.committed.extend(changes.added)

    def size_with(self, changes: ListChanges | MapChanges) -> int:
        """Its memory if they were state."""
        assert isinstance(changes, ListChanges)
        return changes.weigh() + (0 if changes.replaced else self.size_bytes)

    def guess_with(self, changes: ListChanges | MapChanges) -> int:
        """The same: of a list nothing is weighed twice."""
        return self.size_with(changes)

    def get(self) -> list[Any]:
        changes = self._changes
        stored = changes.added if changes.replaced else self.committed + changes.added
        return [self.value_type.thaw(element) for element in stored]

    def add(self, value: Any) -> None:
        self._changes.added.append(self._element(value))

    def add_all(self, values: Iterable[Any]) -> None:
        self._changes.added.extend(self._elements(values))

    def update(self, values: Iterable[Any]) -> None:
        self._changes.replace(self._elements(values))

    def clear(self) -> None:
        self._changes.replace([])

    def _elements(self, values: Iterable[Any]) -> list[Any]:
        if values is None:
            self._refuse("None cannot be its list; clear() empties it")
        return [self._element(value) for value in values]

    def _element(self, value: Any) -> Any:
        if value is None:
            self._refuse("None cannot be an element of a list state")
        return self._freeze(value)


class BroadcastHandle(_Handle, operator_state.BroadcastState[Any, Any]):
    """A map that is the same in every slot."""

    mode: Mode = "broadcast"

    def __init__(self, uid: str, name: str, key_type: TypeInformation, value_type: TypeInformation) -> None:
        super().__init__(uid, name, value_type)
        self.key_type = key_type
        self.committed: dict[Any, Any] = {}
        self.unbind()

    def restore(self, committed: dict[Any, Any]) -> None:
        """Begin with these entries."""
        self.committed = committed
        self.size_bytes = sum(itertools.starmap(operator_state_memory.of_entry, committed.items()))

    def no_changes(self) -> MapChanges:
        """The changes with which an epoch begins."""
        return MapChanges()

    def bind(self, changes: ListChanges | MapChanges) -> None:
        """Work on these changes from now on."""
        self._changes = changes

    def commit(self, changes: ListChanges | MapChanges) -> None:
        """Make them state."""
        assert isinstance(changes, MapChanges)
        if changes.cleared:
            self.committed, self.size_bytes = {}, 0
        for key, stored in changes.entries.items():
            self.size_bytes += self._growth(key, stored, self.committed)
            if stored is _REMOVED:
                self.committed.pop(key, None)
            else:
                self.committed[key] = stored

    def size_with(self, changes: ListChanges | MapChanges) -> int:
        """Its memory if they were state."""
        assert isinstance(changes, MapChanges)
        before, begun = self._begun(changes)
        return begun + self._grown(changes.entries, before)

    def guess_with(self, changes: ListChanges | MapChanges) -> int:
        """The same, judged by the changes that came first and last."""
        assert isinstance(changes, MapChanges)
        before, begun = self._begun(changes)
        entries = changes.entries
        looked = dict(itertools.islice(entries.items(), _LOOKS))
        if len(entries) > _LOOKS:
            looked.update(itertools.islice(reversed(entries.items()), _LOOKS))
        return begun + self._grown(looked, before) * len(entries) // max(1, len(looked))

    def _begun(self, changes: MapChanges) -> tuple[Mapping[Any, Any], int]:
        """The entries that ``changes`` change, and their bytes."""
        return ({}, 0) if changes.cleared else (self.committed, self.size_bytes)

    def _grown(self, entries: Mapping[Any, Any], before: Mapping[Any, Any]) -> int:
        return sum(self._growth(key, stored, before) for key, stored in entries.items())

    def _growth(self, key: Any, stored: Any, before: Mapping[Any, Any]) -> int:
        """Bytes by which one changed entry changes the memory of the map."""
        old = before.get(key, _REMOVED)
        now = 0 if stored is _REMOVED else operator_state_memory.of_entry(key, stored)
        return now - (0 if old is _REMOVED else operator_state_memory.of_entry(key, old))

    def get(self, key: Any) -> Any:
        stored = self._stored(key)
        return None if stored is _REMOVED else self._value(stored)

    def contains(self, key: Any) -> bool:
        return self._stored(key) is not _REMOVED

    def put(self, key: Any, value: Any) -> None:
        stored = None if value is None else self._freeze(value)
        self._changes.entries[self._key(key)] = stored

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._changes.entries[self._key(key)] = _REMOVED

    def clear(self) -> None:
        self._changes.cleared, self._changes.entries = True, {}

    def items(self) -> Iterator[tuple[Any, Any]]:
        thaw, entries = self.key_type.thaw_key, self._all()
        if thaw is None:
            return iter([(key, self._value(stored)) for key, stored in entries.items()])
        return iter([(thaw(key), self._value(stored)) for key, stored in entries.items()])

    def keys(self) -> Iterator[Any]:
        thaw, keys = self.key_type.thaw_key, list(self._all())
        return iter(keys if thaw is None else list(map(thaw, keys)))

    def values(self) -> Iterator[Any]:
        return iter([self._value(stored) for stored in self._all().values()])

    def is_empty(self) -> bool:
        return not self._all()

    def _stored(self, key: Any) -> Any:
        """The stored value of an entry, or ``_REMOVED``."""
        changes, known = self._changes, self._key(key)
        if known in changes.entries:
            return changes.entries[known]
        return _REMOVED if changes.cleared else self.committed.get(known, _REMOVED)

    def _all(self) -> dict[Any, Any]:
        """All entries, in their stored form; a fresh dict."""
        changes = self._changes
        entries = {} if changes.cleared else dict(self.committed)
        entries.update(changes.entries)
        return {key: stored for key, stored in entries.items() if stored is not _REMOVED}

    def _key(self, key: Any) -> Any:
        try:
            return self.key_type.normalize_map_key(key)
        except errors.SerializationError as error:
            self._refuse(f"map key {error}")

    def _value(self, stored: Any) -> Any:
        return None if stored is None else self.value_type.thaw(stored)
