"""Tables and changes for tests of shard stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparkstate.backends.base import (
    ListChange,
    MapChange,
    StateKind,
    TableChanges,
    TableSpec,
    Timer,
    key_of,
)
from sparkstate.serde.types import Types

VALUES = TableSpec("op", "total", StateKind.VALUE, Types.LONG(), Types.LONG())
NAMES = TableSpec("op", "names", StateKind.VALUE, Types.STRING(), Types.STRING())
LISTS = TableSpec("op", "seen", StateKind.LIST, Types.LONG(), Types.STRING())
MAPS = TableSpec("op", "by day", StateKind.MAP, Types.LONG(), Types.LONG(), Types.STRING())
TIMERS = TableSpec("op", "event timers", StateKind.EVENT_TIMERS, Types.LONG())


def group_of(key: Any) -> int:
    """A stand-in for the key group that Spark computes."""
    return hash(key) % 128


def groups(changes: Iterable[TableChanges]) -> dict[Any, int]:
    """The key groups of all keys in ``changes``."""
    cells = [cell for change in changes for cell in (*change.values, *change.lists, *change.maps)]
    found = {key_of(cell): group_of(key_of(cell)) for cell in cells}
    found.update({timer.key: timer.key_group for change in changes for timer in change.timers})
    return found


def commit(store: Any, *changes: TableChanges) -> None:
    store.commit(list(changes), groups(changes))


def values(entries: Mapping[Any, Any], spec: TableSpec = VALUES) -> TableChanges:
    return TableChanges(spec, values=dict(entries))


def appended(key: Any, *items: Any) -> TableChanges:
    return TableChanges(LISTS, lists={key: ListChange(items=list(items))})


def replaced(key: Any, *items: Any) -> TableChanges:
    return TableChanges(LISTS, lists={key: ListChange(replaced=True, items=list(items))})


def mapped(key: Any, entries: Mapping[str, Any], cleared: bool = False) -> TableChanges:
    return TableChanges(MAPS, maps={key: MapChange(cleared=cleared, entries=dict(entries))})


def timer(timestamp: int, key: int, namespace: Any = None) -> Timer:
    return Timer(timestamp, key, group_of(key), namespace)


def timers(registered: Iterable[Timer] = (), deleted: Iterable[Timer] = ()) -> TableChanges:
    marks = dict.fromkeys(registered, True) | dict.fromkeys(deleted, False)
    return TableChanges(TIMERS, timers=marks)
