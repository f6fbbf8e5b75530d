"""A checkpoint folder on a volume that is full, read-only, or gone: a clear error, and what was kept stays kept."""

from __future__ import annotations

import pytest
from support.machine import volumes
from support.storage.checkpoints import CheckpointedJob
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.snapshot_parts import StoredJob
from sparkstate.log import LineageLog
from sparkstate.settings import CheckpointSettings, EntryPoint, JobSettings
from sparkstate.storage import OpenStores, open_store
from sparkstate.storage.retrying import RetryPolicy

pytestmark = pytest.mark.fault_on("a folder")
KIB = 1024
ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def volume(tmp_path):
    with volumes.mounted(tmp_path / "volume") as mounted:
        yield mounted


class Job(CheckpointedJob):
    """A lineage on a volume; ``checkpoint(n)`` stores 64 KiB, commits, and lets the one before go."""

    def contents(self, number):
        return {f"{number}.sst": bytes([number]) * 64 * KIB, "OPTIONS": b"o" * 300}

    def checkpoint(self, number):
        super().checkpoint(number)
        self.completed.subsume()

    def checkpoints(self, first, last):
        for number in range(first, last):
            self.checkpoint(number)

    def assert_restores(self, number):
        """A process that knows nothing finds that checkpoint as the newest, whole."""
        log = LineageLog(self.lineage.store, ManualClock())
        newest = CompletedCheckpointStore(self.lineage.store, log).latest()
        assert newest.record.checkpoint_id == number
        files = self.fetch(newest.metadata)
        assert files[f"{number}.sst"].read_bytes() == bytes([number]) * 64 * KIB


@pytest.fixture
def job(volume, tmp_path):
    made = Job(open_store(str(volume.path / "state"), retry=ONCE), tmp_path)
    made.checkpoint(1)
    return made


@pytest.mark.fault(
    broken="the volume of the checkpoints is full ({left} KiB are left)",
    when="while a checkpoint is stored",
    expected="StorageUnavailable, which says to free space; the one before restores; with space again the next commits",
)
@pytest.mark.parametrize("left", [0, 8, 66, 72])
def test_a_full_disk_fails_the_checkpoint_and_keeps_the_one_before(job, volume, left):
    volume.fill(leave=left * KIB)
    before = job.objects()
    with pytest.raises(errors.StorageUnavailable, match="free some space or enlarge the volume"):
        job.checkpoints(2, 9)
    newest = job.log.refresh().checkpoints[-1].checkpoint_id
    job.assert_restores(newest)
    after = job.objects()
    assert newest > 1 or before.items() <= after.items()
    assert list((volume.path / "state" / ".tmp").iterdir()) == [], "half a file was left"
    volume.free()
    job.checkpoint(20)
    job.assert_restores(20)


@pytest.mark.fault(
    broken="the checkpoint folder is not writable (a read-only volume)",
    when="while a job runs, and when the next one opens it",
    expected="StorageRefused (exit code 5) with folder and remedy; writable again, the last checkpoint restores",
)
def test_a_folder_that_is_not_writable_is_said_with_the_remedy(job, volume, tmp_path):
    volume.remount("ro")
    for action in (
        lambda: job.checkpoint(2),
        lambda: open_store(str(volume.path / "state"), check=True, retry=ONCE),
    ):
        with pytest.raises(errors.StorageRefused, match=r"volume/state.*remount the volume") as refused:
            action()
        assert not isinstance(refused.value, errors.StorageUnavailable), "waiting would not help"
        assert refused.value.exit_code == 5
    job.assert_restores(1)
    volume.remount("rw")
    job.checkpoint(3)
    job.assert_restores(3)


@pytest.mark.fault(
    broken="the checkpoint folder is gone (its volume is not mounted)",
    when="while a job runs",
    expected="StorageUnavailable, never an empty answer; back again, the last checkpoint restores",
)
def test_a_volume_that_went_away_is_no_empty_storage(job, volume):
    state, away = volume.path / "state", volume.path / "away"
    state.rename(away)
    for look in (
        job.log.refresh,
        lambda: list(job.root.list("")),
        lambda: job.checkpoint(2),
        lambda: job.root.delete(["x"]),
    ):
        with pytest.raises(errors.StorageUnavailable, match=r"is not there.*volume mounted"):
            look()
    away.rename(state)
    job.assert_restores(1)


@pytest.mark.fault(
    broken="the volume of the checkpoints is unmounted and its mount point stays ({where})",
    when="while a job runs",
    expected="StorageUnavailable for whatever is read or written, nothing lies on the disk below; mounted again, the "
    "same store goes on",
)
@pytest.mark.parametrize("where", ["the storage lies below it", "the storage is the mount point"])
def test_a_volume_that_is_unmounted_is_not_continued_on_the_disk_below(volume, tmp_path, where):
    root = volume.path / "state" if where == "the storage lies below it" else volume.path
    job = Job(open_store(str(root), retry=ONCE), tmp_path)
    job.checkpoint(1)
    with volume.unmounted():
        for act in (
            job.log.refresh,
            lambda: job.checkpoint(2),
            lambda: list(job.root.list("")),
            lambda: job.root.get("some/name"),
            lambda: job.root.head("some/name"),
            lambda: job.root.put_if_absent("some/name", b"x"),
            lambda: job.root.upload("some/name"),
            lambda: job.root.delete(["some/name"]),
        ):
            with pytest.raises(errors.StorageUnavailable, match=r"(not there|gone).*mounted"):
                act()
        assert list(volume.path.iterdir()) == []
    job.checkpoint(3)
    job.assert_restores(3)


@pytest.mark.fault(
    broken="the volume of a sink is unmounted, the sink's path is its mount point, and many other folders are opened",
    when="before the driver asks whether the place answers again",
    expected="the place stays away, nothing is written to the disk below; mounted again, it answers",
)
def test_the_store_of_a_sink_is_never_opened_again_on_the_disk_below(volume, tmp_path):
    """Opened again, it would take the bare mount point for its folder, and mark it for the slots."""
    settings = JobSettings(
        name="job",
        entry=EntryPoint(module="a.job"),
        checkpoint=CheckpointSettings(storage=f"{tmp_path}/storage"),
    )
    job = StoredJob(operators=("sum",), premises={}, sink_paths={"sum": str(volume.path)}, backend="hashmap")
    job_storage = JobStorage(claim(settings, ManualClock(), 1, "a test"), job)
    job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None)
    job_storage.leftovers.settle()
    with volume.unmounted():
        job_storage.note_away("store checkpoint 1", errors.StorageUnavailable(f"{volume.path}/x: away"))
        for day in range(2 * OpenStores.MOST):
            job_storage.open_target(f"file://{tmp_path}/savepoints/{day}")
        assert not job_storage.probe()
        assert list(volume.path.iterdir()) == []
    assert job_storage.probe()
