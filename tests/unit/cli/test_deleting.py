"""Deleting by a trigger's id, looking whether a savepoint is whole, and folders on volumes that are not mounted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.programs import Program, manifest_of
from support.storage import stored_job

from sparkstate import storage
from sparkstate.cli import main
from sparkstate.storage import mounts
from sparkstate_tools.servers import s3server


def deleted(program: Program, place: str, trigger_id: str, *words: str) -> dict[str, Any]:
    named = ("--job", "local/default/orders", "--trigger-id", trigger_id)
    return program("savepoints", "delete", place, *named, *words)


def test_a_savepoint_is_deleted_by_its_trigger_and_again_without_an_error(
    program: Program, place: str
) -> None:
    job = stored_job.StoredJob(place, "orders", attempt=1)
    old, _newest = job.take_savepoint("a", 5), job.take_savepoint("b", 6)
    assert deleted(program, place, "a") == {"ok": True, "deleted": [old], "absent": []}
    assert deleted(program, place, "a") == {"ok": True, "deleted": [], "absent": ["a"]}
    assert program("savepoints", "verify", old)["ok"] is False
    assert deleted(program, place, "b")["reason"] == "StorageError", "a restart would need it"


def test_a_savepoint_that_is_being_written_is_given_up_and_cannot_complete(
    program: Program, place: str
) -> None:
    job = stored_job.StoredJob(place, "orders", attempt=1)
    begun = job.begin_savepoint("a")
    assert deleted(program, place, "a")["deleted"] == [begun]
    with pytest.raises(Exception, match="was given up"):
        job.complete(begun, "a", 5)


def test_a_savepoint_is_deleted_of_a_job_that_began_anew_since(program: Program, place: str) -> None:
    job = stored_job.StoredJob(place, "orders", attempt=1)
    old, _newest = job.take_savepoint("a", 5), job.take_savepoint("b", 6)
    stored_job.StoredJob(place, "orders", attempt=2, start_empty=True)
    assert deleted(program, place, "a")["deleted"] == [old]


@pytest.mark.fault_on("a folder and S3")
@pytest.mark.fault(
    broken="a file of a savepoint is missing, or cut",
    when="it is verified",
    expected="CorruptData with the name of the file",
)
def test_a_savepoint_is_verified_file_by_file(program: Program, place: str) -> None:
    job = stored_job.StoredJob(place, "orders", attempt=1)
    whole, cut, lost = (job.take_savepoint(name, 5, content=b"rows" * 100) for name in "abc")
    answer = program("savepoints", "verify", whole)
    assert (answer["ok"], answer["epoch"], answer["files"]) == (True, 5, 1)
    for url, rest in ((cut, b"ro"), (lost, None)):
        folder = storage.open_store(url)
        folder.delete([stored_job.FILE])
        if rest is not None:
            folder.put_if_absent(stored_job.FILE, rest)
        told = program("savepoints", "verify", url)
        assert (program.code, told["ok"], told["reason"]) == (5, False, "CorruptData")
        assert stored_job.FILE in told["message"]


def test_what_is_no_savepoint_is_not_verified(program: Program, place: str) -> None:
    told = program("savepoints", "verify", f"{place}/savepoints/savepoint-123456-made-up")
    assert (program.code, told["ok"], told["reason"]) == (5, False, "StorageError")
    assert "_metadata" in told["message"]


SAVED = "s3://bucket/state/savepoints/savepoint-123456-aa"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        pytest.param(("purge", "JOB.YAML", "--yes"), "--job other has no use", id="purge"),
        pytest.param(("purge", "--manifest", "JOB.YAML", "--yes"), "the job orders", id="purge in a cluster"),
        pytest.param(("restore-info", "JOB.YAML"), "leave it out", id="restore-info"),
        pytest.param(("savepoints", "list", "JOB.YAML"), "--job other has no use", id="list"),
        pytest.param(("savepoints", "delete", "JOB.YAML", SAVED), "--job other has no use", id="delete"),
        pytest.param(("savepoints", "delete", SAVED), "--job other has no use", id="delete by URL"),
    ],
)
def test_a_job_is_not_named_beside_what_names_another(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], named: str
) -> None:
    """A purge deleted all of the manifest's job, whatever --job said."""
    state = tmp_path / "state"
    stored_job.StoredJob(state.as_uri(), "orders", attempt=1).take_savepoint("a", 5)
    before = sorted(state.rglob("*"))
    path = manifest_of(tmp_path, state.as_uri())
    assert main.main([path if word == "JOB.YAML" else word for word in words] + ["--job", "other"]) == 2
    assert named in " ".join(capsys.readouterr().err.split())
    assert sorted(state.rglob("*")) == before


