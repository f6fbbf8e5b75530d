"""What only the hash map store promises: asynchronous snapshots, and no growth by keys that are gone."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.backends.base import (
    DELETED,
    TIMER_KINDS,
    ListChange,
    MapChange,
    StateKind,
    TableChanges,
    TableSpec,
)
from sparkstate.backends.hashmap.store import HashMapShardStore
from sparkstate.conformance import kit as conformance
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types

ALL = KeyGroupRange(0, 127)
VALUES = TableSpec("op", "v", StateKind.VALUE, Types.LONG(), Types.LONG())
LISTS = TableSpec("op", "l", StateKind.LIST, Types.LONG(), Types.LONG())
MAPS = TableSpec("op", "m", StateKind.MAP, Types.LONG(), Types.LONG(), Types.LONG())


def test_a_snapshot_written_by_another_thread_beside_commits_holds_its_own_moment(tmp_path):
    store = HashMapShardStore(0, ALL)
    keys = range(2000)
    kgs = {key: key % 128 for key in keys}

    def commit(number):
        changes = [
            TableChanges(VALUES, values=dict.fromkeys(keys, number)),
            TableChanges(LISTS, lists={key: ListChange(items=[number]) for key in keys}),
            TableChanges(MAPS, maps={key: MapChange(entries={number: number}) for key in keys}),
        ]
        store.commit(changes, kgs)

    commit(0)
    taken = store.prepare_snapshot(1, tmp_path, False)
    files = []
    writer = threading.Thread(target=lambda: files.extend(taken.files()))
    writer.start()
    commit(1)
    commit(2)
    writer.join()
    restored = HashMapShardStore(0, ALL)
    restored.restore({file.name: file.path for file in files}, taken.format)
    taken.release()
    commit(3)
    assert restored.table(VALUES).get_many([], keys) == [0] * 2000
    assert all(restored.table(LISTS).get(0, key) == [0] for key in keys)
    assert all(restored.table(MAPS).items(0, key) == {0: 0} for key in keys)
    assert all(store.table(LISTS).get(0, key) == [0, 1, 2, 3] for key in keys)
    assert store.table(MAPS).items(0, 7) == {n: n for n in range(4)}
    assert not (tmp_path / "canonical").exists()


def test_keys_that_lost_all_state_are_forgotten():
    store = HashMapShardStore(0, ALL)
    for start in range(0, 20_000, 2000):
        kgs = dict.fromkeys(range(start, start + 2000), 5)
        store.commit([TableChanges(VALUES, values=dict.fromkeys(kgs, 1))], kgs)
        store.commit([TableChanges(VALUES, values=dict.fromkeys(kgs, DELETED))], kgs)
    assert store.stats().rows == 0
    assert len(store._key_groups["op"].by_key) < 5000


def test_a_native_snapshot_of_another_backend_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(errors.RestoreBlocked, match=r"'rocksdb'; the hashmap backend restores.*savepoint"):
        HashMapShardStore(3, ALL).restore({"CURRENT": tmp_path / "CURRENT"}, "rocksdb")


def test_equal_state_gives_equal_files_whatever_the_order_it_was_written_in(tmp_path):
    files = []
    for number, keys in enumerate((range(100), reversed(range(100)))):
        store = HashMapShardStore(0, ALL)
        for key in keys:
            store.commit([TableChanges(VALUES, values={key: key})], {key: key % 7})
        directory = tmp_path / str(number)
        directory.mkdir()
        files.append(store.prepare_snapshot(1, directory, True).files()[0].path.read_bytes())
    assert files[0] == files[1]


def test_the_canonical_file_tells_its_tables_and_rows_by_key_group(tmp_path):
    store = HashMapShardStore(0, ALL)
    conformance.fill(store)
    (file,) = store.prepare_snapshot(1, tmp_path, True).files()
    read = canonical.CanonicalFile(file.path)
    assert list(read.tables) == list(conformance.TABLES)
    rows = list(read.rows())
    timed = {number for number, spec in enumerate(read.tables) if spec.kind in TIMER_KINDS}
    placed = [(row.table, row.sub if row.table in timed else row.key_group) for row in rows]
    assert placed == sorted(placed)
    some = list(read.rows(KeyGroupRange(5, 63)))
    assert some == [row for row in rows if 5 <= row.key_group <= 63]
    assert 0 < len(some) < len(rows)


def test_every_damaged_byte_of_a_canonical_file_is_noticed(tmp_path):
    store = HashMapShardStore(0, ALL)
    store.commit([TableChanges(VALUES, values={1: 2, 3: 4})], {1: 0, 3: 9})
    (file,) = store.prepare_snapshot(1, tmp_path, True).files()
    data = file.path.read_bytes()
    damaged = tmp_path / "damaged"
    for position in range(len(data)):
        turned = bytearray(data)
        turned[position] ^= 0x55
        at_version = position == len(canonical.MAGIC)
        for broken, kind in (
            (bytes(turned), errors.UnknownFormat if at_version else errors.CorruptData),
            (data[:position], errors.CorruptData),
        ):
            damaged.write_bytes(broken)
            with pytest.raises(kind, match="damaged"):
                list(canonical.CanonicalFile(damaged).rows())
    damaged.write_bytes(data + b"x")
    with pytest.raises(errors.CorruptData, match="follows the trailer"):
        list(canonical.CanonicalFile(damaged).rows())


def test_a_writer_left_by_an_exception_leaves_a_file_that_cannot_be_read(tmp_path):
    path = tmp_path / "canonical"
    with pytest.raises(KeyError), canonical.CanonicalWriter(path, [VALUES]):
        raise KeyError
    with pytest.raises(errors.CorruptData, match="cut short"):
        list(canonical.CanonicalFile(path).rows())


def test_the_hash_map_backend_needs_no_rocksdict():

    code = (
        "import sys; sys.modules['rocksdict'] = None\n"
        "from sparkstate.functions import KeyedProcessFunction\n"
        "from sparkstate.serde.types import Types\n"
        "from sparkstate.testing import KeyedProcessHarness\n"
        "class F(KeyedProcessFunction):\n"
        "    def process_element(self, value, ctx):\n"
        "        yield value\n"
        "with KeyedProcessHarness(F(), key=lambda row: row, key_type=Types.STRING()) as h:\n"
        "    h.process_element('x')\n"
        "    assert h.output() == ['x']\n"
        "assert not {'pyspark', 'boto3'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
