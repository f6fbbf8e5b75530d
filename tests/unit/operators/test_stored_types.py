"""State that earlier versions stored, committed with the tests: every later version must read it, with later types."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.backends import stored_enums, stored_types
from support.backends.evolving import shown
from support.backends.life import BACKENDS

from sparkstate import errors
from sparkstate.backends import canonical, loader, long_index, value_columns
from sparkstate.backends.base import NamespacedCell, StateKind, TableChanges, TableSpec
from sparkstate.backends.rocksdb import snapshots
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

FIXTURES = Path(__file__).parent / "fixtures"
V1 = ("canonical-of-hashmap", "canonical-of-rocksdb", "rocksdb")
V2 = ("canonical-of-rocksdb", "rocksdb")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def made(backend, tmp_path):
    (tmp_path / "factory").mkdir()
    opened = stored_types.stores(backend, tmp_path)
    yield opened
    opened.close()


def restored(made, backend, version, kept, tmp_path):
    """A store filled from a copy of the kept files: RocksDB links them, and tests must not change them. None where
    another backend has refused RocksDB's own files."""
    copy = shutil.copytree(FIXTURES / f"state-{version}" / kept, tmp_path / kept)
    store = next(made)
    if kept == "rocksdb" and backend != "rocksdb":
        with pytest.raises(errors.RestoreBlocked, match="format 'rocksdb'"):
            store.restore(*stored_types.files_of(copy))
        return None
    store.restore(*stored_types.files_of(copy))
    return store


def check(store, version, key, written_by):
    assert stored_types.content(store, version, key) == stored_types.wanted(
        *stored_types.AS[written_by, version]
    )


@pytest.mark.parametrize("kept", V1)
@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_state_of_the_first_format_is_read_with_its_types_and_with_later_ones(
    made, backend, kept, version, tmp_path
):
    store = restored(made, backend, "v1", kept, tmp_path)
    for key in (7, None) if store is not None else ():
        check(store, version, key, "v1")


@pytest.mark.parametrize("kept", V2)
@pytest.mark.parametrize("version", ["v2", "v3"])
def test_half_migrated_state_is_read_with_its_types_and_with_later_ones(
    made, backend, kept, version, tmp_path
):
    store = restored(made, backend, "v2", kept, tmp_path)
    if store is None:
        return
    check(store, version, -1, "v2")
    for key in (7, None):
        check(store, version, key, "v1" if version == "v2" else "v1 by v2")


@pytest.mark.parametrize("kept", V1)
@pytest.mark.parametrize("version", ["v1", "v2", "v4"])
def test_enums_of_the_first_files_are_read_with_their_constants_and_with_later_ones(
    made, backend, kept, version, tmp_path
):
    store = restored(made, backend, "enums-v1", kept, tmp_path)
    if store is None:
        return
    seven, null = stored_enums.AS["v1"][version]
    assert stored_enums.content(store, version, 7) == stored_enums.wanted(seven, "A")
    assert stored_enums.content(store, version, None) == stored_enums.wanted(null, "B")


@pytest.mark.parametrize("kept", V2)
@pytest.mark.parametrize("version", ["v2", "v3", "v4"])
def test_half_migrated_enums_are_read_with_their_constants_and_with_later_ones(
    made, backend, kept, version, tmp_path
):
    store = restored(made, backend, "enums-v2", kept, tmp_path)
    if store is None:
        return
    values = stored_enums.AS["v2"][version]
    for key, value, user_key in zip((7, None, -1), values, "ABC", strict=True):
        assert stored_enums.content(store, version, key) == stored_enums.wanted(value, user_key)


@pytest.mark.parametrize("backend", ["rocksdb"], indirect=True)
def test_files_of_one_type_stay_of_version_1_which_older_versions_read(made, backend, tmp_path):
    """Only rows of several types in a table need the version 2."""
    assert snapshots.read_meta(FIXTURES / "state-v1" / "rocksdb" / snapshots.META).version == 1
    assert snapshots.read_meta(FIXTURES / "state-v2" / "rocksdb" / snapshots.META).version == 2
    store = restored(made, backend, "v1", "rocksdb", tmp_path)
    stored_types.content(store, "v1", 7)
    stored_types.keep(store, False, tmp_path / "as-it-was", tmp_path / "kept" / "as-it-was")
    stored_types.content(store, "v2", 7)
    stored_types.keep(store, False, tmp_path / "migrating", tmp_path / "kept" / "migrating")
    found = [
        snapshots.read_meta(tmp_path / "kept" / name / snapshots.META) for name in ("as-it-was", "migrating")
    ]
    assert [meta.version for meta in found] == [1, 2]


@pytest.mark.parametrize("backend", ["rocksdb"], indirect=True)
def test_a_savepoint_of_half_migrated_state_has_all_rows_in_one_type(made, backend, tmp_path):
    store = restored(made, backend, "v2", "rocksdb", tmp_path)
    stored_types.keep(store, True, tmp_path / "scratch", tmp_path / "kept")
    again = (tmp_path / "kept" / "canonical").read_bytes()
    assert again == (FIXTURES / "state-v2" / "canonical-of-rocksdb" / "canonical").read_bytes()
    file = canonical.CanonicalFile(tmp_path / "kept" / "canonical")
    for spec in file.tables:
        if spec.value_type is not None:
            assert spec == stored_types.tables("v2")[spec.name]
    for row in file.rows():
        kind = file.tables[row.table].value_type
        if kind is not None and row.value:
            kind.thaw(kind.decode(row.value))


