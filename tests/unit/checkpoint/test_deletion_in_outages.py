"""Checkpoints that are dropped while the storage goes away: their files go with the next retention."""

from __future__ import annotations

import contextlib

import pytest
from support.storage.checkpoints import take
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore, KnownFiles
from sparkstate.checkpoint import store as module
from sparkstate.log import LineageLog
from sparkstate.storage import PrefixedStore

FILES = {"OPTIONS": b"o" * 30}


@pytest.fixture
def store(root):
    return HookedStore(PrefixedStore(root, "0123456789abcdef"))


@pytest.mark.parametrize("operation", ["put_if_absent", "delete"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(3))
def test_files_of_dropped_checkpoints_outlive_no_outage_by_more_than_a_checkpoint(
    store, tmp_path, monkeypatch, operation, moment, number
):
    monkeypatch.setattr(module, "TOMBSTONE_PATHS", 1)
    log = LineageLog(store, ManualClock()).claim(1, "me")
    log.begin_incarnation("")
    checkpoints = CompletedCheckpointStore(store, log)
    contents = {0: dict(FILES)}
    known = KnownFiles()
    for checkpoint_id in range(1, 4):
        contents[0][f"{checkpoint_id}.sst"] = b"%d" % checkpoint_id * 40
        taken = take(
            store, tmp_path, contents, checkpoint_id=checkpoint_id, base=known.base(checkpoint_id - 1)
        )
        known.uploaded(checkpoint_id, taken.shards)
        checkpoints.commit(taken)
        known.complete(checkpoint_id)
        contents[0].pop(f"{checkpoint_id}.sst")
        if checkpoint_id == 2:
            seen = []

            def cut(what, key, seen=seen):
                if what == operation and (what == "delete" or key.startswith("log/")):
                    seen.append(key)
                    if len(seen) > number:
                        raise errors.StorageUnavailable("away")

            setattr(store, moment, cut)
            with pytest.raises(errors.StorageUnavailable):
                checkpoints.subsume()
            store.heal()
        else:
            checkpoints.subsume()
    data = {info.key for info in store.list("") if not info.key.startswith("log/")}
    assert data == taken.paths() | {"chk-3/_metadata"}


def full(store):
    """A volume with no room for anything as long as files of a checkpoint take it up."""

    def refuse(operation, key):
        taken = any(
            not info.key.endswith("_metadata")
            for prefix in ("chk-", "shared/")
            for info in store.store.list(prefix)
        )
        if operation == "put_if_absent" and taken:
            raise errors.StorageUnavailable("free some space or enlarge the volume")

    return refuse


def test_a_failed_checkpoint_that_has_filled_the_volume_makes_room_for_its_tombstone(store, tmp_path):
    log = LineageLog(store, ManualClock()).claim(1, "me")
    log.begin_incarnation("")
    checkpoints = CompletedCheckpointStore(store, log)
    taken = take(store, tmp_path, {0: {**FILES, "1.sst": b"1" * 40}}, checkpoint_id=1)
    store.before = full(store)
    with pytest.raises(errors.StorageUnavailable):
        checkpoints.commit(taken)
    deleted = checkpoints.discard(1)
    assert deleted.checkpoints == (1,)
    assert {info.key for info in store.list("") if not info.key.startswith("log/")} == set()
    assert checkpoints.next_checkpoint_id() == 2


def test_files_of_a_checkpoint_whose_record_may_be_in_the_log_wait_for_the_tombstone(store, tmp_path):
    log = LineageLog(store, ManualClock()).claim(1, "me")
    log.begin_incarnation("")
    checkpoints = CompletedCheckpointStore(store, log)
    taken = take(store, tmp_path, {0: FILES}, checkpoint_id=1)

    def refuse(operation, key):
        if operation == "put_if_absent" and key.startswith("log/"):
            raise errors.StorageUnavailable("full")

    store.before = refuse
    with pytest.raises(errors.StorageUnavailable):
        checkpoints.commit(taken)
    with pytest.raises(errors.StorageUnavailable):
        checkpoints.discard(1)
    assert {info.key for info in store.list("chk-")} == taken.paths() | {"chk-1/_metadata"}


def test_a_fenced_driver_makes_room_with_its_own_files_only(store, tmp_path):
    """Its successor may use the same number. The guard's thread reads the successor's incarnation into the one state
    that all threads see."""
    log = LineageLog(store, ManualClock()).claim(1, "me")
    log.begin_incarnation("")
    sleeper = CompletedCheckpointStore(store, log)
    newer = LineageLog(store.store, ManualClock()).claim(2, "another")
    newer.begin_incarnation("")
    other = CompletedCheckpointStore(store.store, newer)
    assert other.next_checkpoint_id() == 1
    theirs = take(store.store, tmp_path, {0: {**FILES, "1.sst": b"1" * 40}}, checkpoint_id=1, incarnation=2)
    other.commit(theirs)

    def full(operation, key):
        if operation == "put_if_absent":
            with contextlib.suppress(errors.Fenced):
                log.check()
            raise errors.StorageUnavailable("No space left on device")

    store.before = full
    with pytest.raises(errors.SparkstateError):
        sleeper.discard(1)
    assert theirs.paths() <= {info.key for info in store.store.list("")}
