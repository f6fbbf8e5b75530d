"""Deleting a job's data for good, and one savepoint by its URL alone; on a folder and on a real S3 server."""

from __future__ import annotations

import pytest
from support.storage.checkpoints import JOB, FolderSnapshot, metadata
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore, Savepoints, Uploader, UploadTarget, purge
from sparkstate.log import JobName, LineageLog, find, lineage, open_lineage, records
from sparkstate.storage import naming, open_store

CONTENTS = {0: {"canonical": b"state" * 500, "1.sst": b"s" * 999}}


class Job:
    """A driver that takes checkpoints and savepoints."""

    def __init__(self, root, opened, folder, name=JOB, attempt=1, **how):
        self.root, self.opened, self.folder = root, opened, folder
        self.lineage = open_lineage(root, name, ManualClock(), attempt=attempt, **how)
        self.log = LineageLog(self.lineage.store, ManualClock()).claim(attempt, "me")
        self.incarnation = self.log.begin_incarnation("")
        self.savepoints = Savepoints(self.lineage, self.log, opened)
        self.checkpoints = CompletedCheckpointStore(self.lineage.store, self.log, 2)

    def checkpoint(self, number=1):
        shards = self._upload(self.lineage.store, UploadTarget.checkpoint(self.incarnation, number))
        self.checkpoints.commit(self._metadata(shards, number, "checkpoint"))

    def savepoint(self, trigger="t", number=9, parent=None):
        url = self.savepoints.begin(
            trigger, parent or naming.join_url(self.root.url, "savepoints"), number, self.incarnation
        ).url
        shards = self._upload(self.savepoints.folder(url), UploadTarget.savepoint(self.incarnation, number))
        self.savepoints.commit(url, self._metadata(shards, number, "savepoint", trigger_id=trigger))
        return url

    def _upload(self, store, target):
        uploader = Uploader(store, inline_threshold_bytes=10)
        try:
            return uploader.upload(
                target, {shard: FolderSnapshot(self.folder, files) for shard, files in CONTENTS.items()}
            )
        finally:
            uploader.close()

    def _metadata(self, shards, number, kind, **more):
        return metadata(
            shards,
            checkpoint_id=number,
            incarnation=self.incarnation,
            kind=kind,
            lineage=self.lineage.id,
            **more,
        )


@pytest.fixture
def opened(request, root):
    """Opens any URL of the storage under test."""
    if root.url.startswith("file:"):
        return lambda url: open_store(url, create=False)
    settings = request.getfixturevalue("s3").settings
    return lambda url: open_store(url, settings)


@pytest.fixture
def job(root, opened, tmp_path):
    root.put_if_absent("savepoints/readme", b"makes the folder")
    return Job(root, opened, tmp_path)


def test_a_savepoint_by_another_path_of_its_storage_is_refused(root, opened, tmp_path, job):
    """The log would not learn of it, and what a restart needs would be gone."""
    if not root.url.startswith("file:"):
        pytest.skip("another path is that of a symbolic link")
    url = job.savepoint()
    alias = tmp_path / "alias"
    alias.symlink_to(naming.local_path(root.url))
    other = naming.join_url(f"file://{alias}", url.removeprefix(root.url).lstrip("/"))
    before = keys(root)
    with pytest.raises(errors.StorageError, match=f"is the savepoint {url} by another path"):
        purge.delete_savepoint(other, opened, ManualClock())
    assert keys(root) == before
    assert purge.delete_savepoint(other, opened, ManualClock(), force=True)


@pytest.fixture
def copy(root, opened):
    """Makes a copy of the storage, elsewhere."""

    def make():
        found = {info.key: root.get(info.key) for info in list(root.list(""))}
        for key, data in found.items():
            root.put_if_absent(f"copy/{key}", data)
        return opened(naming.join_url(root.url, "copy"))

    return make


def originals(root):
    return {info.key for info in root.list("") if not info.key.startswith("copy/")}


