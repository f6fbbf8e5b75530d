"""``sparkstate check`` before Spark starts: which snapshot it means, and what it says of a URL that is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.manifests import ROTATIONS
from support.storage import stored_job

from sparkstate import clock, errors, manifest
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.cli import main
from sparkstate.stored import restore_points


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "job.yaml"
    found.write_text(ROTATIONS)
    return found


def settings(path: Path, *overrides: str) -> Any:
    return manifest.resolve(manifest.load(path, overrides)).settings


def found(path: Path, *overrides: str) -> RestoredSnapshot:
    return restore_points.of_job(settings(path, *overrides), clock.SystemClock())


def at(url: str, path: Path) -> RestoredSnapshot:
    return restore_points.at(url, settings(path), clock.SystemClock())


def test_a_job_that_never_ran_restores_nothing(path: Path) -> None:
    assert (found(path).metadata, found(path).plan.kind) == (None, "empty")
    assert not (path.parent / "state").exists(), "a look makes no folder"


def test_the_newest_snapshot_of_the_jobs_name_is_what_its_start_would_restore(path: Path) -> None:
    url = (path.parent / "state").as_uri()
    stored = stored_job.StoredJob(url, "rotations", 1)
    stored.take_savepoint("one", 3)
    newest = stored.take_savepoint("two", 7)
    assert found(path).plan.url == newest
    metadata = found(path).metadata
    assert metadata is not None
    assert metadata.epoch == 7
    for named in (newest, f"{newest}/_metadata", url, f"{url}/{stored.lineage_id}"):
        restored = at(named, path)
        assert restored.metadata is not None, named
        assert restored.metadata.epoch == 7, named


def test_start_empty_and_restore_from_count_as_at_a_start(path: Path) -> None:
    url = (path.parent / "state").as_uri()
    other = stored_job.StoredJob(url, "another", 1).take_savepoint("one", 5)
    named = found(path, f"spec.restoreFrom.uri={other}")
    assert named.metadata is not None
    assert named.metadata.epoch == 5
    stored_job.StoredJob(url, "rotations", 1).take_savepoint("one", 3)
    assert found(path, "spec.startEmpty=true").metadata is None
    with pytest.raises(errors.RestoreBlocked, match="nothing-here"):
        found(path, "spec.restoreFrom.uri=/nothing-here/x", "metadata.name=new")


WRONG = {
    "no folder": ("nowhere/savepoint-1", 5, "nowhere/savepoint-1"),
    "another scheme": ("gopher://x/y", 2, "gopher"),
    "an empty folder": (
        "empty",
        5,
        "neither _metadata, nor a log, nor state of a job named local/default/rotations",
    ),
    "a file": ("job.yaml", 5, "job.yaml"),
    "a null byte": ("a\0b", 2, ""),
    "a bucket without keys": ("s3:///x", 2, "s3://"),
}


@pytest.mark.parametrize(("given", "code", "told"), WRONG.values(), ids=WRONG)
def test_a_url_that_is_no_snapshot_is_told_with_the_remedy(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    given: str,
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(path.parent)
    (path.parent / "empty").mkdir()
    assert main.main(["check", str(path), "--from", given]) == code
    said = capsys.readouterr().err
    assert told in said
    assert "unexpected" not in said


def test_a_damaged_snapshot_is_told_by_file_and_kind_of_damage(
    capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    url = stored_job.StoredJob((path.parent / "state").as_uri(), "rotations", 1).take_savepoint("one", 3)
    target = Path(url.removeprefix("file://")) / "_metadata"
    data = bytearray(target.read_bytes())
    data[len(data) // 2] ^= 0xFF
    target.write_bytes(bytes(data))
    assert main.main(["check", str(path), "--from", url, "--json"]) == 5
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["reason"]) == (False, "CorruptData")
    assert "_metadata" in answer["message"]
    assert main.main(["check", str(path)]) == 3, "a start would be blocked"
    assert "cannot restore" in capsys.readouterr().err


def test_a_snapshot_of_a_later_format_names_the_remedy(
    capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    url = stored_job.StoredJob((path.parent / "state").as_uri(), "rotations", 1).take_savepoint("one", 3)
    target = Path(url.removeprefix("file://")) / "_metadata"
    data = bytearray(target.read_bytes())
    data[5] = 99
    target.write_bytes(bytes(data))
    assert main.main(["check", str(path), "--from", url]) == 5
    assert "99" in capsys.readouterr().err
