"""Enums in files that are kept with the tests, and what each later version of the enum reads there.

``python tests/support/backends/stored_enums.py FOLDER`` wrote ``state-enums-v1`` (files of one type) and
``state-enums-v2`` (RocksDB's files half migrated, with a plan for constants) with the sparkstate of 2026-11-26. The
files are never made again: they stand for those that users have.
"""

from __future__ import annotations

import enum
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.backends import stored_types

from sparkstate.backends.base import ListChange, MapChange, StateKind, TableChanges, TableSpec
from sparkstate.serde import expiring
from sparkstate.serde.types import TypeInformation, Types

TTL = expiring.TimeToLive(3_600_000)
FORMATS = {
    "v1": ("canonical-of-hashmap", "canonical-of-rocksdb", "rocksdb"),
    "v2": ("canonical-of-rocksdb", "rocksdb"),
}


class Step(enum.Enum):
    """The constants of the second version."""

    PAID = 1
    NEW = 2
    LOST = 3
    SHIPPED = 4


VERSIONS: dict[str, tuple[TypeInformation, TypeInformation]] = {
    "v1": (Types.ENUM("NEW", "PAID", "SENT"), Types.ENUM("A", "B")),
    "v2": (Types.ENUM(Step, aliases={"SHIPPED": "SENT"}), Types.ENUM("C", "B", "A")),
    "v3": (Types.ENUM("SHIPPED", "OTHER", default="OTHER", dropped=["NEW", "PAID", "LOST"]), Types.STRING()),
    "v4": (Types.STRING(), Types.ENUM("A", "B", "C")),
}
"""The enum of values and that of map keys."""


def tables(version: str) -> dict[str, TableSpec]:
    """The tables as the code of that version declares them."""
    kind, key = VERSIONS[version]

    def table(name: str, state: StateKind, value: TypeInformation, user_key: Any = None) -> TableSpec:
        return TableSpec("op", name, state, Types.LONG(), value, user_key)

    made = [
        table("value", StateKind.VALUE, kind),
        table("list", StateKind.LIST, kind),
        table("map", StateKind.MAP, kind, key),
        table("row", StateKind.VALUE, Types.ROW_NAMED(["a", "b"], [kind, Types.MAP(key, Types.LIST(kind))])),
        table("expiring", StateKind.VALUE, expiring.ExpiringType(kind, TTL)),
    ]
    return {spec.name: spec for spec in made}


def fill(store: Any, version: str, key: int, name: str, user_key: str) -> None:
    """Put the constant of that name into every table."""
    spec = tables(version)
    kind = spec["value"].value_type
    stored = kind.freeze(name)  # type: ignore[union-attr]
    row = spec["row"].value_type.freeze((name, {user_key: [name]}))  # type: ignore[union-attr]
    changes = [
        TableChanges(spec["value"], values={key: stored}),
        TableChanges(spec["list"], lists={key: ListChange(items=[stored, stored])}),
        TableChanges(spec["map"], maps={key: MapChange(entries={user_key: stored})}),
        TableChanges(spec["row"], values={key: row}),
        TableChanges(spec["expiring"], values={key: (1_000, stored)}),
    ]
    store.commit(changes, stored_types.KEYS)


def content(store: Any, version: str, key: int) -> dict[str, Any]:
    """The values that the code of a version reads under a key."""
    found: dict[str, Any] = {}
    for name, spec in tables(version).items():
        table, kg, thaw = store.table(spec), stored_types.KEYS[key], spec.value_type.thaw  # type: ignore[union-attr]
        if spec.kind is StateKind.LIST:
            found[name] = [thaw(item) for item in table.get(kg, key)]
        elif spec.kind is StateKind.MAP:
            found[name] = {user_key: thaw(each) for user_key, each in table.items(kg, key).items()}
        else:
            found[name] = thaw(table.get(kg, key))
    return found


def wanted(value: Any, user_key: str) -> dict[str, Any]:
    """The content where every table has that value."""
    return {
        "value": value,
        "list": [value, value],
        "map": {user_key: value},
        "row": (value, {user_key: [value]}),
        "expiring": value,
    }


AS = {
    "v1": {"v1": ("SENT", "PAID"), "v2": (Step.SHIPPED, Step.PAID), "v4": ("SENT", "PAID")},
    "v2": {
        "v2": (Step.SHIPPED, Step.PAID, Step.LOST),
        "v3": ("SHIPPED", "OTHER", "OTHER"),
        "v4": ("SHIPPED", "PAID", "LOST"),
    },
}
"""By kept files and version of the code, the values of the keys 7 and None, and of -1, which v2 wrote."""


def main(target: Path) -> None:
    """Make the files."""
    with tempfile.TemporaryDirectory() as scratch:
        for backend in ("rocksdb", "hashmap"):
            folder = Path(scratch) / backend
            (folder / "factory").mkdir(parents=True)
            opened = stored_types.stores(backend, folder)
            store = next(opened)
            fill(store, "v1", 7, "SENT", "A")
            fill(store, "v1", None, "PAID", "B")  # type: ignore[arg-type]
            keep(store, backend, folder / "first", target / "state-enums-v1")
            if backend == "rocksdb":
                content(store, "v2", 7)
                fill(store, "v2", -1, "LOST", "C")
                keep(store, backend, folder / "second", target / "state-enums-v2")
            opened.close()  # type: ignore[attr-defined]


def keep(store: Any, backend: str, scratch: Path, target: Path) -> None:
    """Write the snapshots of a store."""
    scratch.mkdir()
    stored_types.keep(store, True, scratch / "c", target / f"canonical-of-{backend}")
    if backend == "rocksdb":
        stored_types.keep(store, False, scratch / "n", target / "rocksdb")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
