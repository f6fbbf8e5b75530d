"""What the operator's Jobs run: one JSON line, the termination message, exit codes; on S3 as they would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.commands.programs import Program, manifest_of
from support.storage import stored_job

from sparkstate.cli import machine, main


def test_restore_info_says_what_a_restart_goes_back_to_and_keeps_the_word_short(
    program: Program, place: str, tmp_path: Path
) -> None:
    job = stored_job.StoredJob(place, "orders", attempt=7)
    url = job.take_savepoint("a", 5)
    answer = program("restore-info", "--manifest", manifest_of(tmp_path, place))
    assert (answer["ok"], answer["found"], answer["attempt"]) == (True, True, 7)
    assert answer["restore_point"]["url"] == url
    assert [one["url"] for one in answer["savepoints"]] == [url]
    word = program.word
    assert (word["restore_point"]["url"], word["restore_point"]["epoch"]) == (url, 5)
    assert word["counts"] == {"checkpoints": 0, "savepoints": 1, "unfinished_savepoints": 0}
    assert "savepoints" not in word
    assert "operators" not in word["restore_point"]


def test_a_lineage_closed_by_a_savepoint_is_said_to_be(program: Program, place: str, tmp_path: Path) -> None:
    url = stored_job.StoredJob(place, "orders", attempt=1).take_savepoint("a", 5, stop=True)
    program("restore-info", "--manifest", manifest_of(tmp_path, place))
    assert program.word["closed_by"] == url


def test_a_job_that_nothing_was_stored_of_is_an_answer_and_no_error(
    program: Program, place: str, tmp_path: Path
) -> None:
    answer = program("restore-info", "--manifest", manifest_of(tmp_path, place))
    assert (program.code, answer["ok"], answer["found"]) == (0, True, False)


def test_the_cluster_s_name_comes_from_the_environment(
    program: Program, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_job.StoredJob(place, "orders", attempt=1)
    monkeypatch.setenv("SPARKSTATE_CLUSTER", "blue")
    assert program("restore-info", "--manifest", manifest_of(tmp_path, place))["found"] is False


def test_a_savepoint_is_deleted_by_its_url_alone_and_again_without_an_error(
    program: Program, place: str
) -> None:
    job = stored_job.StoredJob(place, "orders", attempt=1)
    old, newest = job.take_savepoint("a", 5), job.take_savepoint("b", 6)
    assert program("savepoints", "delete", old) == {"ok": True, "deleted": [old], "absent": []}
    assert program("savepoints", "delete", old) == {"ok": True, "deleted": [], "absent": [old]}
    refused = program("savepoints", "delete", newest)
    assert (program.code, refused["ok"], refused["reason"]) == (5, False, "StorageError")
    assert program.word == refused


def test_a_purge_leaves_nothing_that_could_be_restored(program: Program, place: str, tmp_path: Path) -> None:
    url = stored_job.StoredJob(place, "orders", attempt=1).take_savepoint("a", 5)
    answer = program("purge", "--manifest", manifest_of(tmp_path, place))
    assert answer["savepoints"] == [url]
    assert program.word["ok"] is True
    assert program("restore-info", "--manifest", manifest_of(tmp_path, place))["restore_point"] is None
    assert program("purge", "--manifest", manifest_of(tmp_path, place))["files"] == 0


def test_a_manifest_that_is_not_there_is_said_to_be_missing(program: Program) -> None:
    code = main.main(["purge", "--json", "--manifest", "/nowhere/job.yaml"])
    assert code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("restore-info", "--manifest", "wrong.yaml"), "spec.slots"),
        (("restore-info",), "name either the job's manifest or its storage"),
        (("purge", "--yes", "--manifest", "/nowhere/job.yaml"), "there is no such file"),
        (("purge", "--yes", "file://host/state"), "names the host 'host'"),
        (("savepoints", "delete", "file:///state/savepoint-abcdef-1#copy"), "write %23 for #"),
        (("savepoints", "sweep", "--objects", "/dev/null", "/state"), "is not JSON"),
        (("savepoints", "verify", "gs://bucket/savepoint-abcdef-1"), "the scheme 'gs'"),
        (("check", "wrong.yaml"), "spec.slots"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_wrong_argument_is_an_answer_too(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(manifest_of(tmp_path, "/state"))
    document = yaml.safe_load(path.read_text())
    document["spec"]["slots"] = 0
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(document))
    answer = program(*words)
    assert (program.code, answer["ok"], answer["reason"]) == (2, False, "SpecInvalid")
    assert message in answer["message"]
    assert program.word == answer


def test_an_error_that_nobody_foresaw_is_an_answer_too(program: Program) -> None:
    answer = program("restore-info", "x" * 300)
    assert (program.code, answer["ok"], answer["reason"]) == (1, False, "SparkstateError")
    assert "File name too long" in answer["message"]


@pytest.mark.parametrize("target", ["there", "x" * 300], ids=["an answer", "an error"])
def test_a_termination_log_that_cannot_be_written_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    """A second answer said `ok: false` after the first one's `ok: true`, and it hid the command's own error."""
    stored_job.StoredJob((tmp_path / "there").as_uri(), "orders", attempt=1).take_savepoint("a", 5)
    log = tmp_path / "no-folder" / "log"
    url = str(tmp_path / target)
    code = main.main(["restore-info", "--json", "--termination-log", str(log), url])
    told = capsys.readouterr()
    (answer,) = [json.loads(line) for line in told.out.splitlines()]
    assert (code, answer["ok"]) == ((0, True) if target == "there" else (1, False))
    assert target == "there" or "File name too long" in answer["message"]
    assert f"could not be written ([Errno 2] No such file or directory: '{log}')" in told.err


def test_without_json_a_purge_asks_first(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = stored_job.StoredJob(place, "orders", attempt=1)
    job.take_savepoint("a", 5)
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115
    assert main.main(["purge", manifest_of(tmp_path, place)]) == 130
    assert job.entries() > 0
    assert main.main(["purge", manifest_of(tmp_path, place), "--yes"]) == 0
    assert "and 1 savepoints" in capsys.readouterr().out


def test_in_a_container_the_word_goes_where_kubernetes_reads_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "termination-log"
    log.write_text("")
    monkeypatch.setattr(machine, "IN_A_CONTAINER", log)
    assert main.main(["restore-info", "--json", "--manifest", manifest_of(tmp_path, place)]) == 0
    assert json.loads(log.read_text())["found"] is False
