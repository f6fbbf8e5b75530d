"""State of every kind in files that are kept with the tests, and what each later version of its types reads there.

``python tests/support/backends/stored_types.py v1 FOLDER`` wrote ``state-v1`` with the sparkstate of 2026-11-26 (commit
2f9d9b2), whose native snapshots had the version 1. ``v2 FOLDER STATE-V1`` takes its RocksDB files up with changed
types, writes a few values, and wrote ``state-v2``: half migrated, native version 2. The files are never made again:
they stand for those that users have.
"""

from __future__ import annotations

import datetime
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparkstate.backends import loader
from sparkstate.backends.base import (
    ListChange,
    MapChange,
    NamespacedCell,
    StateKind,
    TableChanges,
    TableSpec,
    Timer,
)
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import TypeInformation, Types
from sparkstate.settings import MIB, StateBackendSettings

ALL = KeyGroupRange(0, 15)
LONG, INT, TEXT, DAY = Types.LONG(), Types.INT(), Types.STRING(), Types.SQL_DATE()
WINDOW = NamespacedCell(7, (0, 10))
TIMER = Timer(30, 7, 7)
KEYS: Mapping[Any, int] = {7: 7, -1: 15, None: 3}
"""Keys and their key groups."""


def item_v1() -> TypeInformation:
    """A row, as it was at first."""
    return Types.ROW_NAMED(["name", "day", "amount"], [TEXT, DAY, INT])


def item_v2() -> TypeInformation:
    """A field is wider, another renamed, and one new."""
    return Types.ROW_NAMED(
        ["name", "at", "amount", "unit"],
        [TEXT, Types.SQL_TIMESTAMP(), LONG, TEXT],
        aliases={"at": "day"},
        defaults={"unit": "m"},
    )


def item_v3() -> TypeInformation:
    """A field is gone, another new, in another order."""
    return Types.ROW_NAMED(
        ["unit", "amount", "name", "tags"],
        [TEXT, Types.BIG_INT(), TEXT, Types.LIST(TEXT)],
        dropped=["at", "day"],
        defaults={"unit": "of v3", "tags": ["new"]},
    )


def specs(item: TypeInformation, number: TypeInformation) -> dict[str, TableSpec]:
    """The tables of one version, by name."""

    def table(name: str, kind: StateKind, value: TypeInformation | None, user_key: Any = None) -> TableSpec:
        return TableSpec("op", name, kind, LONG, value, user_key)

    count = Types.ROW_NAMED(["count", "items"], [LONG, Types.LIST(item)])
    made = [
        table("number", StateKind.VALUE, number),
        table("row", StateKind.VALUE, item),
        table("list", StateKind.LIST, item),
        table("map", StateKind.MAP, item, TEXT),
        table("reduced", StateKind.REDUCING, item),
        table("folded", StateKind.AGGREGATING, count),
        table("timers", StateKind.EVENT_TIMERS, None),
    ]
    return {spec.name: spec for spec in made}


VERSIONS = {
    "v1": (item_v1, Types.INT),
    "v2": (item_v2, Types.BIG_INT),
    "v3": (item_v3, Types.BIG_DEC),
}


def tables(version: str) -> dict[str, TableSpec]:
    """The tables as the code of that version declares them."""
    item, number = VERSIONS[version]
    return specs(item(), number())


def changes(version: str, key: Any, value: Any, number: Any) -> list[TableChanges]:
    """A value for every table under a key and under a window, and a timer."""
    spec = tables(version)
    frozen = spec["row"].value_type.freeze(value)  # type: ignore[union-attr]
    folded = spec["folded"].value_type.freeze((1, [value]))  # type: ignore[union-attr]
    return [
        TableChanges(spec["number"], values={key: number}),
        TableChanges(spec["row"], values={key: frozen, WINDOW: frozen}),
        TableChanges(spec["list"], lists={key: ListChange(items=[frozen, frozen])}),
        TableChanges(spec["map"], maps={key: MapChange(entries={"x": frozen, "null": None})}),
        TableChanges(spec["reduced"], values={key: frozen}),
        TableChanges(spec["folded"], values={key: folded}),
        TableChanges(spec["timers"], timers={TIMER: True}),
    ]


