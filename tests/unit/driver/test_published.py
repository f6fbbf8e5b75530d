"""What is published belongs to its readers: a restore leaves it alone, wherever sinks and files are by then."""

from __future__ import annotations

import dataclasses
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.slots import slots
from support.slots.running import Running, settings, stored_job
from support.storage.fixtures import s3, s3_server
from support.storage.stores import Crash, HookedStore

from sparkstate import clock, errors, storage
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.job_storage import JobStorage
from sparkstate.sinks import file_sink, publication

__all__ = ["s3", "s3_server"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    made.slot.epoch(0, slots.rows(("a", 1), ("b", 2)))
    yield made
    made.close()


def files(folder: Path) -> list[Path]:
    """But for the driver's marks."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != file_sink.BEGUN)


def rows(folder: Path) -> list[int]:
    return [row["total"] for path in folder.glob("part-*") for row in pq.read_table(path).to_pylist()]


def restore(folder: Path, sink: str | None) -> JobStorage:
    """The next attempt's driver, whose job has that sink, up to the begin of its incarnation."""
    job = stored_job() if sink is None else stored_job(sum=folder / sink)
    job_storage = JobStorage(claim(settings(folder), clock.SystemClock(), 2, "the next"), job)
    job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None)
    job_storage.leftovers.settle()  # it looks into the sink's folder too, with a file of its own for a moment
    return job_storage


def commit_unpublished(running: Running) -> None:
    """A checkpoint whose output is staged, committed, and not visible."""
    running.refuse_publication(0)
    with pytest.raises(errors.StorageError):
        running.start(0).settle()
    for path in running.out.glob("part-*"):
        (path / "in-the-way").rmdir()
        path.rmdir()


def committables(running: Running) -> tuple[file_sink.Committable, ...]:
    newest = running.job_storage.completed.latest()
    assert newest is not None and newest.metadata.committables
    return newest.metadata.committables


SINKS = pytest.mark.parametrize("sink", ["out", "elsewhere", None], ids=["the same", "moved", "removed"])


@SINKS
def test_what_a_reader_has_taken_away_is_not_looked_for(
    running: Running, tmp_path: Path, sink: str | None
) -> None:
    running.start(0).settle()
    (published,) = files(running.out)
    published.unlink()
    state = restore(tmp_path, sink).log.state
    assert state.published == state.checkpoints[-1].checkpoint_id
    assert files(running.out) == []


@SINKS
def test_what_was_committed_and_not_published_comes_to_where_it_was_meant(
    running: Running, tmp_path: Path, sink: str | None
) -> None:
    commit_unpublished(running)
    restore(tmp_path, sink)
    assert rows(running.out) == [1, 2]
    assert len(files(running.out)) == 1
    assert files(tmp_path / "elsewhere") == []


@SINKS
def test_a_driver_that_died_between_publishing_and_saying_so_changes_nothing(
    running: Running, tmp_path: Path, sink: str | None
) -> None:
    commit_unpublished(running)
    store = storage.open_store(str(running.out))
    for committable in committables(running):
        assert publication.publish(store, committable, 0)
        (running.out / committable.final).unlink()
    restore(tmp_path, sink)
    assert files(running.out) == []
    assert restore_again(tmp_path) == []


def restore_again(folder: Path) -> list[Path]:
    """Once more, when nothing is left beside what was published."""
    job_storage = JobStorage(claim(settings(folder), clock.SystemClock(), 3, "one more"), stored_job())
    job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None)
    job_storage.leftovers.settle()
    return files(folder / "out")


def test_a_staging_folder_that_somebody_emptied_is_lost_output_and_not_published_output(
    running: Running, tmp_path: Path
) -> None:
    commit_unpublished(running)
    shutil.rmtree(running.out / file_sink.STAGING)
    with pytest.raises(errors.CorruptData, match="was never published"):
        restore(tmp_path, "out")


def test_the_publication_of_a_checkpoint_is_said_once(running: Running) -> None:
    running.start(0).settle()
    newest = running.job_storage.completed.latest()
    assert newest is not None
    before = running.job_storage.log.state.last_number
    running.job_storage.publish(newest.metadata, lambda: False)
    assert running.job_storage.log.state.last_number == before


@pytest.mark.fault(
    broken="a driver that another has fenced off stages the output of a checkpoint before it knows",
    when="after the other one has swept the sink's folder",
    expected="it commits nothing; when the other's job has ended, the folder holds what is published and nothing else",
)
@pytest.mark.fault_on("a folder")
def test_what_a_fenced_driver_has_staged_late_goes_with_the_end_of_the_job(
    running: Running, tmp_path: Path
) -> None:
    running.start(0).settle()
    published = files(running.out)
    following = restore(tmp_path, "out")
    running.slot.epoch(1, slots.rows(("a", 1)))
    with pytest.raises(errors.Fenced):
        running.start(1).settle()
    assert len(files(running.out)) > len(published), "the slot's store is open, and asks for no mark"
    following.end_outputs()
    assert files(running.out) == published


@pytest.mark.s3
def test_a_cancelled_job_leaves_the_upload_by_which_its_committed_output_is_to_appear(
    s3: Any, tmp_path: Path
) -> None:
    """A completed upload and one that was dropped look alike, so without it the next incarnation took the file for
    published, and deleted what was staged."""
    url = f"s3://state/{secrets.token_hex(6)}"
    on_s3 = dataclasses.replace(settings(tmp_path), s3=s3.settings)
    job = dataclasses.replace(stored_job(), sink_paths={"sum": url})
    job_storage = JobStorage(claim(on_s3, clock.SystemClock(), 1, "a test"), job)
    number = job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None)
    lineage = job_storage.lineage.id
    sink = file_sink.FileSink(url)
    slot = file_sink.FileSinkWriter(sink, "sum", 0, number, lineage, tmp_path / "held", s3.settings)
    slot.hold([pa.record_batch({"total": [1, 2]})])
    committed = slot.stage(slot.rotate(1), 1, 0)
    store = HookedStore(storage.open_store(url, s3.settings))

    def give_up(operation: str, _: str) -> None:
        if operation == "move":
            raise Crash

    store.before = give_up
    with pytest.raises(Crash):
        publication.publish(store, committed, 0)
    store.begin_move("", f"{file_sink.STAGING}/{lineage}/{number:05d}/broken-off")
    job_storage.end_outputs()
    store.heal()
    assert store.abort_uploads(file_sink.STAGING, lambda _: True) == 0, "nobody completes that one"
    publication.publish(store, committed, 0, restored=True)
    assert [info.key for info in store.list("part-")] == [committed.final]