@pytest.mark.parametrize("backend", ["rocksdb"], indirect=True)
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param((b'"to":"digits"', b'"to":"dig1ts"'), id="cast"),
        pytest.param((b'"type":"cast"', b'"type":"caste"'), id="plan"),
        pytest.param((b'"type":"INT","plan"', b'"type":"NIL","plan"'), id="type"),
    ],
)
def test_damaged_plans_are_corrupt_data_and_never_a_wrong_value(made, backend, damage, tmp_path):
    copy = shutil.copytree(FIXTURES / "state-v2" / "rocksdb", tmp_path / "rocksdb")
    meta = copy / snapshots.META
    assert damage[0] in meta.read_bytes()
    meta.write_bytes(meta.read_bytes().replace(*damage))
    store = next(made)
    with pytest.raises(errors.CorruptData):
        store.restore(*stored_types.files_of(copy))


@pytest.mark.parametrize("backend", ["rocksdb"], indirect=True)
def test_changes_beyond_memory_are_above_half_migrated_rows_and_become_some(backend, tmp_path):
    """What is spilled has the type of now; the commit copies its bytes, and rows of before stay as they are."""
    for name in ("factory", "store", "spill"):
        (tmp_path / name).mkdir()
    memory = StateBackendSettings(type=backend, managed_memory_bytes=8 * MIB)
    factory = loader.create_store_factory(memory, tmp_path / "factory")
    store = factory.create(0, stored_types.ALL, tmp_path / "store")
    copy = shutil.copytree(FIXTURES / "state-v1" / "rocksdb", tmp_path / "rocksdb")
    try:
        store.restore(*stored_types.files_of(copy))
        check(store, "v2", 7, "v1")
        spill = factory.create_spill({0: store}, [0] * 16, tmp_path / "spill")
        spill.add(stored_types.changes("v2", -1, *stored_types.AS["v2", "v2"]), stored_types.KEYS)
        spec = stored_types.tables("v2")["row"]
        assert spill.table(spec).get_many([15, 7], [-1, 7]) == [
            stored_types.V2_VALUE,
            stored_types.AS["v1", "v2"][0],
        ]
        spill.commit()
        spill.close()
        check(store, "v2", -1, "v2")
        check(store, "v2", 7, "v1")
        check(store, "v3", -1, "v2")
        check(store, "v3", 7, "v1 by v2")
    finally:
        store.close()
        factory.close()


@pytest.mark.parametrize("now", ["LONG", "DOUBLE", "BIG_INT"])
@pytest.mark.parametrize("in_canonical", [False, True], ids=["checkpoint", "savepoint"])
def test_columns_of_numbers_are_read_and_written_in_the_new_type(made, backend, tmp_path, in_canonical, now):
    """What functions on batches write goes to the stores as columns, by key and by key and namespace."""
    keys, groups = np.array([5, -3, 9]), np.array([1, 2, 3], np.int32)
    pairs = long_index.pairs(keys, np.array([1, 1, 2]))
    there = np.array([True, True, False])

    def spec(kind):
        return TableSpec("op", "number", StateKind.VALUE, Types.LONG(), kind)

    def columns(spec, keys, values):
        written = ValueColumns(keys, groups, np.array(values), there)
        return TableChanges(spec, **{"columns" if keys.dtype.names is None else "pairs": written})

    store, before, declared = next(made), spec(Types.INT()), spec(getattr(Types, now)())
    store.commit([columns(before, keys, np.array([2**31 - 1, -5, 0], np.int32))], {})
    store.commit([columns(before, pairs, np.array([7, 8, 0], np.int32))], {})
    scratch, target = tmp_path / "scratch", tmp_path / "kept" / ("canonical" if in_canonical else backend)
    stored_types.keep(store, in_canonical or backend == "hashmap", scratch, target)
    fmt = "rocksdb" if (backend, in_canonical) == ("rocksdb", False) else "canonical"
    store = next(made)
    store.restore({path.name: path for path in target.iterdir()}, fmt)
    table = store.table(declared)
    wanted = [[2**31 - 1, -5, None], [7, 8, None]]
    for cells, found in zip(
        (keys.tolist(), [NamespacedCell(*pair) for pair in pairs.tolist()]), wanted, strict=True
    ):
        assert shown(table.get_many(groups.tolist(), cells)) == shown(
            [None if value is None else declared.value_type.normalize(value) for value in found]
        )
    if not declared.is_columnar:
        return
    for places, found in ((keys, wanted[0]), (pairs, wanted[1])):
        values, present = table.get_columns(groups, places)
        assert (values[:2].tolist(), present.tolist()) == (found[:2], there.tolist())
        assert values.dtype == value_columns.dtype_of(declared.value_type)
        store.commit([columns(declared, places, values + 1)], {})
        values, present = table.get_columns(groups, places)
        assert values[:2].tolist() == [number + 1 for number in found[:2]]
