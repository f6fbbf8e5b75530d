from __future__ import annotations

import pytest
from support.storage.checkpoints import inline_shard, metadata, take
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore, KnownFiles
from sparkstate.checkpoint import metadata as codec
from sparkstate.log import LineageLog, records
from sparkstate.storage import PrefixedStore


@pytest.fixture
def store(root):
    return HookedStore(PrefixedStore(root, "0123456789abcdef"))


def driver(store, retained=1, attempt=1):
    log = LineageLog(store, ManualClock()).claim(attempt, "me")
    log.begin_incarnation("")
    return log, CompletedCheckpointStore(store, log, retained)


def data_keys(store):
    return {info.key for info in store.list("") if not info.key.startswith("log/")}


SST = {"1.sst": b"one" * 50, "OPTIONS": b"o" * 30}


def test_a_checkpoint_is_complete_with_its_record_and_not_before(store, tmp_path):
    _log, checkpoints = driver(store)
    taken = take(store, tmp_path, {0: SST}, checkpoint_id=1)

    def cut(operation, key):
        if key.startswith("log/"):
            raise errors.StorageUnavailable("cut")

    store.before = cut
    with pytest.raises(errors.StorageUnavailable):
        checkpoints.commit(taken)
    store.heal()
    assert driver(store)[1].latest() is None


def test_the_latest_is_what_was_committed_also_for_another_process(store, tmp_path):
    _, checkpoints = driver(store, retained=3)
    for number in (1, 2):
        checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=number))
    other = CompletedCheckpointStore(store, LineageLog(store, ManualClock()))
    assert other.latest().metadata == checkpoints.latest().metadata
    assert other.latest().metadata.checkpoint_id == 2
    assert [done.record.checkpoint_id for done in other.completed()] == [1, 2]


@pytest.mark.parametrize("stored", [True, False])
def test_a_commit_whose_answer_was_lost_happens_once_when_repeated(store, tmp_path, stored):
    log, checkpoints = driver(store)
    taken = take(store, tmp_path, {0: SST}, checkpoint_id=1)
    for lost in ("chk-1/_metadata", "log/000000000003"):

        def cut(operation, key, lost=lost):
            if key == lost and operation == "put_if_absent":
                store.heal()
                raise errors.StorageUnavailable("cut")

        store.before, store.after = (store.before, cut) if stored else (cut, store.after)
        with pytest.raises(errors.StorageUnavailable):
            checkpoints.commit(taken)
    checkpoints.commit(taken)
    checkpoints.commit(taken)
    assert [c.checkpoint_id for c in log.refresh().checkpoints] == [1]
    assert log.state.last_number == 3


def test_an_open_commit_that_took_place_is_not_discarded(store, tmp_path):
    _log, checkpoints = driver(store)

    def cut(operation, key):
        if key == "log/000000000003":
            store.heal()
            raise errors.StorageUnavailable("cut")

    taken = take(store, tmp_path, {0: SST}, checkpoint_id=1)
    store.after = cut
    with pytest.raises(errors.StorageUnavailable):
        checkpoints.commit(taken)
    before = data_keys(store)
    assert checkpoints.discard(1).checkpoints == ()
    checkpoints.subsume()
    assert data_keys(store) == before
    assert checkpoints.latest().metadata == taken


def test_an_open_commit_that_could_not_be_given_up_in_an_outage_is_settled_when_it_is_over(store, tmp_path):
    for took_place in (True, False):
        _, checkpoints = driver(store, retained=9)
        number = checkpoints.next_checkpoint_id()

        def cut(operation, key):
            if key.startswith("log/"):
                store.unplug()
                raise errors.StorageUnavailable("cut")

        taken = take(
            store, tmp_path, {0: SST}, checkpoint_id=number, incarnation=checkpoints._log.state.incarnation
        )
        store.before, store.after = (store.before, cut) if took_place else (cut, store.after)
        with pytest.raises(errors.StorageUnavailable):
            checkpoints.commit(taken)
        store.after = lambda operation, key: None
        with pytest.raises(errors.StorageUnavailable):
            checkpoints.discard(number)
        store.heal()
        checkpoints.subsume()
        assert (taken.paths() <= data_keys(store)) is took_place
        assert (number in [done.record.checkpoint_id for done in checkpoints.completed()]) is took_place