def fill(store: Any, version: str, key: Any, value: Any, number: Any) -> None:
    """Commit :func:`changes`."""
    store.commit(changes(version, key, value, number), KEYS)


V1_VALUE = ("tea", datetime.date(2024, 2, 29), 5)
V2_VALUE = ("milk", datetime.datetime(2026, 1, 1, 12), 2**40, "l")
AS: Mapping[tuple[str, str], tuple[Any, int]] = {
    ("v1", "v1"): (V1_VALUE, 11),
    ("v1", "v2"): (("tea", datetime.datetime(2024, 2, 29), 5, "m"), 11),
    ("v1", "v3"): (("of v3", 5, "tea", ["new"]), 11),
    ("v2", "v2"): (V2_VALUE, 10**20),
    ("v2", "v3"): (("l", 2**40, "milk", ["new"]), 10**20),
    ("v1 by v2", "v3"): (("m", 5, "tea", ["new"]), 11),
}
"""What values of one version are in another; ``v1 by v2``: what the code of v2 had taken up."""


def content(store: Any, version: str, key: Any) -> dict[str, Any]:
    """What the code of a version reads under a key."""
    found: dict[str, Any] = {}
    for name, spec in tables(version).items():
        table, kg = store.table(spec), KEYS[key]
        if spec.kind is StateKind.EVENT_TIMERS:
            found[name] = list(table.due(100))
            continue
        thaw = spec.value_type.thaw  # type: ignore[union-attr]
        if spec.kind is StateKind.LIST:
            found[name] = [thaw(item) for item in table.get(kg, key)]
        elif spec.kind is StateKind.MAP:
            found[name] = {k: None if v is None else thaw(v) for k, v in table.items(kg, key).items()}
        else:
            found[name] = thaw(table.get(kg, key))
    return found


def wanted(value: Any, number: Any) -> dict[str, Any]:
    """What :func:`content` has to find where every table has that value."""
    return {
        "number": number,
        "row": value,
        "list": [value, value],
        "map": {"x": value, "null": None},
        "reduced": value,
        "folded": (1, [value]),
        "timers": [TIMER],
    }


def files_of(folder: Path) -> tuple[dict[str, Path], str]:
    """A kept snapshot, to be restored; its format is the folder's first word."""
    return {path.name: path for path in sorted(folder.iterdir())}, folder.name.partition("-")[0]


def stores(backend: Any, folder: Path) -> Iterator[Any]:
    """Empty stores of a backend, as many as one asks for."""
    factory = loader.create_store_factory(
        StateBackendSettings(type=backend, managed_memory_bytes=8 * MIB), folder / "factory"
    )
    opened: list[Any] = []
    try:
        while True:
            place = folder / str(len(opened))
            place.mkdir()
            opened.append(factory.create(0, ALL, place))
            yield opened[-1]
    finally:
        for store in opened:
            store.close()
        factory.close()


def keep(store: Any, in_canonical: bool, scratch: Path, target: Path) -> None:
    """Write a snapshot of a store into a new folder."""
    scratch.mkdir()
    target.mkdir(parents=True)
    taken = store.prepare_snapshot(1, scratch, in_canonical)
    for file in taken.files():
        (target / file.name).write_bytes(file.path.read_bytes())
    taken.release()


def main(version: str, target: Path, before: Path | None = None) -> None:
    """Make the files of a version."""
    with tempfile.TemporaryDirectory() as scratch:
        for backend in ("rocksdb",) if before else ("rocksdb", "hashmap"):
            folder = Path(scratch) / backend
            (folder / "factory").mkdir(parents=True)
            opened = stores(backend, folder)
            store = next(opened)
            if before is None:
                fill(store, "v1", 7, V1_VALUE, 11)
                fill(store, "v1", None, V1_VALUE, 11)
            else:
                store.restore(*files_of(before / "rocksdb"))
                fill(store, "v2", -1, V2_VALUE, 10**20)
            keep(store, True, folder / "c", target / f"canonical-of-{backend}")
            if backend == "rocksdb":
                keep(store, False, folder / "n", target / "rocksdb")
            opened.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
