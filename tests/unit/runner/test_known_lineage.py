"""What a run knows of those before it: where the state lies, so that a bare mount point is not a new storage."""

from __future__ import annotations

import io
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.storage.stored_job import StoredJob
from support.storage.stores import ManualClock

from sparkstate import clock, errors, settings, storage
from sparkstate.log import lineage
from sparkstate.runner import progress, running, watching, workdir
from sparkstate.stored import lineages

NAME = "rotations"
FULL_NAME = f"local/default/{NAME}"


def job(at: Path, *, start_empty: bool = False, restore_from: str | None = None) -> settings.JobSettings:
    checkpoint = settings.CheckpointSettings(storage=at.as_uri())
    entry = settings.EntryPoint()
    return settings.JobSettings(
        name=NAME, entry=entry, checkpoint=checkpoint, start_empty=start_empty, restore_from=restore_from
    )


@pytest.mark.fault(
    broken="the volume with the state is unmounted and its mount point stays ({what})",
    when="when `sparkstate run` begins, after an earlier run",
    expected="exit code 3, RestoreBlocked with folder, lineage and remedy; another storage, or startEmpty, may be new",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("what", ["the storage lies below it", "the storage is the mount point"])
def test_a_run_does_not_begin_empty_where_an_earlier_one_had_its_state(tmp_path: Path, what: str) -> None:
    state, folder, time = tmp_path / "storage", workdir.WorkDir(tmp_path / "work"), clock.SystemClock()
    folder.root.mkdir()
    running.require_known(job(state), None, folder)
    known = StoredJob(state.as_uri(), NAME, 1).lineage_id
    running.require_known(job(state), lineages.find(job(state), time), folder)
    assert folder.known_lineage(state.as_uri(), FULL_NAME) == known
    state.rename(tmp_path / "on-its-volume")
    if what == "the storage is the mount point":
        state.mkdir()
    assert lineages.find(job(state), time) is None
    with pytest.raises(errors.RestoreBlocked, match=f"{known}.*is its volume mounted.*startEmpty"):
        running.require_known(job(state), None, folder)
    running.require_known(job(tmp_path / "elsewhere"), None, folder)
    running.require_known(job(state, start_empty=True), None, folder)
    running.require_known(job(state), None, folder)


def test_the_first_line_names_the_log_that_the_first_driver_really_has(tmp_path: Path) -> None:
    folder = workdir.WorkDir(tmp_path / "work")
    log = folder.new_log_file(3)
    opening = running._opening(job(tmp_path / "storage"), None, folder, 3)
    assert opening.endswith(
        f"working in {folder.root}, where {log.relative_to(folder.root)} has what the job's function and sinks print"
    )


def test_a_lineage_that_nobody_has_begun_is_not_required(tmp_path: Path) -> None:
    """Its pointer comes first, and its folder may be missing; a purge leaves such a one."""
    root, time = tmp_path / "storage", clock.SystemClock()
    name = lineage.JobName(cluster="local", namespace="default", name=NAME)
    lineage.open_lineage(storage.open_store(root.as_uri()), name, time)
    folder = workdir.WorkDir(tmp_path / "work")
    folder.root.mkdir()
    running.require_known(job(root), lineages.find(job(root), time), folder)
    assert folder.known_lineage(root.as_uri(), FULL_NAME) == ""


def test_a_run_does_not_go_on_from_what_was_begun_beside_the_state(tmp_path: Path) -> None:
    """By an older version, on the disk below the mount point."""
    state, folder, time = tmp_path / "storage", workdir.WorkDir(tmp_path / "work"), clock.SystemClock()
    folder.root.mkdir()
    known = StoredJob(state.as_uri(), NAME, 1).lineage_id
    running.require_known(job(state), lineages.find(job(state), time), folder)
    state.rename(tmp_path / "on-its-volume")
    StoredJob(state.as_uri(), NAME, 1)
    with pytest.raises(errors.RestoreBlocked, match=f"{known}.*is its volume mounted"):
        running.require_known(job(state), lineages.find(job(state), time), folder)
    shutil.rmtree(state)
    (tmp_path / "on-its-volume").rename(state)
    newer = StoredJob(state.as_uri(), NAME, 2, start_empty=True).lineage_id
    running.require_known(job(state), lineages.find(job(state), time), folder)
    assert folder.known_lineage(state.as_uri(), FULL_NAME) == newer


def test_a_run_that_is_to_begin_from_a_savepoint_is_told_what_to_delete(tmp_path: Path) -> None:
    state, folder = tmp_path / "storage", workdir.WorkDir(tmp_path / "work")
    folder.root.mkdir()
    folder.record_lineage(state.as_uri(), FULL_NAME, "0123")
    anew = job(state, restore_from="file:///kept/savepoint-012345-a")
    with pytest.raises(errors.RestoreBlocked, match=f"delete the file {folder.root}/lineage") as refused:
        running.require_known(anew, None, folder)
    assert "0123" in str(refused.value)
    running.require_known(anew, None, workdir.WorkDir(tmp_path / "another"))
    (folder.root / "lineage").unlink()
    running.require_known(anew, None, workdir.WorkDir(folder.root))


def test_cleaning_keeps_what_is_known(tmp_path: Path) -> None:
    folder = workdir.WorkDir(tmp_path)
    assert folder.record_lineage("file:///a", "c/n/job", "0123")
    folder.clean()
    for one in (folder, workdir.WorkDir(tmp_path)):
        assert one.known_lineage("file:///a", "c/n/job") == "0123"
        assert one.known_lineage("file:///b", "c/n/job") == ""
        assert one.known_lineage("file:///a", "c/n/another") == ""
    folder.forget_lineage()
    assert folder.known_lineage("file:///a", "c/n/job") == ""


@pytest.mark.fault(
    broken="the disk of the runner's folder does not take the note of the job's lineage",
    when="while a driver runs",
    expected="one message; the next attempt is told the lineage all the same; with space again the note is written",
)
@pytest.mark.fault_on("a folder")
def test_a_note_that_the_disk_does_not_take_harms_no_driver(tmp_path: Path) -> None:
    folder, output = workdir.WorkDir(tmp_path), io.StringIO()
    (tmp_path / "lineage.new").mkdir()
    watch = watching.Watch(
        job=watching.Job(
            name=NAME, first_attempt=1, savepoint_on_stop=False, storage="file:///a", full_name=FULL_NAME
        ),
        folder=folder,
        driver=None,  # type: ignore[arg-type]
        connect=None,  # type: ignore[arg-type]
        stop=watching.StopRequest(),
        clock=clock.SystemClock(),
        reporter=progress.Reporter(output, clock.SystemClock()),
    )
    for _ in range(3):
        watch._note("0123")
    assert output.getvalue().count(f"cannot write {tmp_path}/lineage") == 1
    assert folder.known_lineage("file:///a", FULL_NAME) == "0123"
    (tmp_path / "lineage.new").rmdir()
    watch._note("0123")
    assert workdir.WorkDir(tmp_path).known_lineage("file:///a", FULL_NAME) == "0123"


def test_a_note_of_before_counts_for_every_job(tmp_path: Path) -> None:
    """It named the storage alone."""
    (tmp_path / "lineage").write_text('{"storage": "file:///a", "lineage": "0123"}')
    assert workdir.WorkDir(tmp_path).known_lineage("file:///a", "c/n/job") == "0123"


@pytest.mark.fault(
    broken="the storage goes away when `sparkstate run` has found the job there ({how})",
    when="before it has asked whether its state is the same as before",
    expected="it waits, and begins when the storage is back",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("how", ["it does not answer", "its folder is not there"])
def test_a_storage_that_goes_away_during_the_first_look_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    state, away, folder = tmp_path / "storage", tmp_path / "away", workdir.WorkDir(tmp_path / "work")
    folder.root.mkdir()
    known = StoredJob(state.as_uri(), NAME, 1).lineage_id
    folder.record_lineage(state.as_uri(), FULL_NAME, known)
    find, has_had = lineages.find, lineage.has_had
    failures: list[str] = []

    def find_and_lose(one: settings.JobSettings, time: clock.Clock) -> lineages.FoundLineage | None:
        found = find(one, time)
        if how == "its folder is not there" and not failures:
            failures.append(how)
            state.rename(away)
        return found

    def does_not_answer(*asked: Any) -> bool:
        if how == "it does not answer" and not failures:
            failures.append(how)
            raise errors.StorageUnavailable("away")
        return has_had(*asked)

    class Waited(ManualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if away.exists():
                away.rename(state)

    class Begins(Exception):
        pass

    def begins(*about: Any) -> str:
        raise Begins

    monkeypatch.setattr(lineages, "find", find_and_lose)
    monkeypatch.setattr(lineage, "has_had", does_not_answer)
    monkeypatch.setattr(running, "_opening", begins)
    time, output = Waited(), io.StringIO()
    runner = running.Runner(
        environ={},
        stream=output,
        clock=time,
        rng=random.Random(1),
        new_token=str,
        stop=watching.StopRequest(),
    )
    with pytest.raises(Begins):
        runner._supervise(
            running.Options(manifest=tmp_path / "job.yaml"),
            job(state),
            folder,
            None,  # type: ignore[arg-type]
            progress.Reporter(output, time),
        )
    assert output.getvalue().count("waiting for the storage: ") == 1
