from __future__ import annotations

import shutil

import pytest
from support.storage.checkpoints import JOB, FolderSnapshot, metadata, take
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.checkpoint import Downloader, Savepoints, Uploader, UploadTarget, open_snapshot
from sparkstate.checkpoint.savepoint import LoggedPhase
from sparkstate.log import LineageLog, find, open_lineage
from sparkstate.storage import naming, open_store

CONTENTS = {0: {"canonical": b"state" * 500}, 1: {"canonical": b"s"}}


class Job:
    """A driver's view, with its savepoints in a storage of their own."""

    def __init__(self, root, savepoint_url, opened, attempt=1):
        self.lineage = open_lineage(root, JOB, ManualClock())
        self.log = LineageLog(self.lineage.store, ManualClock()).claim(attempt, "me")
        self.incarnation = self.log.begin_incarnation("")
        self.url = savepoint_url
        self.savepoints = Savepoints(self.lineage, self.log, opened)

    def take(self, trigger="t", folder=None, number=1):
        url = self.savepoints.begin(trigger, self.url, number, self.incarnation).url
        uploader = Uploader(self.savepoints.folder(url), inline_threshold_bytes=10)
        snapshots = {shard: FolderSnapshot(folder, files) for shard, files in CONTENTS.items()}
        shards = uploader.upload(UploadTarget.savepoint(self.incarnation, number), snapshots)
        uploader.close()
        taken = metadata(
            shards, checkpoint_id=number, incarnation=self.incarnation, kind="savepoint", trigger_id=trigger,
            lineage=self.lineage.id,
        )  # fmt: skip
        return self.savepoints.commit(url, taken), taken


@pytest.fixture
def opened(request, root):
    """Opens any URL of the storage under test."""
    if root.url.startswith("file:"):
        return lambda url: open_store(url, create=False)
    settings = request.getfixturevalue("s3").settings
    return lambda url: open_store(url, settings)


@pytest.fixture
def job(root, opened):
    root.put_if_absent("savepoints/readme", b"makes the folder")
    return Job(root, naming.join_url(root.url, "savepoints"), opened)


def contents_of(snapshot, folder):
    downloader = Downloader(snapshot.store)
    try:
        return {
            shard.shard: {
                name: path.read_bytes()
                for name, path in downloader.fetch(shard, folder / f"restored-{shard.shard}").items()
            }
            for shard in snapshot.metadata.shards
        }
    finally:
        downloader.close()


def test_a_savepoint_is_opened_by_its_folder_or_its_metadata(job, opened, tmp_path):
    committed, taken = job.take(folder=tmp_path)
    for url in (committed.url, committed.url + "/", committed.url + "/_metadata"):
        snapshot = open_snapshot(url, opened)
        assert snapshot.metadata == taken
        assert contents_of(snapshot, tmp_path) == CONTENTS
    assert committed.url.rsplit("/", 1)[1].startswith(f"savepoint-{job.lineage.short_id}-")


def test_a_savepoint_that_was_copied_elsewhere_is_whole_without_its_origin(job, root, opened, tmp_path):
    committed, taken = job.take(folder=tmp_path)
    name = committed.url.removeprefix(root.url + "/") + "/"
    for info in list(root.list(name)):
        root.put_if_absent("elsewhere/renamed/" + info.key.removeprefix(name), root.get(info.key))
    root.delete([info.key for info in root.list("") if not info.key.startswith("elsewhere/")])
    snapshot = open_snapshot(naming.join_url(root.url, "elsewhere", "renamed"), opened)
    assert snapshot.metadata == taken
    assert contents_of(snapshot, tmp_path) == CONTENTS


