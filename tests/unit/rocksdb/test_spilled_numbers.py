"""Every type that fits in columns: what goes to disk and is committed has the same stored bytes as without the disk."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.backends import cells

from sparkstate.backends import base, column_cells, loader, value_columns
from sparkstate.backends.base import DELETED, NamespacedCell, StateKind, TableChanges, TableSpec
from sparkstate.backends.rocksdb import layout
from sparkstate.keygroups import KeySpace
from sparkstate.serde.packed import PackedType
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

KEY_SPACE = KeySpace(128, 2)
SHARD_OF = [KEY_SPACE.shard_of_key_group(kg) for kg in range(128)]
PACKED = PackedType(["rows", "share", "late"], [Types.LONG(), Types.DOUBLE(), Types.BOOLEAN()])
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
TYPES: dict[str, tuple[Any, list[Any]]] = {
    "BOOLEAN": (Types.BOOLEAN(), [False, True]),
    "BYTE": (Types.BYTE(), [0, -1, -128, 127, -33, 32]),
    "SHORT": (Types.SHORT(), [0, -1, -(2**15), 2**15 - 1, 200, -200]),
    "INT": (Types.INT(), [0, -1, -(2**31), 2**31 - 1, 70_000]),
    "LONG": (Types.LONG(), [0, -1, -(2**63), 2**63 - 1, 2**32, -129]),
    "DOUBLE": (Types.DOUBLE(), [0.0, -0.0, float("nan"), OTHER_NAN, float("-inf"), 5e-324, 1.5]),
    "PACKED": (PACKED, [bytes(18), b"\xff" * 18, bytes(range(18)), b"\xc2" + bytes(17), bytes(17) + b"\xc3"]),
}
KEYS = [None, 0, 1, -1, 2**63 - 1, -(2**63), *range(100, 130)]
CELLS = [
    *KEYS,
    *(NamespacedCell(key, space) for key in (None, 0, -1, 100) for space in (0, -5, 2**63 - 1, "n")),
]


class Stores:
    def __init__(self, folder: Path, spec: TableSpec) -> None:
        settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=8 * MIB)
        self.factory: Any = loader.create_store_factory(settings, folder)
        self.spec = spec
        self.stores = {
            shard: self.factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), folder / str(shard))
            for shard in range(2)
        }

    def rows(self) -> dict[int, list[tuple[bytes, bytes]]]:
        name = layout.family_name(self.spec)
        return {
            shard: list(store.database().families()[name].iterate(b""))
            for shard, store in self.stores.items()
            if store.database() is not None
        }

    def close(self) -> None:
        for store in self.stores.values():
            store.close()
        self.factory.close()


def groups(changed: dict[Any, Any]) -> dict[Any, int]:
    return {base.key_of(cell): cells.group_of(base.key_of(cell)) for cell in changed}


def as_columns(spec: TableSpec, changed: dict[Any, Any]) -> TableChanges:
    """Everything that has a place in columns is there."""
    plain = {cell: value for cell, value in changed.items() if type(cell) is int}
    pairs = {cell: value for cell, value in changed.items() if column_cells.is_pair(cell)}
    rest = {cell: value for cell, value in changed.items() if cell not in plain and cell not in pairs}
    dtype, kgs = value_columns.dtype_of(spec.value_type), groups(changed)
    return TableChanges(
        spec,
        values=rest,
        columns=column_cells.plain_columns(plain, kgs, dtype),
        pairs=column_cells.pair_columns(pairs, kgs, dtype),
    )


def steps(values: list[Any]) -> list[tuple[bool, dict[Any, Any]]]:
    """Changes, and whether they come as columns: each cell is written several times, and deleted by some."""
    found = []
    for number in range(6):
        chosen = CELLS[number % 3 :: 2] if number else CELLS
        picked = {
            cell: DELETED if (place + number) % 4 == 3 else values[(place * 7 + number) % len(values)]
            for place, cell in enumerate(chosen)
        }
        found.append((number % 3 != 1, picked))
    return found


def stored_in(side: Stores, table_of: Any) -> list[Any]:
    kgs = [cells.group_of(base.key_of(cell)) for cell in CELLS]
    return [repr(table_of(kg).get(kg, cell)) for kg, cell in zip(kgs, CELLS, strict=True)]


@pytest.mark.parametrize("rooms", [0, 3, 100], ids=["rows", "runs at first", "runs"])
@pytest.mark.parametrize("name", list(TYPES))
def test_what_was_on_disk_has_the_bytes_that_it_has_without(name: str, rooms: int, tmp_path: Path) -> None:
    declared, values = TYPES[name]
    spec = TableSpec("op", "state", StateKind.VALUE, Types.LONG(), declared)
    one, other = Stores(tmp_path / "one", spec), Stores(tmp_path / "other", spec)
    spill = one.factory.create_spill(one.stores, SHARD_OF, tmp_path / "spill")
    for number, (is_column, changed) in enumerate(steps(values)):
        spill._has_room = lambda _, number=number: number <= rooms and rooms > 0
        if number == 1:  # the first changes are committed before
            spill.commit()
            spill.close()
            spill = one.factory.create_spill(one.stores, SHARD_OF, tmp_path / "again")
            spill._has_room = lambda _: rooms > 0
        changes = as_columns(spec, changed) if is_column else TableChanges(spec, values=changed)
        spill.add([changes], groups(changed))
        for shard, store in other.stores.items():
            own = {
                cell: v
                for cell, v in changed.items()
                if SHARD_OF[groups(changed)[base.key_of(cell)]] == shard
            }
            store.commit([TableChanges(spec, values=own)], groups(own))
        table = spill.table(spec)
        wanted = stored_in(other, lambda kg: other.stores[SHARD_OF[kg]].table(spec))
        assert stored_in(one, lambda _: table) == wanted  # noqa: B023
        kgs = np.array([cells.group_of(base.key_of(cell)) for cell in CELLS], np.int32)
        assert list(map(repr, table.get_many(kgs.tolist(), CELLS))) == wanted
        for places, keys in of_columns():
            found = value_columns.to_objects(*table.get_columns(kgs[places], keys))
            assert list(map(repr, found)) == [wanted[place] for place in places]
    spill.commit()
    spill.close()
    assert one.rows() == other.rows()
    one.close()
    other.close()


def of_columns() -> list[tuple[list[int], Any]]:
    plain = [place for place, cell in enumerate(CELLS) if type(cell) is int]
    pairs = [place for place, cell in enumerate(CELLS) if column_cells.is_pair(cell)]
    return [
        (plain, np.array([CELLS[place] for place in plain], np.int64)),
        (pairs, column_cells.pairs_of([CELLS[place] for place in pairs])),
    ]