def test_a_purge_of_a_copy_leaves_the_savepoints_of_the_original(root, opened, job, copy):
    url = job.savepoint()
    job.checkpoint(10)
    copied, before = copy(), originals(root)
    done = purge.purge(copied, JOB, opened, ManualClock(), "me")
    assert (done.savepoints, done.left) == ((), (url,))
    assert originals(root) == before
    assert not any(info.key.startswith("copy/shared") for info in root.list(""))


def test_a_start_on_a_copy_forgets_the_savepoints_of_the_original(root, opened, tmp_path, job, copy):
    """One of them was being taken when the copy was made, and is complete by now."""
    done = job.savepoint("first")
    begun = job.savepoints.begin("second", naming.join_url(root.url, "savepoints"), 10, job.incarnation).url
    copied = copy()
    job.savepoints.folder(begun).put_if_absent("file", b"state")
    before = originals(root)
    second = Job(copied, opened, tmp_path / "second", attempt=2)
    assert second.savepoints.sweep() == []
    assert originals(root) == before
    assert (second.log.state.all_savepoints, second.log.began_as_copy) == ((), True)
    own = second.savepoint("third", 11)
    again = Job(copied, opened, tmp_path / "third", attempt=3)
    assert again.log.state.all_savepoints == (own,), "its own stay, for it is where it was"
    assert set(job.log.refresh().all_savepoints) == {done, begun}


def keys(store, prefix=""):
    return [info.key for info in store.list(prefix)]


def data(root):
    """Everything but the log, the name pointers, and what was there before."""
    return [
        key
        for key in keys(root)
        if "/log/" not in key and not key.startswith("by-name/") and key != "savepoints/readme"
    ]


def named(job):
    """What the tombstones of the log name."""
    entries = [records.decode(job.lineage.store.get(key), key) for key in keys(job.lineage.store, "log/0")]
    return {path for e in entries if isinstance(e.record, records.Tombstone) for path in e.record.paths}


def run(root, opened, name=JOB):
    return purge.purge(root, name, opened, ManualClock(), "a purge")


def test_a_purge_deletes_checkpoints_and_savepoints_and_says_how_much(root, opened, job) -> None:
    job.checkpoint(1)
    job.checkpoint(2)
    url = job.savepoint()
    size = sum(info.size for info in job.lineage.store.list("") if not info.key.startswith("log/"))
    done = run(root, opened)
    assert data(root) == []
    assert done.lineages == (job.lineage.id,)
    assert done.savepoints == (url,)
    assert done.size_bytes == size
    assert done.files > 4


def test_what_a_purge_deletes_was_named_in_the_log_before(root, opened, job) -> None:
    job.checkpoint(1)
    gone = set(keys(job.lineage.store)) - set(keys(job.lineage.store, "log/"))
    hooked = HookedStore(root)
    unnamed = []

    def look(operation, key):
        if operation == "delete" and key.partition("/")[2] not in named(job):
            unnamed.append(key)

    hooked.before = look
    run(hooked, opened)
    assert unnamed == []
    assert {key for operation, key in hooked.calls if operation == "delete"} == {
        f"{job.lineage.id}/{key}" for key in gone
    }
    assert LineageLog(job.lineage.store, ManualClock()).refresh().restore_point_deleted


def test_a_driver_that_still_lives_is_fenced_by_a_purge(root, opened, job) -> None:
    job.checkpoint(1)
    run(root, opened)
    with pytest.raises(errors.Fenced):
        job.checkpoint(2)


def test_a_job_of_the_same_name_begins_empty_after_a_purge_and_with_its_first_attempt(
    root, opened, job, tmp_path
) -> None:
    job.checkpoint(1)
    run(root, opened)
    again = Job(root, opened, tmp_path / "again", attempt=1)
    assert again.lineage.id != job.lineage.id
    assert not again.lineage.created, "the pointer was written by the purge"
    assert again.log.state.restore_point is None
    again.checkpoint(1)