def test_a_folder_moved_by_hand_to_another_file_system_path_is_whole(tmp_path):
    root = open_store(f"{tmp_path}/storage")
    root.put_if_absent("savepoints/readme", b"")

    def opened(url):
        return open_store(url, create=False)

    committed, _ = Job(root, f"{tmp_path}/storage/savepoints", opened).take(folder=tmp_path)
    shutil.move(naming.local_path(committed.url), tmp_path / "my savepoint")
    shutil.rmtree(tmp_path / "storage")
    snapshot = open_snapshot(f"{tmp_path}/my savepoint", opened)
    assert contents_of(snapshot, tmp_path) == CONTENTS


def test_a_checkpoint_is_opened_by_its_url_too(job, opened, tmp_path):
    from sparkstate.checkpoint import CompletedCheckpointStore

    taken = take(job.lineage.store, tmp_path, CONTENTS, checkpoint_id=3, lineage=job.lineage.id)
    CompletedCheckpointStore(job.lineage.store, job.log).commit(taken)
    snapshot = open_snapshot(naming.join_url(job.lineage.store.url, "chk-3"), opened)
    assert contents_of(snapshot, tmp_path) == CONTENTS


def test_what_is_not_there_or_damaged_is_said(job, root, opened, tmp_path):
    with pytest.raises(errors.NotFound, match="savepoint-x"):
        open_snapshot(naming.join_url(root.url, "savepoints", "savepoint-x"), opened)
    root.put_if_absent("savepoints/bad/_metadata", b"rubbish" * 20)
    with pytest.raises(errors.CorruptData, match="bad/_metadata"):
        open_snapshot(naming.join_url(root.url, "savepoints", "bad"), opened)


def test_a_trigger_id_is_answered_from_storage_by_a_later_driver(job, root, opened, tmp_path):
    assert job.savepoints.find("t").phase is LoggedPhase.UNKNOWN
    committed, _ = job.take("t", folder=tmp_path)
    later = Job(root, job.url, opened)
    found = later.savepoints.find("t")
    assert found.phase is LoggedPhase.COMPLETED
    assert found.url == committed.url
    again = later.savepoints.begin("t", job.url, 7, later.incarnation)
    assert again == found, "the same trigger id takes no second savepoint"


def test_a_trigger_id_in_progress_is_not_begun_twice(job):
    first = job.savepoints.begin("t", job.url, 1, job.incarnation)
    second = job.savepoints.begin("t", job.url, 2, job.incarnation)
    assert first == second
    assert first.phase is LoggedPhase.IN_PROGRESS


def test_a_savepoint_that_died_with_its_driver_has_failed_and_can_be_taken_anew(job, root, opened, tmp_path):
    url = job.savepoints.begin("t", job.url, 1, job.incarnation).url
    job.savepoints.folder(url).put_if_absent("half", b"x")
    later = Job(root, job.url, opened)
    assert later.savepoints.find("t").phase is LoggedPhase.FAILED
    committed, _ = later.take("t", folder=tmp_path, number=2)
    assert committed.url != url
    assert later.savepoints.sweep() == [url]
    assert list(root.list(url.removeprefix(root.url + "/") + "/")) == []
    assert later.savepoints.find("t").url == committed.url


@pytest.mark.parametrize("folder", ["n" * 256, "n/" * 2100], ids=["name", "path"])
def test_a_savepoint_that_was_begun_where_no_disk_takes_the_name_is_swept(root, opened, tmp_path, folder):
    """An earlier version took such a request."""
    job = Job(root, f"file://{tmp_path}/{folder.rstrip('/')}", opened)
    url = job.savepoints.begin("t", job.url, 1, job.incarnation).url
    later = Job(root, job.url, opened)
    assert later.savepoints.sweep() == [url]
    assert later.log.refresh().doomed_savepoints == (), "nothing can lie there, so nothing is tried again"


def test_a_savepoint_that_was_given_up_can_not_be_committed(job):
    url = job.savepoints.begin("t", job.url, 1, job.incarnation).url
    job.savepoints.abandon(url)
    assert job.savepoints.find("t").phase is LoggedPhase.UNKNOWN
    with pytest.raises(errors.StateError, match="was given up"):
        job.savepoints.commit(url, one_shard("t"))