def test_an_open_commit_that_was_discarded_can_never_arrive(store, tmp_path):
    log, checkpoints = driver(store)
    late = []

    def cut(operation, key):
        if key == "log/000000000003":
            late.append(key)
            store.heal()
            raise errors.StorageUnavailable("cut")

    store.before = cut
    with pytest.raises(errors.StorageUnavailable):
        checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=1))
    checkpoints.discard(1)
    with pytest.raises(errors.AlreadyExists):
        store.put_if_absent(late[0], b"the delayed write")
    assert data_keys(store) == set()
    assert log.refresh().checkpoints == ()


def test_a_discarded_checkpoint_leaves_nothing_and_its_number_is_not_used_again(store, tmp_path):
    _, checkpoints = driver(store)
    take(store, tmp_path, {0: SST}, checkpoint_id=5)
    checkpoints.discard(5)
    assert data_keys(store) == set()
    assert driver(store, attempt=2)[1].next_checkpoint_id() == 6


def test_the_number_of_an_orphan_that_was_swept_is_not_used_again(store, tmp_path):
    """A driver that was fenced in its sweep, after the tombstone, deletes chk-7/_metadata whenever it wakes up."""
    driver(store)
    orphan = take(store, tmp_path, {0: SST}, checkpoint_id=7)
    store.put_if_absent("chk-7/_metadata", codec.encode(orphan))
    asleep = []

    def sleep_before_the_delete(operation, key):
        if operation == "delete" and not asleep:
            asleep.append(key)
            raise errors.StorageUnavailable("asleep")

    _, second = driver(store, attempt=2)
    store.before = sleep_before_the_delete
    with pytest.raises(errors.StorageUnavailable):
        second.sweep()
    store.heal()
    driver(store, attempt=3)[1].sweep()
    assert data_keys(store) == set()
    log, third = driver(store, attempt=4)
    assert third.next_checkpoint_id() == 8
    assert log.refresh().last_checkpoint_id == 7


def test_the_number_of_a_dead_attempts_shared_file_may_be_used_again_and_its_files_are_others(
    store, tmp_path
):
    """So that a claim need not list all shared files, which takes ten seconds where there are a hundred thousand."""
    driver(store)
    take(store, tmp_path, {0: SST}, checkpoint_id=1)
    left = {key for key in data_keys(store) if key.startswith("shared/")}
    store.delete(data_keys(store) - left)
    listed = []

    def note(operation, key):
        if operation == "list":
            listed.append(key)

    store.before = note
    _, checkpoints = driver(store, attempt=2)
    number = checkpoints.next_checkpoint_id()
    assert number == 1 and left and not [prefix for prefix in listed if prefix.startswith("shared")]
    mine = take(store, tmp_path / "mine", {0: SST}, checkpoint_id=number, incarnation=2)
    assert not mine.paths() & left
    checkpoints.commit(mine)
    checkpoints.sweep()
    assert mine.paths() <= data_keys(store) and not left & data_keys(store)


def test_what_a_slot_uploads_after_the_discard_goes_with_the_next_retention(store, tmp_path):
    _, checkpoints = driver(store)
    take(store, tmp_path, {0: SST}, checkpoint_id=1)
    checkpoints.discard(1)
    take(store, tmp_path, {0: SST}, checkpoint_id=1)
    done = take(store, tmp_path, {0: SST}, checkpoint_id=2)
    checkpoints.commit(done)
    checkpoints.subsume()
    assert data_keys(store) == done.paths() | {"chk-2/_metadata"}