def test_lineages_that_startempty_left_behind_are_purged_as_well(root, opened, job, tmp_path) -> None:
    job.checkpoint(1)
    second = Job(root, opened, tmp_path / "second", attempt=2, start_empty=True)
    second.checkpoint(1)
    assert set(run(root, opened).lineages) == {job.lineage.id, second.lineage.id}
    assert data(root) == []


def test_a_purge_that_was_interrupted_is_finished_by_the_next(root, opened, job) -> None:
    job.checkpoint(1)
    url = job.savepoint()
    hooked = HookedStore(root)
    left = [2]

    def fail_later(operation, _):
        left[0] -= operation == "delete"
        if left[0] < 0:
            raise errors.StorageUnavailable("gone")

    hooked.before = fail_later
    with pytest.raises(errors.StorageUnavailable):
        run(hooked, opened)
    assert data(root) != []
    run(root, opened)
    assert data(root) == []
    assert url not in LineageLog(job.lineage.store, ManualClock()).refresh().doomed_savepoints


def test_a_second_purge_writes_nothing(root, opened, job) -> None:
    job.checkpoint(1)
    run(root, opened)
    before = keys(root)
    assert run(root, opened) == purge.PurgeResult((), 0, 0, ())
    assert keys(root) == before


def test_a_purge_of_an_unknown_job_writes_nothing(root, opened) -> None:
    other = JobName(cluster="c", namespace="n", name="other")
    assert run(root, opened, other) == purge.PurgeResult((), 0, 0, ())
    assert keys(root) == []


def test_other_jobs_in_the_storage_stay_as_they_are(root, opened, job, tmp_path) -> None:
    other = Job(root, opened, tmp_path / "o", JobName(cluster="local", namespace="default", name="other"))
    other.checkpoint(1)
    theirs = keys(other.lineage.store)
    job.checkpoint(1)
    run(root, opened)
    assert keys(other.lineage.store) == theirs
    assert find(root, other.lineage.job).id == other.lineage.id


# -- one savepoint ---------------------------------------------------------------------------------------------------


def delete(url, opened, **how):
    return purge.delete_savepoint(url, opened, ManualClock(), **how)


def test_a_savepoint_under_way_is_given_up_by_its_url_and_never_completed_without_its_files(
    root, opened, job
) -> None:
    url = job.savepoints.begin("t", naming.join_url(root.url, "savepoints"), 9, job.incarnation).url
    target = UploadTarget.savepoint(job.incarnation, 9)
    shards = job._upload(job.savepoints.folder(url), target)
    root.put_if_absent("by-name/of somebody else", b"")
    assert delete(url, opened)
    assert keys(root, "savepoints/") == ["savepoints/readme"]
    with pytest.raises(errors.StateError):
        job.savepoints.commit(url, job._metadata(shards, 9, "savepoint", trigger_id="t"))
    state = LineageLog(job.lineage.store, ManualClock()).refresh()
    assert (state.savepoints, state.started_savepoints) == ((), ())
    assert state.doomed_savepoints == (url,), "a slot may still send a file: the next incarnation looks again"


def test_a_savepoint_under_way_that_is_deleted_twice_is_deleted_again_by_the_next_incarnation(
    root, opened, job
) -> None:
    """The second call confirmed the deletion, and nobody looked again for what a slot had written after it."""
    url = job.savepoints.begin("t", naming.join_url(root.url, "savepoints"), 9, job.incarnation).url
    for number in range(3):
        job.savepoints.folder(url).put_if_absent(f"1-1-{number}", b"a slot goes on to write")
        assert delete(url, opened)
    assert keys(root, "savepoints/") == ["savepoints/readme"]
    assert LineageLog(job.lineage.store, ManualClock()).refresh().doomed_savepoints == (url,)
    job.savepoints.folder(url).put_if_absent("1-1-last", b"and on")
    job.savepoints.sweep()
    assert keys(root, "savepoints/") == ["savepoints/readme"]
    assert job.log.refresh().doomed_savepoints == ()


