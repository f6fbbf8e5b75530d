"""A job whose code declares its state otherwise than it is stored: refused, and the state stays usable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.backends import cells

from sparkstate import errors
from sparkstate.backends import canonical, loader
from sparkstate.backends.base import CanonicalRow
from sparkstate.backends.rocksdb import snapshots
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

ALL = KeyGroupRange(0, 127)
CHANGED = [
    pytest.param(
        "key type", replace(cells.VALUES, key_type=Types.STRING()), "key type was long", id="key-type"
    ),
    pytest.param(
        "type of the values",
        replace(cells.VALUES, value_type=Types.STRING()),
        "value type was long",
        id="value-type",
    ),
    pytest.param(
        "kind", replace(cells.LISTS, name=cells.VALUES.name), "kind was value when.* is now list", id="kind"
    ),
    pytest.param(
        "type of the map's keys",
        replace(cells.MAPS, user_key_type=Types.LONG()),
        "user key type was string",
        id="user-key-type",
    ),
]


class Stores:
    """Stores of one backend, each in a folder of its own."""

    def __init__(self, backend, folder) -> None:
        self.folder, self.count, self.open = folder, 0, []
        settings = StateBackendSettings(type=backend, managed_memory_bytes=8 * MIB)
        self.factory = loader.create_store_factory(settings, self.new_folder())

    def new_folder(self):
        self.count += 1
        path = self.folder / str(self.count)
        path.mkdir()
        return path

    def restored(self, files=None, fmt=""):
        store = self.factory.create(0, ALL, self.new_folder())
        self.open.append(store)
        if files:
            store.restore(files, fmt)
        return store

    def snapshot(self, store, *, in_canonical):
        """The files of a snapshot by name, and their format."""
        taken = store.prepare_snapshot(1, self.new_folder(), in_canonical)
        kept = self.new_folder()
        files = {file.name: (kept / file.name, file.path.read_bytes()) for file in taken.files()}
        taken.release()
        for path, data in files.values():
            path.write_bytes(data)
        return {name: path for name, (path, _) in files.items()}, taken.format

    def close(self):
        for store in self.open:
            store.close()
        self.factory.close()


@pytest.fixture(params=["hashmap", "rocksdb"])
def stores(request, tmp_path):
    made = Stores(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=[False, True], ids=["checkpoint", "savepoint"])
def snapshot(request, stores):
    store = stores.restored()
    cells.commit(store, cells.values({1: 10, 2: 20}), cells.mapped(1, {"mon": 1}))
    return stores.snapshot(store, in_canonical=request.param)


@pytest.mark.fault(
    broken="the job's code declares a state with another {what}",
    when="after a restore, when the operator opens",
    expected="StateMigrationError (exit code 3) with state, operator, types, remedy; declared as before, all is there",
)
@pytest.mark.parametrize(("what", "declared", "says"), CHANGED)
def test_a_state_that_is_declared_otherwise_is_refused_and_stays_as_it_was(
    stores, snapshot, what, declared, says
):
    store = stores.restored(*snapshot)
    with pytest.raises(errors.StateMigrationError, match=f"(?i){says}") as refused:
        store.table(declared)
    assert refused.value.exit_code == 3
    for words in (
        repr(declared.name),
        "operator 'op'",
        "declare it as it was, or give the new state another name",
    ):
        assert words in str(refused.value)
    assert store.table(cells.VALUES).get(cells.group_of(1), 1) == 10
    assert store.table(cells.MAPS).items(cells.group_of(1), 1) == {"mon": 1}


@pytest.mark.fault(
    broken="a stored value has an unknown schema id",
    when="when it is read after a restore",
    expected="UnknownFormat with type and schema id, which says to take the version that wrote it; never a wrong value",
)
def test_a_value_with_an_unknown_schema_id_is_refused(stores, tmp_path):
    key, namespace = canonical.TableCodec(cells.VALUES).cell_bytes(1)
    path = tmp_path / "canonical"
    with canonical.CanonicalWriter(path, [cells.VALUES]) as writer:
        writer.write(CanonicalRow(0, cells.group_of(1), key, namespace, b"", b"\x09\x0a"))
    with pytest.raises(errors.UnknownFormat, match=r"schema id 09.*use the sparkstate version that wrote it"):
        stores.restored({canonical.FORMAT: path}, canonical.FORMAT).table(cells.VALUES).get(
            cells.group_of(1), 1
        )


@pytest.mark.fault(
    broken="a state file in the format that any backend restores: {damage}",
    when="when a store is filled from it",
    expected="CorruptData with the file's name; never a part of the state",
)
@pytest.mark.parametrize(
    ("damage", "change"),
    [
        pytest.param("cut in the middle", lambda data: data[: len(data) // 2], id="cut"),
        pytest.param(
            "one bit changed", lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:], id="flipped"
        ),
        pytest.param("empty", lambda data: b"", id="empty"),
        pytest.param("its first bytes are another format's", lambda data: b"SQLite f" + data[8:], id="other"),
    ],
)
def test_a_damaged_canonical_file_fills_no_store(stores, damage, change):
    store = stores.restored()
    cells.commit(store, cells.values({key: key for key in range(200)}))
    files, fmt = stores.snapshot(store, in_canonical=True)
    files[canonical.FORMAT].write_bytes(change(files[canonical.FORMAT].read_bytes()))
    with pytest.raises(errors.CorruptData, match="canonical"):
        stores.restored(files, fmt)


LATER = r"format version 9.*use the sparkstate version that wrote it"


@pytest.mark.fault(
    broken="a state file in the format that any backend restores is of a later format version",
    when="when a store of an older sparkstate is filled from it",
    expected="UnknownFormat (exit code 3 for the job), which says to take the version that wrote it; not called damage",
)
def test_a_canonical_file_of_a_later_version_is_no_damage(stores, monkeypatch):
    store = stores.restored()
    cells.commit(store, cells.values({1: 10}))
    with monkeypatch.context() as later:
        later.setattr(canonical, "VERSION", 9)
        files, fmt = stores.snapshot(store, in_canonical=True)
        assert stores.restored(files, fmt).table(cells.VALUES).get(cells.group_of(1), 1) == 10
    with pytest.raises(errors.UnknownFormat, match=f"canonical.*{LATER}"):
        stores.restored(files, fmt)


@pytest.mark.fault(
    broken="RocksDB's own files are of a later format version",
    when="when a store of an older sparkstate is filled from them",
    expected="UnknownFormat (exit code 3 for the job), which says to take the version that wrote it; not called damage",
)
@pytest.mark.parametrize("stores", ["rocksdb"], indirect=True)
def test_native_files_of_a_later_version_are_no_damage(stores):
    store = stores.restored()
    cells.commit(store, cells.values({1: 10}))
    files, fmt = stores.snapshot(store, in_canonical=False)
    files[snapshots.META].write_text('{"version":9,"tables":"in another form"}')
    with pytest.raises(errors.UnknownFormat, match=f"{snapshots.META}.*{LATER}"):
        stores.restored(files, fmt)