def test_only_the_newest_are_retained_and_shared_files_live_as_long_as_they_are_needed(store, tmp_path):
    _, checkpoints = driver(store, retained=2)
    known = KnownFiles()
    contents = {0: dict(SST)}
    for number in range(1, 6):
        contents[0][f"{number}.sst"] = b"%d" % number * 40
        contents[0].pop(f"{number - 2}.sst", None)
        base = known.base(number - 1)
        taken = take(store, tmp_path, contents, checkpoint_id=number, base=base)
        known.uploaded(number, taken.shards)
        checkpoints.commit(taken)
        known.complete(number)
        checkpoints.subsume()
        kept = [done.metadata for done in checkpoints.completed()]
        assert [one.checkpoint_id for one in kept] == list(range(max(1, number - 1), number + 1))
        needed = {path for one in kept for path in one.paths()}
        assert data_keys(store) == needed | {f"chk-{one.checkpoint_id}/_metadata" for one in kept}
    reused = {path for path in taken.paths() if path.startswith("shared/1-4-")}
    assert len(reused) == 1


def test_every_deletion_is_named_by_a_tombstone_before(store, tmp_path):
    _log, checkpoints = driver(store)
    buried = set()

    def watch(operation, key):
        if operation == "put_if_absent" and key.startswith("log/0"):
            record = records.decode(store.get(key), key).record
            if isinstance(record, records.Tombstone):
                buried.update(record.paths)
        if operation == "delete":
            assert key in buried

    store.after = watch
    for number in (1, 2, 3):
        checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=number))
        checkpoints.subsume()
    take(store, tmp_path, {0: SST}, checkpoint_id=4)
    checkpoints.discard(4)
    assert len(buried) > 6


def test_a_fenced_driver_commits_and_deletes_nothing(store, tmp_path):
    _log, old = driver(store)
    done = take(store, tmp_path, {0: SST}, checkpoint_id=1)
    old.commit(done)
    taken = take(store, tmp_path, {0: SST}, checkpoint_id=2)
    driver(store, attempt=2)
    before = data_keys(store)
    for act in (lambda: old.commit(taken), lambda: old.discard(2), lambda: old.discard(9)):
        with pytest.raises(errors.Fenced):
            act()
    assert before <= data_keys(store)
    assert driver(store, attempt=2)[1].latest().metadata == done


def test_a_checkpoint_of_an_older_incarnation_is_refused(store, tmp_path):
    log, checkpoints = driver(store)
    taken = take(store, tmp_path, {0: SST}, checkpoint_id=1)
    log.begin_incarnation("")
    with pytest.raises(errors.StateError, match="belongs to incarnation 1, the lineage is at 2"):
        checkpoints.commit(taken)


def test_nothing_commits_after_the_lineage_was_closed(store, tmp_path):
    log, checkpoints = driver(store)
    log.append(records.Closed(savepoint_url="s3://sp", trigger_id="t", attempt=1))
    with pytest.raises(errors.StateError, match="closed by the savepoint s3://sp"):
        checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=1))


def test_the_number_of_another_drivers_checkpoint_is_given_up(store, tmp_path):
    _, checkpoints = driver(store)
    store.put_if_absent("chk-1/_metadata", b"of a driver that was fenced meanwhile")
    assert checkpoints.next_checkpoint_id() == 2
    with pytest.raises(errors.StateError, match="written by another driver"):
        checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=1))


def test_a_reference_to_a_file_that_no_retained_checkpoint_holds_is_refused(store, tmp_path):
    _, checkpoints = driver(store)
    first = take(store, tmp_path, {0: SST}, checkpoint_id=1)
    base = {file.identity: file for file in first.shards[0].files}
    with pytest.raises(errors.StateError, match="no retained checkpoint holds"):
        checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=2, base=base))


