"""A volume is unmounted and its mount point stays: nobody makes a folder there, and the job goes on when it is back.

Folders are renamed, so that what lay on the volume is missing and the folder above it is there, as a bare mount point
is. Real mounts are in ``tests/faults/test_volumes.py``.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.slots import slots
from support.slots.running import Running, settings, stored_job
from support.slots.slots import Slot

from sparkstate import clock, errors
from sparkstate.control.documents import SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.savepoint_targets import Targets, may_be_made
from sparkstate.settings import S3Settings
from sparkstate.slots import protocol
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks
from sparkstate.storage import naming

pytestmark = pytest.mark.fault_on("a folder")


class Away:
    """The folder is not where it was until :meth:`back`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._kept = folder, folder.with_name(f"{folder.name}-on-its-volume")
        folder.rename(self._kept)

    def back(self) -> None:
        """Fails where somebody made a folder meanwhile."""
        assert not self._folder.exists(), list(self._folder.rglob("*"))
        self._kept.rename(self._folder)


def rows(folder: Path) -> list[int]:
    return sorted(row["total"] for path in folder.glob("part-*") for row in pq.read_table(path).to_pylist())


def next_driver(folder: Path, attempt: int = 2, known: str = "", sink: str = "out") -> JobStorage:
    told = dataclasses.replace(settings(folder), known_lineage=known)
    claimed = claim(told, clock.SystemClock(), attempt, "the next")
    return JobStorage(claimed, stored_job(sum=folder / sink))


def begin(job_storage: JobStorage, given_up: bool = True) -> None:
    job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None, lambda: given_up)
    job_storage.leftovers.settle()


@pytest.mark.fault(
    broken="the volume of the checkpoints, or of a sink, is unmounted and its mount point stays",
    when="while a job runs, before a slot stores its first checkpoint",
    expected="no folder is made; the checkpoint fails; back again, the next one has all of the output, once",
)
@pytest.mark.parametrize("what", ["storage", "out"])
def test_a_checkpoint_makes_no_folder_where_its_volume_was(
    running: Running, tmp_path: Path, what: str
) -> None:
    running.slot.epoch(0, slots.rows(("a", 1), ("b", 2)))
    away = Away(tmp_path / what)
    if what == "out":
        failed = running.start(0)
        failed.wait(lambda: False)
        assert isinstance(failed.failure, errors.StorageUnavailable)
        assert f"{tmp_path}/out" in running.job_storage.outages.away[0].url
    else:  # of the slot alone: a driver that cannot reach its log waits
        assert "is its volume mounted" in slot_snapshot(running, 99).failure
    away.back()
    running.slot.epoch(1, slots.rows(("a", 1)))
    running.start(1).settle()
    assert rows(running.out) == [1, 2, 2]


@pytest.mark.fault(
    broken="the volume of a sink is unmounted, and the sink's path is its mount point",
    when="while a job runs, before a slot stores its first checkpoint",
    expected="nothing is written to the bare folder; the checkpoint fails; back again, the next one has all output",
)
def test_a_slot_writes_nothing_to_the_mount_point_that_is_its_sink(running: Running, tmp_path: Path) -> None:
    running.slot.epoch(0, slots.rows(("a", 1), ("b", 2)))
    away = Away(tmp_path / "out")
    running.out.mkdir()
    failed = slot_snapshot(running, 99)
    assert "begun is not there; is the volume mounted" in failed.failure
    assert failed.failure_reason == "StorageUnavailable"
    assert list(running.out.iterdir()) == []
    running.out.rmdir()
    away.back()
    running.slot.epoch(1, slots.rows(("a", 1)))
    running.start(1).settle()
    assert rows(running.out) == [1, 2, 2]


def test_a_sink_that_is_emptied_while_the_job_runs_is_written_to_again(running: Running) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    shutil.rmtree(running.out / "_sparkstate_staging")
    failed = running.start(0)
    failed.wait(lambda: False)
    assert isinstance(failed.failure, errors.StorageUnavailable)
    assert running.job_storage.outages.away[0].url == running.out.as_uri()
    running.slot.epoch(1)
    running.start(1).settle()
    assert rows(running.out) == [1]


