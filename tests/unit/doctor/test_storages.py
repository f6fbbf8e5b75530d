"""What ``sparkstate doctor job.yaml`` finds out about the storages of the manifest."""

from __future__ import annotations

import json
import secrets
import threading
from pathlib import Path

import pytest
from support.commands.manifests import ROTATIONS
from support.storage.fixtures import s3, s3_server
from support.storage.read_only import make_read_only
from support.storage.stored_job import StoredJob

from sparkstate import clock, errors, settings
from sparkstate.cli import main
from sparkstate.doctor import storages
from sparkstate.doctor.check import Check

__all__ = ["s3", "s3_server"]


def checks(
    storage: str, *, savepoints: str | None = None, restore_from: str | None = None
) -> dict[str, Check]:
    job = settings.JobSettings(
        name="j",
        entry=settings.EntryPoint(),
        checkpoint=settings.CheckpointSettings(storage=storage),
        savepoint=settings.SavepointSettings(storage=savepoints),
        restore_from=restore_from,
    )
    time = clock.SystemClock()
    found = [storages.check_storage(place, time) for place in storages.places_of(job)]
    return {check.name: check for check in found}


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_manifest_whose_storage_is_a_file_fails_a_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(ROTATIONS)
    (tmp_path / "state").write_text("no folder")
    assert main.main(["doctor", str(tmp_path / "job.yaml"), "-o", "json"]) == 1
    (found,) = [one for one in json.loads(capsys.readouterr().out) if one["name"] == "checkpoint storage"]
    assert (found["ok"], found["required"]) == (False, True)
    assert "it must be a folder" in found["detail"]
    assert "spec.checkpointing.storage" in found["remedy"]


def test_folders_that_can_be_written_pass_and_are_left_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / ".tmp").mkdir()
    before = left(tmp_path)
    found = checks((tmp_path / "state").as_uri(), savepoints=(tmp_path / "used").as_uri())
    assert [(check.name, check.ok) for check in found.values()] == [
        ("checkpoint storage", True),
        ("savepoint storage", True),
    ]
    assert left(tmp_path) == before


def test_a_folder_that_the_driver_would_make_is_not_made(tmp_path: Path) -> None:
    found = checks((tmp_path / "a" / "b").as_uri(), savepoints=(tmp_path / "file" / "b").as_uri())
    assert found["checkpoint storage"].ok
    assert left(tmp_path) == []
    (tmp_path / "file").write_text("")
    found = checks((tmp_path / "file" / "b").as_uri())
    assert not found["checkpoint storage"].ok
    assert f"{tmp_path}/file is not a folder" in found["checkpoint storage"].detail


def test_a_read_only_folder_serves_for_a_restore_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (tmp_path / "state").as_uri()
    saved = StoredJob(url, "j", attempt=1).take_savepoint("t1", epoch=7)
    make_read_only(monkeypatch)
    found = checks(url, restore_from=saved)
    assert not found["checkpoint storage"].ok
    assert "remount the volume for writing" in found["checkpoint storage"].detail
    assert found["restoreFrom"].ok


def test_a_restore_point_that_is_not_there_fails_a_check_and_the_newest_one_is_not_looked_for(
    tmp_path: Path,
) -> None:
    found = checks(tmp_path.as_uri(), restore_from=(tmp_path / "savepoint-012345-a").as_uri())
    assert not found["restoreFrom"].ok
    assert list(checks(tmp_path.as_uri(), restore_from="latest")) == ["checkpoint storage"]
    assert checks("memory://driver") == checks("") == {}


def test_a_storage_that_never_answers_is_given_up_after_the_limit() -> None:
    release = threading.Event()
    place = storages.Place(
        "checkpoint storage", "f", "s3://bucket/a", settings.S3Settings(), lambda store: release.wait(30)
    )
    found = storages.check_storage(place, clock.SystemClock(), limit_s=0.3)
    release.set()
    assert (found.ok, found.detail) == (False, "s3://bucket/a does not answer within 0.3 s")


@pytest.mark.s3
def test_a_bucket_that_does_not_exist_fails_a_check(s3) -> None:
    def tried(url: str) -> Check:
        probe = storages.probe.require_conditional_create
        place = storages.Place("checkpoint storage", "f", url, s3.settings, probe)
        return storages.check_storage(place, clock.SystemClock())

    assert tried(f"s3://state/{secrets.token_hex(6)}").ok
    assert not tried("s3://no-such-bucket/state").ok


def test_an_error_of_the_storage_is_the_detail() -> None:
    def refuse(store: object) -> None:
        raise errors.StorageRefused("wrong key")

    place = storages.Place("savepoint storage", "spec.x", "s3://bucket/a", settings.S3Settings(), refuse)
    found = storages.check_storage(place, clock.SystemClock())
    assert (found.ok, found.detail, "spec.x" in found.remedy) == (False, "wrong key", True)