def test_a_sweep_takes_what_older_incarnations_left_and_nothing_else(store, tmp_path):
    _, checkpoints = driver(store)
    done = take(store, tmp_path, {0: SST}, checkpoint_id=1)
    checkpoints.commit(done)
    orphan = take(store, tmp_path, {0: SST}, checkpoint_id=2)
    written_but_not_committed = metadata([inline_shard(0)], checkpoint_id=3)
    from sparkstate.checkpoint import metadata as codec

    store.put_if_absent("chk-3/_metadata", codec.encode(written_but_not_committed))
    store.put_if_absent("chk-4/_metadata", b"nobody knows whose")
    store.put_if_absent("taskowned/readme", b"not ours")
    assert checkpoints.sweep().paths == (), "the running incarnation is not touched"

    _, checkpoints = driver(store)
    mine = take(store, tmp_path, {0: SST}, checkpoint_id=5, incarnation=2)
    swept = checkpoints.sweep()
    assert set(swept.paths) == orphan.paths() | {"chk-3/_metadata"}
    assert data_keys(store) == done.paths() | mine.paths() | {
        "chk-1/_metadata",
        "chk-4/_metadata",
        "taskowned/readme",
    }


def test_a_sweep_does_not_list_the_log(store, tmp_path):
    _, checkpoints = driver(store)
    store.calls.clear()
    checkpoints.sweep()
    assert [key for operation, key in store.calls if operation == "list"] == [
        "log/_checkpoint-",
        "chk-",
        "shared/",
        "taskowned/",
    ]


def test_a_sweep_that_cannot_read_a_retained_checkpoint_deletes_nothing(store, tmp_path):
    _, checkpoints = driver(store)
    checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=1))
    take(store, tmp_path, {0: SST}, checkpoint_id=2)
    store.delete(["chk-1/_metadata"])
    before = data_keys(store)
    _, later = driver(store)
    with pytest.raises(errors.CorruptData, match="chk-1/_metadata is missing"):
        later.sweep()
    assert data_keys(store) == before


def test_metadata_that_was_exchanged_is_found_by_its_record(store, tmp_path):
    _, checkpoints = driver(store)
    checkpoints.commit(take(store, tmp_path, {0: SST}, checkpoint_id=1))
    from sparkstate.checkpoint import metadata as codec

    store.delete(["chk-1/_metadata"])
    store.put_if_absent("chk-1/_metadata", codec.encode(metadata([inline_shard(0)])))
    with pytest.raises(errors.CorruptData, match="was committed"):
        CompletedCheckpointStore(store, LineageLog(store, ManualClock())).latest()


def test_at_least_one_checkpoint_is_retained(store):
    with pytest.raises(errors.SpecInvalid, match="at least 1"):
        CompletedCheckpointStore(store, LineageLog(store, ManualClock()), 0)


def test_a_checkpoint_whose_record_may_be_there_is_open_while_the_storage_refuses_everything(store, tmp_path):
    """Its keys may be rotated between any two requests."""
    _, checkpoints = driver(store)
    taken = take(store, tmp_path, {0: SST}, checkpoint_id=1)

    def refuse(operation, key):
        raise errors.StorageRefused("AccessDenied")

    def refuse_after_the_record(operation, key):
        if operation == "put_if_absent" and key.startswith("log/"):
            store.before = refuse

    store.after = refuse_after_the_record
    for _ in range(3):
        with pytest.raises(errors.StorageUnavailable, match="AccessDenied"):
            checkpoints.commit(taken)
    store.heal()
    assert checkpoints.commit(taken).metadata == taken
    _, later = driver(store)
    assert [each.record.checkpoint_id for each in later.completed()] == [1]


def test_a_checkpoint_that_the_storage_refused_before_its_record_has_failed(store, tmp_path):
    _, checkpoints = driver(store)
    taken = take(store, tmp_path, {0: SST}, checkpoint_id=1)

    def refuse(operation, key):
        raise errors.StorageRefused("AccessDenied")

    store.before = refuse
    for _ in range(2):
        with pytest.raises(errors.StorageRefused):
            checkpoints.commit(taken)