def test_a_job_that_ends_leaves_its_output_alone_in_the_folder(running: Running) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.start(0).settle()
    staging = running.out / "_sparkstate_staging" / running.job_storage.lineage.id
    assert [path.name for path in staging.rglob("*") if path.is_file()] == ["begun"]
    running.job_storage.end_outputs()
    assert not staging.exists()
    assert rows(running.out) == [1]


def slot_snapshot(running: Running, number: int) -> protocol.SnapshotState:
    """Told to the slot alone."""
    request = protocol.Snapshot(incarnation=1, checkpoint_id=number, epoch=0, base=-1)
    running.slot.client.call(request, protocol.Ok)
    poll = protocol.SnapshotPoll(checkpoint_id=number, wait_s=60.0)
    state = running.slot.client.call(poll, protocol.SnapshotState)
    running.slot.done(number, completed=False)
    return state


@pytest.mark.fault(
    broken="the volume of the checkpoints is unmounted and its mount point stays",
    when="while a slot starts, and while it is told to restore",
    expected="no folder is made; StorageUnavailable, so that it is tried again",
)
def test_a_slot_that_starts_or_restores_makes_no_folder(running: Running, tmp_path: Path) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.start(0).settle()
    newest = running.job_storage.completed.latest()
    assert newest is not None
    shards, url = newest.metadata.shards, running.job_storage.lineage.store.url
    plan = dataclasses.replace(running.slot.plan, incarnation=2)
    away = Away(tmp_path / "storage")
    with pytest.raises(errors.StorageUnavailable, match="is its volume mounted"):
        Slot(tmp_path / "late", plan)
    away.back()
    other = Slot(tmp_path / "other", plan)
    away = Away(tmp_path / "storage")
    with pytest.raises(errors.StorageUnavailable, match="is its volume mounted"):
        other.restore(*shards, url=url)
    away.back()
    other.close()


@pytest.mark.fault(
    broken="the volume of the savepoints is unmounted and its mount point stays",
    when="when another savepoint is asked for, of the same driver and of the next",
    expected="no folder is made; the request fails, the job goes on; back again, the next one is stored",
)
def test_a_savepoint_makes_no_folder_where_others_were(running: Running, tmp_path: Path) -> None:
    target = f"file://{tmp_path}/kept"
    running.slot.epoch(0, slots.rows(("a", 1)))
    assert savepoint(running, "one", target) == SavepointPhase.COMPLETED
    away = Away(tmp_path / "kept")
    assert savepoint(running, "two", target) == SavepointPhase.FAILED
    job_storage = running.job_storage
    tried = Targets(
        S3Settings(), lambda: "", made=lambda url: may_be_made(url, job_storage.root, job_storage.log.state)
    )
    tried.require(target)  # it may be back when the savepoint is taken
    late = next_driver(tmp_path)
    with pytest.raises(errors.StorageUnavailable, match="is its volume mounted"):
        named(late, "three", target)
    away.back()
    assert naming.local_path(named(late, "four", target)).is_dir()


def named(job_storage: JobStorage, name: str, target: str | None) -> str:
    """A savepoint that is begun, and has its folder."""
    number = job_storage.ids.new()
    url = job_storage.begin_savepoint(SavepointTrigger(trigger_id=name, target_directory=target), number, 1)
    job_storage.make_savepoint_folder(url, 60.0, lambda: False)
    return url


