"""What the driver does with what is stored; its life on a broken storage is in ``tests/faults``."""

from __future__ import annotations

import gc
from pathlib import Path

import msgspec
import pytest
from support.slots.running import stored_job
from support.storage import checkpoints
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.job_storage import JobStorage
from sparkstate.handles import FileHandle
from sparkstate.settings import CheckpointSettings, EntryPoint, JobSettings
from sparkstate.spark import position
from sparkstate.storage import open_store
from sparkstate.storage.local import LocalStore


@pytest.fixture
def job_storage(tmp_path: Path) -> JobStorage:
    settings = JobSettings(
        name="job",
        entry=EntryPoint(module="a.job"),
        checkpoint=CheckpointSettings(storage=f"{tmp_path}/storage"),
    )
    return JobStorage(claim(settings, ManualClock(), 1, "a test"), stored_job(out=tmp_path / "out"))


def restored(job_storage: JobStorage, archive: position.Archive) -> RestoredSnapshot:
    data = msgspec.msgpack.encode(archive)
    handle = FileHandle(name="position", size=len(data), checksum=checkpoints.checksum(data), inline=data)
    plan = RestorePlan("checkpoint", "checkpoint 1 was found", "file:///somewhere/chk-1")
    return RestoredSnapshot(
        plan,
        checkpoints.metadata([checkpoints.inline_shard(0)], source_position=handle),
        job_storage.lineage.store,
    )


def test_a_query_goes_on_where_the_snapshots_did(job_storage: JobStorage, tmp_path: Path) -> None:
    archive = position.Archive(position.ARCHIVE_VERSION, 7, {"commits/7": b"v1\n{}"})
    job_storage.seed_position(restored(job_storage, archive), tmp_path / "query", heartbeat=False)
    assert (tmp_path / "query" / "commits" / "7").read_bytes() == b"v1\n{}"


def test_a_source_position_of_a_later_version_blocks_the_restore(
    job_storage: JobStorage, tmp_path: Path
) -> None:
    later = restored(job_storage, position.Archive(99, 7, {}))
    with pytest.raises(
        errors.RestoreBlocked, match=r"checkpoint 1 was found.*version 99.*version that wrote it"
    ):
        job_storage.seed_position(later, tmp_path / "query", heartbeat=False)
    assert not (tmp_path / "query").exists()


def test_a_driver_keeps_no_store_for_every_folder_that_it_was_ever_told(
    job_storage: JobStorage, tmp_path: Path
) -> None:
    for day in range(100):
        job_storage.open_target(f"file://{tmp_path}/{day}")
        assert list(job_storage.savepoints.folder(f"file://{tmp_path}/{day}/savepoint-a-b").list("")) == []
    gc.collect()
    ours = [one for one in gc.get_objects() if isinstance(one, LocalStore) and str(tmp_path) in one.url]
    assert len(ours) < 40


@pytest.mark.fault(
    broken="the volume of the checkpoints, or of a sink, is unmounted and its mount point stays",
    when="while the driver asks whether the storage answers again",
    expected="the place stays away, and no folder is made on the disk below, until the volume is back",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("what", ["checkpoints", "sink"])
def test_asking_whether_a_storage_is_back_makes_no_folder(tmp_path: Path, what: str) -> None:
    volume, below = tmp_path / "volume", tmp_path / "unmounted"
    settings = JobSettings(
        name="job",
        entry=EntryPoint(module="a.job"),
        checkpoint=CheckpointSettings(storage=f"{volume}/state"),
    )
    job_storage = JobStorage(claim(settings, ManualClock(), 1, "a test"), stored_job())
    sink = open_store(f"{volume}/out")
    url = job_storage.lineage.store.url if what == "checkpoints" else sink.url
    job_storage.outages.failed(url, "store checkpoint 1", errors.StorageUnavailable("away"))
    volume.rename(below)
    volume.mkdir()
    assert not job_storage.probe()
    assert list(volume.iterdir()) == []
    with pytest.raises(errors.StorageUnavailable):
        job_storage.log.check()
    volume.rmdir()
    below.rename(volume)
    assert job_storage.probe()
    job_storage.log.check()


def test_what_was_staged_for_a_checkpoint_that_failed_is_deleted(
    job_storage: JobStorage, tmp_path: Path
) -> None:
    incarnation = job_storage.log.begin_incarnation("")
    out = open_store(f"{tmp_path}/out")
    for checkpoint_id in (1, 2):
        staged = (
            f"_sparkstate_staging/{job_storage.lineage.id}/{incarnation:05d}/{checkpoint_id:09d}-000-out.json"
        )
        out.put_if_absent(staged, b"{}")
    job_storage.discard(1)
    job_storage.leftovers.settle()
    assert [info.key for info in out.list("")] == [staged]


def test_a_damaged_older_checkpoint_is_no_reason_not_to_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = JobSettings(
        name="job",
        entry=EntryPoint(module="a.job"),
        checkpoint=CheckpointSettings(storage=f"{tmp_path}/storage", retained=2),
    )
    first = JobStorage(claim(settings, ManualClock(), 1, "a test"), stored_job())
    number = first.begin_incarnation(first.restore_point(), lambda number: None)
    store = first.lineage.store
    for checkpoint_id in (1, 2):
        given = {"checkpoint_id": checkpoint_id, "incarnation": number, "lineage": first.lineage.id}
        first.completed.commit(checkpoints.take(store, tmp_path, {0: {"1.sst": b"x" * 100}}, **given))
    store.delete(["chk-1/_metadata"])
    later = JobStorage(claim(settings, ManualClock(), 2, "the next"), stored_job())
    restored = later.restore_point()
    assert restored.metadata is not None and restored.metadata.checkpoint_id == 2
    assert later.begin_incarnation(restored, lambda number: None) == number + 1
    assert (
        f"is not deleted, because a retained checkpoint is damaged: {store.url}/chk-1/_metadata"
        in caplog.text
    )
    base = {file.identity: file for file in restored.metadata.shards[0].files}
    for checkpoint_id in (3, 4):
        given = {"checkpoint_id": checkpoint_id, "incarnation": number + 1, "lineage": first.lineage.id}
        taken = checkpoints.take(
            store,
            tmp_path,
            {0: {"1.sst": b"x" * 100, f"{checkpoint_id}.sst": b"y" * 100}},
            base=base,
            **given,
        )
        later.completed.commit(taken)
        later.subsume()
    assert [record.checkpoint_id for record in later.log.refresh().checkpoints] == [3, 4]
    assert later.restore_point().metadata == taken
