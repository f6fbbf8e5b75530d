"""A whole life of a lineage, killed before and after each of its writes: nothing is lost, nothing stays
behind.
"""

from __future__ import annotations

import itertools

import pytest
from support.storage.checkpoints import JOB, FolderSnapshot, metadata, take
from support.storage.stores import Crash, HookedStore, ManualClock

from sparkstate.checkpoint import (
    CompletedCheckpointStore,
    Downloader,
    KnownFiles,
    Savepoints,
    Uploader,
    UploadTarget,
)
from sparkstate.log import LineageLog, open_lineage, records
from sparkstate.storage.local import LocalStore
from sparkstate.storage.prefixed import PrefixedStore

SAVEPOINT_URL = "savepoints"

pytestmark = pytest.mark.usefixtures("without_flushing")


class Life:
    """One driver's life; ``committed`` is what it was told to be complete, over all lives."""

    def __init__(self, store, root, folder, committed):
        self.store, self.root, self.folder, self.committed = store, root, folder, committed
        self.lineage = open_lineage(store, JOB, ManualClock())
        self.log = LineageLog(self.lineage.store, ManualClock()).claim(1, "me")
        self.incarnation = self.log.begin_incarnation("")
        self.checkpoints = CompletedCheckpointStore(self.lineage.store, self.log, retained=2)
        self.savepoints = Savepoints(self.lineage, self.log, self.open)
        self.known = KnownFiles()
        self.base = None

    def open(self, url):
        assert url.startswith(self.store.url)
        inner = url.removeprefix(self.store.url).strip("/")
        return PrefixedStore(self.store, inner) if inner else self.store

    def sweep(self):
        self.checkpoints.sweep()
        self.savepoints.sweep()

    def checkpoint(self, contents):
        number = self.checkpoints.next_checkpoint_id()
        base = self.known.base(self.base)
        taken = take(
            self.lineage.store, self.folder, contents, checkpoint_id=number, incarnation=self.incarnation,
            base=base, lineage=self.lineage.id,
        )  # fmt: skip
        self.known.uploaded(number, taken.shards)
        self.checkpoints.commit(taken)
        self.committed.append(number)
        self.known.complete(number)
        self.base = number
        self.checkpoints.subsume()

    def give_up(self, contents):
        number = self.checkpoints.next_checkpoint_id()
        take(
            self.lineage.store, self.folder, contents, checkpoint_id=number, incarnation=self.incarnation,
            lineage=self.lineage.id,
        )  # fmt: skip
        self.checkpoints.discard(number)

    def savepoint(self, trigger, contents):
        number = self.checkpoints.next_checkpoint_id()
        url = self.savepoints.begin(
            trigger, f"{self.store.url}/{SAVEPOINT_URL}", number, self.incarnation
        ).url
        uploader = Uploader(self.savepoints.folder(url), threads=1, inline_threshold_bytes=4)
        snapshots = {shard: FolderSnapshot(self.folder, files) for shard, files in contents.items()}
        shards = uploader.upload(UploadTarget.savepoint(self.incarnation, number), snapshots)
        uploader.close()
        taken = metadata(
            shards, checkpoint_id=number, incarnation=self.incarnation, kind="savepoint", trigger_id=trigger,
            lineage=self.lineage.id,
        )  # fmt: skip
        self.savepoints.commit(url, taken)
        self.committed.append(number)
        return url

    def live(self):
        self.sweep()
        self.checkpoint({0: {"1.sst": b"a" * 30, "OPTIONS": b"o" * 20}})
        self.checkpoint({0: {"1.sst": b"a" * 30, "2.sst": b"b" * 30}})
        self.give_up({0: {"3.sst": b"c" * 30}})
        gone = self.savepoint("t1", {0: {"1.sst": b"a" * 30}})
        self.checkpoint({0: {"2.sst": b"b" * 30, "3.sst": b"d" * 30}})
        self.savepoints.delete(gone)
        abandoned = self.savepoints.begin("t2", f"{self.store.url}/{SAVEPOINT_URL}", 99, self.incarnation).url
        self.savepoints.folder(abandoned).put_if_absent("half", b"x")
        self.savepoints.abandon(abandoned)
        self.checkpoint({0: {"3.sst": b"d" * 30, "4.sst": b"e" * 30}})


def next_life(store, tmp_path, committed):
    return Life(store, store, tmp_path / "snapshots", committed)


def assert_restorable_and_clean(store, life, tmp_path, committed):
    state = life.log.refresh()
    point = state.restore_point
    if committed:
        assert point is not None
        assert point.checkpoint_id >= committed[-1], "what was reported complete must not be forgotten"
    for done in life.checkpoints.completed():
        downloader = Downloader(life.lineage.store)
        for shard in done.metadata.shards:
            downloader.fetch(shard, tmp_path / "restored" / str(done.metadata.checkpoint_id))
        downloader.read(done.metadata.source_position)
        downloader.close()
    life.sweep()
    life.checkpoints.subsume()
    needed = {
        f"{life.lineage.id}/{path}"
        for done in life.checkpoints.completed()
        for path in done.metadata.paths() | {done.record.path}
    }
    folders = tuple(saved.url.removeprefix(store.url + "/") + "/" for saved in life.log.state.savepoints)
    found = {
        info.key
        for info in store.list("")
        if "/log/" not in info.key
        and not info.key.startswith("by-name/")
        and not info.key.startswith(folders)
    }
    assert found == needed


def write_count(tmp_path):
    store = HookedStore(LocalStore(str(tmp_path / "count")))
    Life(store, store, tmp_path / "snapshots", []).live()
    return sum(1 for operation, _ in store.calls if operation in {"put_if_absent", "put_file", "delete"})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_write_loses_nothing_and_leaks_nothing(tmp_path, after):
    writes = write_count(tmp_path)
    assert writes > 40
    for number in itertools.count():
        store = HookedStore(LocalStore(str(tmp_path / f"storage-{number}")))
        committed = []
        store.crash_at_write(number, after=after)
        try:
            next_life(store, tmp_path, committed).live()
        except Crash:
            pass
        else:
            break
        store.heal()
        assert_restorable_and_clean(store, next_life(store, tmp_path, committed), tmp_path, committed)
    assert number == writes


def test_two_crashes_in_a_row_lose_nothing_and_leak_nothing(tmp_path):
    """The second one during the next life's clean-up and first checkpoints."""
    for first, second in itertools.product(range(3, 45, 9), range(0, 24, 3)):
        store = HookedStore(LocalStore(str(tmp_path / f"storage-{first}-{second}")))
        committed = []
        for number in (first, second):
            store.crash_at_write(number, after=False)
            with pytest.raises(Crash):
                next_life(store, tmp_path, committed).live()
            store.heal()
        assert_restorable_and_clean(store, next_life(store, tmp_path, committed), tmp_path, committed)


def test_after_every_deletion_of_the_life_a_tombstone_names_it(tmp_path):
    store = HookedStore(LocalStore(str(tmp_path / "storage")))
    life = next_life(store, tmp_path, [])
    deleted = []
    store.after = lambda operation, key: deleted.append(key) if operation == "delete" else None
    life.live()
    store.heal()
    named, folders = set(), set()
    for info in store.list(f"{life.lineage.id}/log/0"):
        record = records.decode(store.get(info.key), info.key).record
        if isinstance(record, records.Tombstone):
            named |= {f"{life.lineage.id}/{path}" for path in record.paths}
            folders |= {url.removeprefix(store.url + "/") + "/" for url in record.savepoints}
    assert deleted
    assert all(key in named or key.startswith(tuple(folders)) for key in deleted)