@pytest.mark.fault(
    broken="the volume of the savepoints is unmounted, and the target is its mount point",
    when="after the driver has made the savepoint's folder, before a slot writes into it",
    expected="nothing is written to the bare folder; the slot waits, and goes on when the volume is back",
)
def test_a_slot_writes_no_savepoint_to_the_mount_point_that_is_its_target(
    running: Running, tmp_path: Path
) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    url, bare = named(running.job_storage, "one", f"file://{tmp_path}/kept"), tmp_path / "kept"
    away = Away(bare)
    bare.mkdir()
    request = protocol.Snapshot(
        incarnation=1, checkpoint_id=7, epoch=0, base=-1, canonical=True, target_url=url
    )
    running.slot.client.call(request, protocol.Ok)
    poll = protocol.SnapshotPoll(checkpoint_id=7, wait_s=1.0)
    assert not running.slot.client.call(poll, protocol.SnapshotState).done
    assert list(bare.iterdir()) == []
    bare.rmdir()
    away.back()
    state = running.slot.client.call(
        protocol.SnapshotPoll(checkpoint_id=7, wait_s=60.0), protocol.SnapshotState
    )
    assert state.done and not state.failure
    assert len(list(naming.local_path(url).iterdir())) > 0


def test_a_savepoint_that_came_to_nothing_leaves_no_empty_folder(running: Running, tmp_path: Path) -> None:
    url = named(running.job_storage, "one", f"file://{tmp_path}/kept")
    running.job_storage.savepoints.abandon(url)
    assert list((tmp_path / "kept").iterdir()) == []


def test_the_default_folder_of_savepoints_is_made_again_by_the_same_driver(
    running: Running, tmp_path: Path
) -> None:
    named(running.job_storage, "one", None)
    shutil.rmtree(tmp_path / "storage" / "savepoints")
    assert naming.local_path(named(running.job_storage, "two", None)).is_dir()


def savepoint(running: Running, name: str, target: str | None = None) -> SavepointPhase:
    running.requests.add(SavepointTrigger(trigger_id=name, target_directory=target))
    running.checkpoints.after_commit(0, Watermarks(()), CapturedPosition, changed=True)
    current = running.checkpoints._current
    if current is not None:
        current.wait(lambda: False)
    found = running.requests.find(name)
    assert found is not None
    return found.status


def test_the_folder_of_savepoints_within_the_storage_is_not_made_without_the_storage(
    running: Running, tmp_path: Path
) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    away = Away(tmp_path / "storage")
    for target in (None, f"file://{tmp_path}/storage/savepoints", f"file://{tmp_path}/storage/a/b"):
        with pytest.raises(errors.StorageUnavailable, match="is its volume mounted"):
            named(running.job_storage, "s", target)
    away.back()
    assert savepoint(running, "one") == SavepointPhase.COMPLETED


@pytest.mark.fault(
    broken="the volume of a sink is unmounted and its mount point stays",
    when="when the next driver restores",
    expected="no folder is made; it waits, and an end is heard; back again, it publishes what was committed",
)
def test_a_driver_waits_for_the_folder_that_its_job_had_output_in(running: Running, tmp_path: Path) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.start(0).settle()
    running.slot.epoch(1)
    running.start(1).settle()  # without output: what it says of the sinks' folders is all that there is
    away = Away(tmp_path / "out")
    late = next_driver(tmp_path)
    with pytest.raises(errors.StorageUnavailable, match=r"out, and there was one.*make the folder"):
        begin(late)
    away.back()
    begin(late)
    assert rows(tmp_path / "out") == [1]


def test_a_sink_that_the_job_never_had_gets_its_folder(running: Running, tmp_path: Path) -> None:
    running.start(0).settle()
    begin(next_driver(tmp_path, sink="new/below"))
    assert (tmp_path / "new" / "below").is_dir()