@pytest.mark.parametrize("manifest", [False, True], ids=["a storage", "a manifest"])
def test_urls_beside_a_trigger_are_refused_and_not_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, manifest: bool
) -> None:
    place = (tmp_path / "state").as_uri()
    job = stored_job.StoredJob(place, "orders", attempt=1)
    old, _newest = job.take_savepoint("a", 5), job.take_savepoint("b", 6)
    where = ["--manifest", manifest_of(tmp_path, place)] if manifest else [place]
    assert main.main(["savepoints", "delete", *where, old, "--trigger-id", "a"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"--trigger-id a names the savepoint, and {old} would not be deleted" in told
    assert list(Path(old.removeprefix("file://")).iterdir()), "nothing is deleted"


@pytest.mark.s3
@pytest.mark.parametrize("arguments", [("verify",), ("delete",)], ids=lambda words: words[0])
def test_a_refusal_says_nothing_about_the_savepoint(
    program: Program, s3: s3server.S3Server, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """The same words for both would make a registration final that a right key mends."""
    monkeypatch.setenv("SPARKSTATE_S3_ENDPOINT", s3.settings.endpoint)
    monkeypatch.setenv("SPARKSTATE_S3_REGION", s3.settings.region)
    monkeypatch.setenv("SPARKSTATE_S3_PATH_STYLE", "true")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    told = program("savepoints", *arguments, "s3://state/savepoints/savepoint-123456-made-up")
    assert (program.code, told["ok"], told["reason"]) == (5, False, "StorageRefused")
    assert "check that the credentials" in told["message"]


# -- a volume that is not mounted --------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than the test's own: as a mounted volume is to a container."""
    for place in ("/dev/shm", "/run", "/proc"):
        if Path(place).stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                yield Path(folder)
            return
    pytest.fail("this machine has one file system alone")


def test_a_missing_folder_is_only_missing_where_a_volume_is_mounted(tmp_path: Path, elsewhere: Path) -> None:
    mounts.require_reachable((elsewhere / "state" / "savepoints").as_uri(), root=tmp_path)
    mounts.require_reachable(tmp_path.as_uri(), root=tmp_path)
    mounts.require_reachable("s3://bucket/state", root=tmp_path)
    with pytest.raises(Exception, match="mount the volume that holds it"):
        mounts.require_reachable((tmp_path / "state" / "savepoints").as_uri(), root=tmp_path)


@pytest.fixture
def unmounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a volume that this container does not have."""
    monkeypatch.setattr(mounts, "ROOT", tmp_path)
    monkeypatch.setattr(mounts.require_reachable, "__defaults__", (tmp_path,))
    return (tmp_path / "claim" / "state").as_uri()


@pytest.mark.fault_on("a folder")
@pytest.mark.fault(
    broken="the volume with the state is not mounted",
    when="savepoints are deleted, or a job is purged",
    expected="an error with the remedy; nothing is told to be gone",
)
def test_without_its_volume_nothing_is_told_to_be_deleted(
    program: Program, unmounted: str, tmp_path: Path
) -> None:
    folder = f"{unmounted}/savepoints/savepoint-123456-aa"
    for words in (
        ("savepoints", "delete", folder),
        ("savepoints", "delete", unmounted, "--job", "orders", "--trigger-id", "a"),
        ("purge", "--manifest", manifest_of(tmp_path, unmounted)),
    ):
        told = program(*words)
        assert (program.code, told["ok"], told["reason"]) == (5, False, "StorageError"), words
        assert "mount the volume" in told["message"]


@pytest.mark.fault_on("a folder")
@pytest.mark.fault(
    broken="the volume with the state is not mounted",
    when="the operator asks what there is to restore",
    expected="an error, not an empty answer",
)
def test_without_its_volume_a_job_of_a_cluster_is_not_told_to_have_no_state(
    program: Program, unmounted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifest_of(tmp_path, unmounted)
    assert program("restore-info", "--manifest", manifest)["found"] is False
    monkeypatch.setenv("SPARKSTATE_CLUSTER", "blue")
    told = program("restore-info", "--manifest", manifest)
    assert (told["ok"], told["reason"]) == (False, "StorageError")
