"""What a run knows of those before it: where the state lies, so that a bare mount point is not a new storage."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stored_job import StoredJob

from sparkstate import clock, errors, settings, storage
from sparkstate.log import lineage
from sparkstate.runner import lookup, running, workdir

NAME = "rotations"


def job(at: Path, *, start_empty: bool = False) -> settings.JobSettings:
    checkpoint = settings.CheckpointSettings(storage=at.as_uri())
    entry = settings.EntryPoint()
    return settings.JobSettings(name=NAME, entry=entry, checkpoint=checkpoint, start_empty=start_empty)


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
    running.require_known(job(state), lookup.find(job(state), time), folder)
    assert folder.known_lineage(state.as_uri()) == known
    state.rename(tmp_path / "on-its-volume")
    if what == "the storage is the mount point":
        state.mkdir()
    assert lookup.find(job(state), time) is None
    with pytest.raises(errors.RestoreBlocked, match=f"{known}.*is its volume mounted.*startEmpty"):
        running.require_known(job(state), None, folder)
    running.require_known(job(tmp_path / "elsewhere"), None, folder)
    running.require_known(job(state, start_empty=True), None, folder)
    running.require_known(job(state), None, folder)


def test_a_lineage_that_nobody_has_begun_is_not_required(tmp_path: Path) -> None:
    """Its pointer comes first, and its folder may be missing; a purge leaves such a one."""
    root, time = tmp_path / "storage", clock.SystemClock()
    name = lineage.JobName(cluster="local", namespace="default", name=NAME)
    lineage.open_lineage(storage.open_store(root.as_uri()), name, time)
    folder = workdir.WorkDir(tmp_path / "work")
    folder.root.mkdir()
    running.require_known(job(root), lookup.find(job(root), time), folder)
    assert folder.known_lineage(root.as_uri()) == ""


def test_cleaning_keeps_what_is_known(tmp_path: Path) -> None:
    folder = workdir.WorkDir(tmp_path)
    folder.record_lineage("file:///a", "0123")
    folder.clean()
    assert folder.known_lineage("file:///a") == "0123"
    assert folder.known_lineage("file:///b") == ""
    folder.forget_lineage()
    assert folder.known_lineage("file:///a") == ""
