"""What happens when something is not as it should be: forks, closing, stalls, full and damaged disks, huge
values."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import rocksdict
from support.backends import cells
from support.backends.cells import LISTS, MAPS, VALUES, commit, group_of

from sparkstate import errors
from sparkstate.backends.base import MapChange, StateKind, TableChanges, TableSpec
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.backends.rocksdb import failures, store
from sparkstate.backends.rocksdb.database import Database
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types


def test_a_closed_store_lets_go_of_its_directory(slot):
    folder = slot.folder()
    first = slot.factory.create(0, KeyGroupRange(0, 127), folder)
    commit(first, cells.values({1: 1}), cells.appended(1, "a"))
    first.table(LISTS).get(group_of(1), 1)
    list(first.table(VALUES).get_many([1], [1]))
    pending = first.prepare_snapshot(1, slot.folder(), canonical=True)
    first.close()
    pending.release()
    # RocksDB's lock would refuse a second owner within this process.
    names = rocksdict.Rdict.list_cf(str(folder / "db"), rocksdict.Options(raw_mode=True))
    options = rocksdict.Options(raw_mode=True)
    again = rocksdict.Rdict(str(folder / "db"), options, column_families=dict.fromkeys(names, options))
    again.close()


def test_closing_twice_is_no_error_and_use_afterwards_is_one(slot):
    closed = slot.store()
    commit(closed, cells.values({1: 1}))
    table = closed.table(VALUES)
    closed.close()
    closed.close()
    with pytest.raises(errors.StateError, match="closed"):
        table.get(1, 1)
    with pytest.raises(errors.StateError, match="closed"):
        commit(closed, cells.values({1: 2}))


def test_the_factory_closes_what_is_still_open(slot):
    left_open = slot.store()
    commit(left_open, cells.values({1: 1}))
    slot.factory.close()
    with pytest.raises(errors.StateError, match="closed"):
        commit(left_open, cells.values({1: 2}))


def test_a_fork_may_not_use_its_parents_store(slot):
    parent = slot.store()
    commit(parent, cells.values({1: 1}))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            commit(parent, cells.values({1: 2}))
            os.write(writing, b"no error")
        except errors.StateError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    assert b"does not survive a fork" in os.read(reading, 1000)
    os.close(reading)
    commit(parent, cells.values({1: 3}))
    assert parent.table(VALUES).get(group_of(1), 1) == 3


def stall(stalled, keys=1):
    """Let RocksDB refuse writes until someone compacts: at two files of level 0, which nothing compacts."""
    for number in range(2):
        commit(stalled, cells.values({key: key * 7919 + number for key in range(1, 1 + keys)}))
        stalled.database().flush()
        for family in stalled.database().families().values():
            family.rdict.set_options(
                {
                    "level0_file_num_compaction_trigger": "100",
                    "level0_slowdown_writes_trigger": "2",
                    "level0_stop_writes_trigger": "2",
                }
            )
    stopped = [
        family.rdict.property_int_value("rocksdb.is-write-stopped")
        for family in stalled.database().families().values()
    ]
    assert stopped and all(stopped)


def test_a_stalled_write_waits_outside_rocksdb_and_then_gives_up(slot, clock):
    stalled = slot.store()
    stall(stalled)
    with pytest.raises(errors.StorageError, match="writing the state in"):
        commit(stalled, cells.values({1: 99}))
    # All the waiting was done by the clock, where the interpreter is free, with growing pauses.
    assert 300 < sum(clock.slept) < 310
    assert clock.slept[:3] == [0.001, 0.002, 0.004]
    assert max(clock.slept) == 0.5


def test_a_stalled_write_goes_on_when_rocksdb_is_ready(slot, clock):
    stalled = slot.store()
    stall(stalled)
    naps = []

    def compact_at_the_third_nap(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            for family in stalled.database().families().values():
                family.rdict.compact_range(None, None)

    clock.sleep = compact_at_the_third_nap
    commit(stalled, cells.values({1: 99}))
    assert len(naps) == 3
    assert stalled.table(VALUES).get(group_of(1), 1) == 99


def test_a_stalled_write_waits_as_long_as_rocksdb_makes_room(slot, clock, monkeypatch):
    """A compaction of a large state takes longer than any limit, and is no reason to restart the job."""
    plain = Database._make_options

    def slow(database, families):
        options = plain(database, families)
        options.set_ratelimiter(256 * 1024, 100_000, 10)
        return options

    monkeypatch.setattr(Database, "_make_options", slow)
    stalled = slot.store()
    stall(stalled, keys=15_000)
    nap = clock.sleep
    clock.sleep = lambda seconds: nap(10.0)  # the compaction takes half a second: hours, by this clock
    compactions = [
        threading.Thread(target=family.compact) for family in stalled.database().families().values()
    ]
    for compaction in compactions:
        compaction.start()
    begun = time.monotonic()
    while not stalled.database()._makes_room():
        assert time.monotonic() < begun + 60, "no compaction has begun"
        time.sleep(0.001)
    commit(stalled, cells.values({1: 99}))
    for compaction in compactions:
        compaction.join()
    assert sum(clock.slept) > 900
    assert stalled.table(VALUES).get(group_of(1), 1) == 99


def test_a_write_that_failed_half_way_ends_the_use_of_the_store(slot):
    broken = slot.store()
    commit(broken, cells.values({1: 1}))
    database = broken.database()

    class Refusing:
        def write(self, batch, options):
            raise Exception("IO error: No space left on device: While appending to file: 000042.sst")

    real, database._db = database._db, Refusing()
    try:
        with pytest.raises(errors.StorageError, match="disk or quota is full"):
            commit(broken, cells.values({1: 2}))
    finally:
        database._db = real
    with pytest.raises(errors.StorageError, match="not used any more"):
        commit(broken, cells.values({1: 3}))
    with pytest.raises(errors.StorageError, match="not used any more"):
        broken.prepare_snapshot(1, slot.folder(), canonical=False)


def test_a_real_refusal_of_the_operating_system_names_path_and_remedy(tmp_path):
    """In a process that may not write files beyond 64 KiB: what a quota does, by the kernel itself."""
    script = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        from support.backends import cells
        from sparkstate import errors
        from sparkstate.backends.loader import create_store_factory
        from sparkstate.keygroups import KeyGroupRange
        from sparkstate.settings import StateBackendSettings

        folder = Path(sys.argv[1])
        factory = create_store_factory(StateBackendSettings(type="rocksdb"), folder)
        store = factory.create(0, KeyGroupRange(0, 127), folder / "0")
        cells.commit(store, cells.values({1: 1}))
        (folder / "snapshot").mkdir()
        store.prepare_snapshot(1, folder / "snapshot", False)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        cells.commit(store, cells.values({key: key * 7919 for key in range(60000)}))
        (folder / "second").mkdir()
        try:
            store.prepare_snapshot(2, folder / "second", False)
        except errors.StorageError as error:
            print(error)
        factory.close()
        print("closed")
    """)
    tests = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": tests}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    message, closed = done.stdout.strip().splitlines()
    assert message.startswith(f"flushing the state in {tmp_path}/0/db failed, its disk or quota is full")
    assert "larger working volume" in message
    assert closed == "closed"