def test_a_begun_savepoint_is_deleted_where_no_log_may_be_looked_for(root, opened, job) -> None:
    """By keys for the folder of savepoints alone."""
    url = job.savepoints.begin("t", naming.join_url(root.url, "savepoints"), 9, job.incarnation).url
    job.savepoints.folder(url).put_if_absent("1-1-aa", b"1")

    class Narrow(HookedStore):
        def list(self, prefix):
            if prefix.startswith("by-name"):
                raise errors.StorageRefused("AccessDenied")
            return super().list(prefix)

    assert delete(url, lambda place: Narrow(opened(place)))
    assert keys(root, "savepoints/") == ["savepoints/readme"]


def test_a_savepoint_beside_its_lineage_is_deleted_by_its_url_and_marked_in_the_log(
    root, opened, job
) -> None:
    url = job.savepoint()
    job.checkpoint(10)
    assert delete(url, opened)
    assert keys(root, "savepoints/") == ["savepoints/readme"]
    state = LineageLog(job.lineage.store, ManualClock()).refresh()
    assert state.savepoints == ()
    assert state.doomed_savepoints == ()
    assert not delete(url, opened), "again: nothing is there"


def test_the_savepoint_that_a_restart_needs_is_refused_unless_forced(root, opened, job) -> None:
    url = job.savepoint()
    with pytest.raises(errors.StorageError, match="is the newest completed snapshot"):
        delete(url, opened)
    assert len(keys(root, "savepoints/")) > 2
    assert delete(url, opened, force=True)
    assert keys(root, "savepoints/") == ["savepoints/readme"]


def test_a_savepoint_of_a_lineage_that_startempty_replaced_is_found_by_its_url(
    root, opened, job, tmp_path
) -> None:
    url = job.savepoint()
    job.checkpoint(10)
    Job(root, opened, tmp_path / "second", attempt=2, start_empty=True)
    assert delete(url, opened)
    assert LineageLog(job.lineage.store, ManualClock()).refresh().savepoints == ()


def test_a_savepoint_that_lies_elsewhere_loses_its_metadata_first(root, opened, job) -> None:
    elsewhere = naming.join_url(root.url, "keep/deep")
    root.put_if_absent("keep/deep/readme", b"makes the folder")
    url = job.savepoint(parent=elsewhere)
    order = []

    def watching(wanted):
        hooked = HookedStore(opened(wanted))
        hooked.before = lambda operation, key: order.append(key) if operation == "delete" else None
        return hooked

    assert delete(url, watching)
    assert order[0].endswith("/_metadata")
    assert len(order) > 1
    assert keys(root, "keep/deep/") == ["keep/deep/readme"]


def test_a_damaged_savepoint_can_be_deleted(root, opened, job) -> None:
    url = job.savepoint()
    key = url.removeprefix(root.url + "/") + "/_metadata"
    root.delete([key])
    root.put_if_absent(key, b"no metadata")
    assert delete(url, opened)
    assert keys(root, "savepoints/") == ["savepoints/readme"]


@pytest.mark.parametrize("name", ["", "savepoints", "0123456789abcdef/chk-1", "savepoints/readme"])
def test_what_is_no_savepoint_s_folder_is_refused(root, opened, job, name) -> None:
    job.checkpoint(1)
    before = keys(root)
    with pytest.raises(errors.SpecInvalid, match="nothing was deleted"):
        delete(naming.join_url(root.url, name) if name else root.url, opened)
    assert keys(root) == before


def test_a_folder_that_is_gone_is_no_error(root, opened) -> None:
    root.put_if_absent("x/readme", b"")
    assert not delete(naming.join_url(root.url, "x", "savepoint-012345-0123456789abcdef"), opened)


def test_no_code_of_a_snapshot_can_run(root, opened, job, monkeypatch) -> None:
    import pickle

    import cloudpickle

    def refuse(*_):
        raise AssertionError("a snapshot was unpickled")

    url = job.savepoint()
    job.checkpoint(10)
    for module in (pickle, cloudpickle):
        monkeypatch.setattr(module, "loads", refuse)
    delete(url, opened)
    run(root, opened)
    assert lineage.all_of(root, JOB)[0].id == job.lineage.id