def one_shard(trigger):
    from support.storage.checkpoints import inline_shard

    return metadata([inline_shard(0)], kind="savepoint", trigger_id=trigger)


def test_a_commit_whose_answer_was_lost_is_found_when_repeated(root, opened, tmp_path):
    root.put_if_absent("savepoints/readme", b"")
    store = HookedStore(root)
    job = Job(store, naming.join_url(root.url, "savepoints"), opened)
    url = job.savepoints.begin("t", job.url, 1, job.incarnation).url

    def cut(operation, key):
        if operation == "put_if_absent":
            store.heal()
            raise errors.StorageUnavailable("cut")

    store.after = cut
    with pytest.raises(errors.StorageUnavailable):
        job.savepoints.commit(url, one_shard("t"))
    committed = job.savepoints.commit(url, one_shard("t"))
    assert job.savepoints.commit(url, one_shard("t")) == committed
    assert job.log.refresh().savepoints == (committed,)


def test_deleting_removes_the_folder_and_the_entry_also_without_a_driver(job, root, opened, tmp_path):
    old, _ = job.take("old", folder=tmp_path, number=1)
    new, _ = job.take("new", folder=tmp_path, number=2)
    lineage = find(root, JOB)
    offline = Savepoints(lineage, LineageLog(lineage.store, ManualClock()), opened)
    offline.delete(old.url)
    assert list(root.list(old.url.removeprefix(root.url + "/") + "/")) == []
    assert list(root.list(new.url.removeprefix(root.url + "/") + "/")) != []
    assert offline.find("old").phase is LoggedPhase.UNKNOWN
    assert job.log.check().savepoints == (new,)
    job.take("after", folder=tmp_path, number=3)


def test_the_newest_snapshot_is_not_deleted_unless_forced(job, root, tmp_path):
    committed, _ = job.take(folder=tmp_path)
    with pytest.raises(errors.StorageError, match="a restart needs it"):
        job.savepoints.delete(committed.url)
    assert job.savepoints.find("t").phase is LoggedPhase.COMPLETED
    job.savepoints.delete(committed.url, force=True)
    assert job.log.refresh().restore_point_deleted


def test_a_folder_that_the_log_does_not_know_is_not_deleted(job, root, tmp_path):
    committed, _ = job.take(folder=tmp_path)
    with pytest.raises(errors.StorageError, match=rf"not a savepoint of the lineage.*{committed.url}"):
        job.savepoints.delete(naming.join_url(root.url, "savepoints"))


def test_a_deletion_that_was_cut_is_finished_by_the_next_sweep(root, opened, tmp_path):
    root.put_if_absent("savepoints/readme", b"")
    store = HookedStore(root)

    def through(url):
        hooked = HookedStore(opened(url))
        hooked.before = store.before
        return hooked

    job = Job(store, naming.join_url(root.url, "savepoints"), through)
    committed, _ = job.take(folder=tmp_path)

    def cut(operation, key):
        if operation == "delete":
            raise errors.StorageUnavailable("cut")

    store.before = cut
    with pytest.raises(errors.StorageUnavailable):
        job.savepoints.delete(committed.url, force=True)
    store.heal()
    assert job.log.refresh().doomed_savepoints == (committed.url,)
    later = Job(store, job.url, through)
    later.savepoints.sweep()
    assert list(root.list(committed.url.removeprefix(root.url + "/") + "/")) == []
    assert later.log.refresh().doomed_savepoints == ()


def test_closing_is_idempotent_and_ends_the_attempt(job, root, opened, tmp_path):
    committed, _ = job.take(folder=tmp_path)
    job.log.close_lineage(committed)
    number = job.log.state.last_number
    job.log.close_lineage(committed)
    assert job.log.state.last_number == number
    with pytest.raises(errors.Fenced, match="stopped with the savepoint"):
        Job(root, job.url, opened, attempt=1)
    Job(root, job.url, opened, attempt=2)