def test_a_damaged_file_is_corrupt_data(slot):
    healthy = slot.store()
    commit(healthy, cells.values({key: key for key in range(1000)}))
    snapshot = healthy.prepare_snapshot(1, slot.folder(), canonical=False)
    files = {}
    for file in snapshot.files():
        copy = slot.directory / f"copy-{file.name}"
        data = bytearray(file.path.read_bytes())
        if file.name.startswith("MANIFEST"):
            data[len(data) // 2] ^= 0xFF
        copy.write_bytes(data)
        files[file.name] = copy
    with pytest.raises(errors.CorruptData, match="damaged"):
        slot.store().restore(files, snapshot.format)


def test_a_directory_that_cannot_be_made_is_a_storage_error(slot):
    blocked = slot.directory / "file"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("not a directory")
    with pytest.raises(errors.StorageError, match="Check that the directory exists"):
        commit(slot.factory.create(0, KeyGroupRange(0, 127), blocked), cells.values({1: 1}))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("IO error: No space left on device: While appending", errors.StorageError),
        ("IO error: While open a file: Permission denied", errors.StorageError),
        ("Corruption: block checksum mismatch", errors.CorruptData),
    ],
)
def test_rocksdbs_words_stay_in_the_message(status, kind, tmp_path):
    found = failures.translate(Exception(status), tmp_path, "flushing")
    assert type(found) is kind
    assert status in str(found)
    assert str(tmp_path) in str(found)


def limited(slot, limit, monkeypatch):
    monkeypatch.setattr(slot.factory, "_store_options", lambda: _options(limit))
    return slot.store()


def _options(limit):
    return store.StoreOptions(
        write_batch_bytes=0, timer_cache_size=128, heap_timers=False, incremental=True, row_limit=limit
    )


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.LIST, StateKind.MAP])
def test_a_row_beyond_the_limit_is_refused_when_written_and_nothing_is_changed(slot, monkeypatch, kind):
    small = limited(slot, 64, monkeypatch)
    spec = TableSpec("op", "big", kind, Types.LONG(), Types.STRING(), Types.STRING())
    change = TableChanges(spec)
    if kind is StateKind.VALUE:
        change.values[7] = "x" * 100
    elif kind is StateKind.LIST:
        change.lists[7] = cells.ListChange(items=["short", "x" * 100])
    else:
        change.maps[7] = MapChange(entries={"short": "y", "long": "x" * 100})
    with pytest.raises(errors.StateError, match="state 'big' of operator 'op', key 7"):
        commit(small, cells.values({1: 1}), change)
    assert small.table(VALUES).get(group_of(1), 1) is None


def test_a_list_of_any_size_is_no_row(slot, monkeypatch):
    small = limited(slot, 64, monkeypatch)
    for _ in range(10):
        commit(small, cells.appended(1, *["x" * 40] * 10))
    assert len(small.table(LISTS).get(group_of(1), 1)) == 100


def test_a_large_commit_is_written_in_small_batches(make_slot):
    slot = make_slot(options={"write-batch-size": "1kb"})
    batched = slot.store()
    commit(batched, cells.values({key: key for key in range(500)}), cells.mapped(1, {"x": 5, "y" * 3000: 6}))
    assert batched.table(VALUES).get_many([group_of(key) for key in range(500)], range(500)) == list(
        range(500)
    )
    assert batched.table(MAPS).items(group_of(1), 1) == {"x": 5, "y" * 3000: 6}


def test_a_savepoint_of_another_backend_with_a_value_beyond_the_limit_is_refused(slot, monkeypatch):
    """It could be written, and never be read again."""
    hashed = HashMapStoreFactory().create(0, KeyGroupRange(0, 127), slot.folder())
    spec = TableSpec("op", "big", StateKind.VALUE, Types.LONG(), Types.STRING())
    hashed.commit([TableChanges(spec, values={7: "x" * 100})], {7: group_of(7)})
    taken = hashed.prepare_snapshot(1, slot.folder(), True)
    files = {file.name: file.path for file in taken.files()}
    with pytest.raises(
        errors.StateError, match=r"state 'big' of operator 'op'.* has 103 bytes; RocksDB holds 64"
    ):
        limited(slot, 64, monkeypatch).restore(files, taken.format)
