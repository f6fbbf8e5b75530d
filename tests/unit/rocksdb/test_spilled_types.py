"""Overlays on disk above rows of an earlier type that expire: the commit gives what was spilled stamp and schema id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkstate.backends import loader
from sparkstate.backends.base import ListChange, MapChange, StateKind, TableChanges, TableSpec
from sparkstate.backends.expiring import SweepPace
from sparkstate.backends.hashmap.store import HashMapShardStore
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.expiring import ExpiringType, Times, TimeToLive
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

ALL_GROUPS = KeyGroupRange(0, 127)
KGS = {"old": 3, "both": 77, "new": 127}
BEFORE, NOW = ExpiringType(Types.INT(), TimeToLive(100)), ExpiringType(Types.DOUBLE(), TimeToLive(200))


def specs(kind: Any) -> tuple[TableSpec, TableSpec, TableSpec]:
    text = Types.STRING()
    return (
        TableSpec("op", "value", StateKind.VALUE, text, kind),
        TableSpec("op", "list", StateKind.LIST, text, kind),
        TableSpec("op", "map", StateKind.MAP, text, kind, Types.LONG()),
    )


def changes(kind: Any, keys: list[str], stamp: int, amount: Any) -> list[TableChanges]:
    value, listed, mapped = specs(kind)
    stored = (stamp, amount)
    return [
        TableChanges(value, values=dict.fromkeys(keys, stored)),
        TableChanges(listed, lists={key: ListChange(items=[stored]) for key in keys}),
        TableChanges(
            mapped, maps={key: MapChange(entries={stamp: stored, 0: (stamp, None)}) for key in keys}
        ),
    ]


def content(of: Any) -> dict[str, Any]:
    value, listed, mapped = (of.table(spec) for spec in specs(NOW))
    return {key: (value.get(kg, key), listed.get(kg, key), mapped.items(kg, key)) for key, kg in KGS.items()}


@pytest.mark.parametrize("is_spilled", [True, False])
def test_what_was_spilled_and_what_was_not_are_rows_of_one_table(tmp_path: Path, is_spilled: bool) -> None:
    settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=8 * MIB)
    factory: Any = loader.create_store_factory(settings, tmp_path / "factory")
    store = factory.create(0, ALL_GROUPS, tmp_path / "store")
    store.commit(changes(BEFORE, ["old", "both"], 10, 1), KGS)
    for spec in specs(NOW):
        store.adopt(spec, Times(50, 0))
        store.table(spec)
    wanted = {
        "old": ((10, 1.0), [(10, 1.0)], {10: (10, 1.0), 0: (10, None)}),
        "both": ((60, 2.5), [(10, 1.0), (60, 2.5)], {10: (10, 1.0), 60: (60, 2.5), 0: (60, None)}),
        "new": ((60, 2.5), [(60, 2.5)], {60: (60, 2.5), 0: (60, None)}),
    }
    if is_spilled:
        spill = factory.create_spill({0: store}, [0] * 128, tmp_path / "spill")
        spill.add(changes(NOW, ["both", "new"], 60, 2.5), KGS)
        assert content(spill) == wanted
        spill.commit()
        spill.close()
    else:
        store.commit(changes(NOW, ["both", "new"], 60, 2.5), KGS)
    assert content(store) == wanted
    for spec in specs(NOW):
        store.expire(spec, 10, SweepPace(1.0, 100, 100))
    wanted = {
        "old": (None, [], {}),
        "both": ((60, 2.5), [(60, 2.5)], {60: (60, 2.5), 0: (60, None)}),
        "new": wanted["new"],
    }
    assert content(store) == wanted
    (tmp_path / "taken").mkdir()
    taken = store.prepare_snapshot(1, tmp_path / "taken", True)
    other = HashMapShardStore(0, ALL_GROUPS)
    other.restore({file.name: file.path for file in taken.files()}, taken.format)
    taken.release()
    assert content(other) == wanted
    store.close()
    factory.close()
