"""The part of the conformance kit about state whose type changes (docs/schema-evolution.md)."""

from __future__ import annotations

from typing import Any, Final

from sparkstate.backends.base import (
    ListChange,
    MapChange,
    NamespacedCell,
    ShardStore,
    StateKind,
    TableChanges,
    TableSpec,
)
from sparkstate.conformance.kit import KEYS, Kit, table
from sparkstate.serde.types import TypeInformation, Types

_OLD: Final = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()])
_NEW: Final = Types.ROW_NAMED(
    ["unit", "total", "name"],
    [Types.STRING(), Types.BIG_INT(), Types.STRING()],
    aliases={"total": "count"},
    defaults={"unit": "m"},
)
_FEWER: Final = Types.ENUM("A", "B")
_MORE: Final = Types.ENUM("C", "B", "A")
_WINDOW: Final = NamespacedCell("a", "window")


def _specs(value_type: TypeInformation) -> tuple[TableSpec, TableSpec, TableSpec]:
    key = Types.STRING()
    return (
        TableSpec("types", "values", StateKind.VALUE, key, value_type),
        TableSpec("types", "lists", StateKind.LIST, key, value_type),
        TableSpec("types", "maps", StateKind.MAP, key, value_type, Types.LONG()),
    )


def _write(store: ShardStore, value_type: TypeInformation, key: str, value: Any) -> None:
    values, lists, maps = _specs(value_type)
    stored = value_type.freeze(value)
    store.commit(
        [
            TableChanges(values, values={key: stored, _WINDOW: stored}),
            TableChanges(lists, lists={key: ListChange(items=[stored])}),
            TableChanges(maps, maps={key: MapChange(entries={1: stored, 2: None})}),
        ],
        KEYS,
    )


def _content(store: ShardStore, value_type: TypeInformation, key: str) -> list[Any]:
    values, lists, maps = (table(store, spec) for spec in _specs(value_type))
    kg, thaw = KEYS[key], value_type.thaw
    entries = maps.items(kg, key)
    return [
        thaw(values.get(kg, key)),
        [thaw(each) for each in values.get_many([KEYS["a"]], [_WINDOW])],
        [thaw(each) for each in lists.get(kg, key)],
        {user_key: None if each is None else thaw(each) for user_key, each in entries.items()},
    ]


def check_values_are_read_in_the_declared_type(kit: Kit) -> None:
    """Restored state that is declared with a type that its values can be migrated to is read and written in that type,
    and a snapshot of both is restored with it."""
    for in_canonical in (True, False):
        store, restored = kit.store(), kit.store()
        _write(store, _OLD, "a", ("x", 1))
        _write(store, _OLD, "b", ("y", 2))
        kit.copy(store, restored, in_canonical=in_canonical)
        for again_canonical in (True, False):
            found = _content(restored, _NEW, "b")
            row = ("m", 2, "y")
            _require(found[0] == row and found[2:] == [[row], {1: row, 2: None}], found)
            _write(restored, _NEW, "a", ("l", 10**20, "z"))
            found, written = _content(restored, _NEW, "a"), ("l", 10**20, "z")
            _require(found[:2] == [written, [written]] and found[2][0] == ("m", 1, "x"), found)
            _require(found[2][-1] == written and found[3] == {1: written, 2: None}, found)
            again = kit.store()
            kit.copy(restored, again, in_canonical=again_canonical)
            restored = again


def check_enums_are_read_by_the_names_of_their_constants(kit: Kit) -> None:
    """Restored values and map keys of an enum stay what they are when it gets constants, in another order."""
    for in_canonical in (True, False):
        store, restored = kit.store(), kit.store()
        change = MapChange(entries={"A": _FEWER.freeze("B"), "B": None})
        store.commit([TableChanges(_of_enum(_FEWER), maps={"a": change})], KEYS)
        kit.copy(store, restored, in_canonical=in_canonical)
        wanted: dict[str, str | None] = {"A": "B", "B": None}
        _require_entries(restored, wanted)
        change = MapChange(entries={"C": _MORE.freeze("C"), "B": _MORE.freeze("A")})
        restored.commit([TableChanges(_of_enum(_MORE), maps={"a": change})], KEYS)
        wanted |= {"C": "C", "B": "A"}
        _require_entries(restored, wanted)
        for again_canonical in (True, False):
            again = kit.store()
            kit.copy(restored, again, in_canonical=again_canonical)
            _require_entries(again, wanted)


def _of_enum(kind: TypeInformation) -> TableSpec:
    return TableSpec("types", "enums", StateKind.MAP, Types.STRING(), kind, kind)


def _require_entries(store: ShardStore, wanted: dict[str, str | None]) -> None:
    entries = table(store, _of_enum(_MORE)).items(KEYS["a"], "a")
    found = {name: None if each is None else _MORE.thaw(each) for name, each in entries.items()}
    if found != wanted:
        raise AssertionError(f"entries of an enum were read as {found!r}, not as {wanted!r}")


def _require(holds: bool, found: Any) -> None:
    if not holds:
        raise AssertionError(f"values of an earlier type were read as {found!r}")