@pytest.mark.fault(
    broken="the volume of the checkpoints is unmounted and its mount point stays ({where})",
    when="when the next driver of the same run starts",
    expected="no folder is made and nothing begins empty; StorageUnavailable; back again, the same lineage",
)
@pytest.mark.parametrize("where", ["the storage lies below it", "the storage is the mount point"])
def test_a_job_that_had_state_does_not_begin_empty_on_a_bare_disk(
    running: Running, tmp_path: Path, where: str
) -> None:
    running.start(0).settle()
    lineage = running.job_storage.lineage.id
    away, bare = Away(tmp_path / "storage"), tmp_path / "storage"
    is_root = where == "the storage is the mount point"
    if is_root:
        bare.mkdir()
    with pytest.raises(errors.StorageUnavailable, match=lineage if is_root else "there was one"):
        next_driver(tmp_path, known=lineage)
    if is_root:
        assert list(bare.iterdir()) == []
        bare.rmdir()
    away.back()
    again = next_driver(tmp_path, known=lineage)
    assert again.lineage.id == lineage and again.log.state.last_checkpoint_id == 1


@pytest.mark.fault(
    broken="the folder of the job's lineage is deleted, and the pointer to it is not",
    when="when the next driver of the same run starts",
    expected="it is not made again without its content; StorageUnavailable; back again, the same state",
)
def test_the_folder_of_a_lineage_is_not_made_a_second_time(running: Running, tmp_path: Path) -> None:
    running.start(0).settle()
    lineage = running.job_storage.lineage.id
    away = Away(tmp_path / "storage" / lineage)
    with pytest.raises(errors.StorageUnavailable, match=f"{lineage}, and there was one"):
        next_driver(tmp_path, known=lineage)
    away.back()
    assert next_driver(tmp_path, known=lineage).log.state.last_checkpoint_id == 1


@pytest.mark.fault(
    broken="the volume of the checkpoints is unmounted, and its mount point holds another lineage of the job's name",
    when="when the next driver of the same run starts",
    expected="it does not go on from that one; StorageUnavailable with the lineage that the job had",
)
def test_a_driver_goes_on_from_the_lineage_that_it_is_told(running: Running, tmp_path: Path) -> None:
    lineage = running.job_storage.lineage.id
    away = Away(tmp_path / "storage")
    other = next_driver(tmp_path).lineage.id
    with pytest.raises(errors.StorageUnavailable, match=f"does not hold the lineage {lineage}"):
        next_driver(tmp_path, known=lineage)
    assert next_driver(tmp_path, 3, known=other).lineage.id == other
    shutil.rmtree(tmp_path / "storage")
    away.back()
    assert next_driver(tmp_path, known=lineage).lineage.id == lineage


def test_the_deletion_of_savepoints_in_a_folder_that_is_gone_is_confirmed(
    running: Running, tmp_path: Path
) -> None:
    savepoints = running.job_storage.savepoints
    for name, target in (("one", None), ("two", f"file://{tmp_path}/kept")):
        url = named(running.job_storage, name, target)
        savepoints.abandon(url, confirm=False)
    away = Away(tmp_path / "kept")
    shutil.rmtree(tmp_path / "storage" / "savepoints")
    savepoints.sweep()
    doomed = running.job_storage.log.state.doomed_savepoints
    assert [naming.split_url(url)[0] for url in doomed] == [f"file://{tmp_path}/kept"], "it may be unmounted"
    away.back()
    savepoints.sweep()
    assert running.job_storage.log.state.doomed_savepoints == ()


def test_a_driver_that_ended_before_it_made_the_folder_of_its_lineage_hinders_no_other(
    running: Running, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "storage" / running.job_storage.lineage.id)
    assert next_driver(tmp_path).log.begin_incarnation("") == 1


@pytest.mark.fault(
    broken="the volume of the checkpoints is unmounted, and the storage is its mount point",
    when="while the driver commits",
    expected="StorageUnavailable, and nothing is written to the bare folder",
)
def test_a_log_is_not_continued_on_a_bare_disk(running: Running, tmp_path: Path) -> None:
    away, bare = Away(tmp_path / "storage"), tmp_path / "storage"
    bare.mkdir()
    for act in (running.job_storage.log.check, lambda: running.job_storage.log.begin_incarnation("")):
        with pytest.raises(errors.StorageUnavailable):
            act()
    assert list(bare.iterdir()) == []
    bare.rmdir()
    away.back()
    assert running.job_storage.log.begin_incarnation("") == 2
