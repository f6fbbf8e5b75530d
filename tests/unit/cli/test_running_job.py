"""Commands that talk to a running job, against the real control endpoint over HTTP."""

import io
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkstate import keys
from sparkstate.cli import main
from sparkstate.control import documents, port, server
from sparkstate_tools.drivers import control_job

MANIFEST = """
apiVersion: sparkstate.io/v1alpha1
kind: StatefulSparkJob
metadata: {name: rotations}
spec:
  pythonFile: job.py
  checkpointing: {storage: state}
"""


@pytest.fixture
def job() -> control_job.InMemoryJob:
    job = control_job.InMemoryJob()
    job.update(
        epoch=41,
        rows_total=1234,
        rows_per_s=56.0,
        state_bytes=2_097_152,
        lag_ms=4_000,
        watermark_ms=control_job.NOW_MS,
        slots=(control_job.slot(0), control_job.slot(1, alive=False)),
        last_checkpoint=control_job.checkpoint(7),
        notices=("spec.image has no effect here",),
    )
    job.history = [control_job.checkpoint(6), control_job.checkpoint(7)]
    job.values[("rotation", "delay", "'N14228'")] = {"total": 17}
    return job


@pytest.fixture
def endpoint(job: control_job.InMemoryJob) -> Iterator[server.ControlServer]:
    with server.ControlServer(job, keys.of_token(control_job.TOKEN)) as running:
        yield running


@pytest.fixture
def manifest(tmp_path: Path, endpoint: server.ControlServer) -> str:
    """The manifest of a job that runs from its own folder, as `sparkstate run` leaves it while it runs."""
    path = tmp_path / "job.yaml"
    path.write_text(MANIFEST)
    folder = tmp_path / ".sparkstate" / "rotations"
    folder.mkdir(parents=True)
    (folder / "token").write_text(control_job.TOKEN)
    (folder / "driver.json").write_text(json.dumps({"pid": 1, "address": endpoint.address}))
    return str(path)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--trigger-id", "a b/../c", "--trigger-id 'a b/../c': give letters, digits, '.', '_' and '-'"),
        ("--target", "", "--target '': give the URL of a folder"),
    ],
)
def test_an_option_of_a_savepoint_that_is_not_of_its_form_is_told_it(
    capsys: pytest.CaptureFixture[str], manifest: str, option: str, value: str, told: str
) -> None:
    assert main.main(["savepoint", manifest, option, value]) == 2
    assert told in capsys.readouterr().err


def test_status_finds_the_job_by_its_manifest(capsys, manifest: str) -> None:
    assert main.main(["status", manifest]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = dict(line.split(":", 1) for line in lines if ":" in line)
    assert shown["epoch"].strip() == "41"
    assert shown["state"].strip() == "2.0 MiB"
    assert shown["lag"].strip() == "4.0 s"
    assert "7, epoch 35" in shown["checkpoint"]
    assert any("4001 (gone)" in line for line in lines)
    assert "note: spec.image has no effect here" in lines


def test_status_names_each_storage_that_is_away_with_time_purpose_and_cause(
    capsys: pytest.CaptureFixture[str], manifest: str, job: control_job.InMemoryJob
) -> None:
    since_ms = time.time_ns() // 1_000_000 - 3 * 3_600_000 - 5_000
    full = documents.StorageAway(
        url="file:///full", doing="store checkpoint 7", since_ms=since_ms, message="No space left on device"
    )
    job.update(storage_away=(full,))
    assert main.main(["status", manifest]) == 0
    (shown,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("storage")]
    told = shown.partition(":")[2].strip()
    assert told == "file:///full is away for 3 h 0 min (store checkpoint 7): No space left on device"


SAVEPOINT = documents.Progress(
    kind=documents.LongWorkKind.SAVEPOINT,
    name="mine",
    since_ms=0,
    done_bytes=30 * 2**20,
    total_bytes=56 * 2**20,
    left_ms=12_000,
)
RESCALE = documents.Progress(
    kind=documents.LongWorkKind.RESTORE,
    since_ms=0,
    done_bytes=0,
    total_bytes=5 * 2**20,
    slots_before=2,
    slots_after=3,
)


def test_status_shows_long_work_with_its_bytes_and_the_time_left(
    capsys: pytest.CaptureFixture[str], manifest: str, job: control_job.InMemoryJob
) -> None:
    job.update(progress=(SAVEPOINT, RESCALE))
    assert main.main(["status", manifest]) == 0
    shown = [line.partition(":") for line in capsys.readouterr().out.splitlines()]
    assert [text.strip() for name, _, text in shown if name == "under way"] == [
        "savepoint mine 30.0 MiB of 56.0 MiB, 12 s left",
        "rescale 2 to 3 slots: restore 0 B of 5.0 MiB",
    ]


def test_status_shows_the_metrics_of_the_jobs_own(
    capsys, manifest: str, job: control_job.InMemoryJob
) -> None:
    shown: list[tuple[str, dict[str, float], str]] = [
        ("counter", {"count": 12_345_678}, "12345678"),
        ("gauge", {"least": 2, "largest": 7.5}, "2 to 7.5"),
        ("gauge", {}, "-"),
        ("meter", {"count": 90, "rate": 1.5}, "90, 1.5 per second"),
        ("distribution", {"count": 4, "sum": 10, "least": 3, "largest": 3}, "4 values of 3"),
        ("distribution", {"count": 0}, "-"),
    ]
    job.update(
        user_metrics=tuple(
            documents.UserMetric(operator="op", name="m", kind=kind, **numbers) for kind, numbers, _ in shown
        )
    )
    assert main.main(["status", manifest]) == 0
    lines = [line.split(None, 3) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line[:2] == ["op", "m"]] == [
        ["op", "m", kind, text] for kind, _, text in shown
    ]


def test_status_as_json_is_the_endpoints_document(
    capsys, manifest: str, job: control_job.InMemoryJob
) -> None:
    assert main.main(["status", manifest, "-o", "json"]) == 0
    assert documents.JobStatus.model_validate_json(capsys.readouterr().out) == job.current


def test_status_open_prints_the_link_with_the_key_to_look(
    capsys, manifest: str, endpoint: server.ControlServer
) -> None:
    assert main.main(["status", manifest, "--open"]) == 0
    read = keys.of_token(control_job.TOKEN).read
    assert capsys.readouterr().out.strip() == f"{endpoint.address}/ui/#token={read}"


def test_a_job_elsewhere_is_reached_by_address_and_token(
    capsys, monkeypatch, tmp_path: Path, endpoint: server.ControlServer
) -> None:
    assert main.main(["status", "--address", endpoint.address]) == 2
    assert "SPARKSTATE_TOKEN" in capsys.readouterr().err
    (tmp_path / "token").write_text(control_job.TOKEN + "\n")
    assert main.main(["status", "--address", endpoint.address, "--token-file", str(tmp_path / "token")]) == 0
    monkeypatch.setenv("SPARKSTATE_TOKEN", control_job.TOKEN)
    assert main.main(["status", "--address", endpoint.address]) == 0


def test_a_wrong_token_is_refused_without_showing_it(
    capsys, monkeypatch, endpoint: server.ControlServer
) -> None:
    monkeypatch.setenv("SPARKSTATE_TOKEN", "another-token-0123456789")
    assert main.main(["status", "--address", endpoint.address]) == 1
    text = capsys.readouterr().err
    assert "refused the token" in text
    assert "another-token-0123456789" not in text


def test_a_driver_that_knows_the_token_alone_is_reached_as_its_refusal_says(
    capsys, monkeypatch, job: control_job.InMemoryJob
) -> None:
    monkeypatch.setenv("SPARKSTATE_TOKEN", control_job.TOKEN)
    only = keys.Keys(admin=control_job.TOKEN, read=control_job.TOKEN, slots=control_job.TOKEN)
    with server.ControlServer(job, only) as older:
        assert main.main(["status", "--address", older.address]) == 1
        assert "--older-image sends the token as it is" in capsys.readouterr().err
        assert main.main(["status", "--address", older.address, "--older-image"]) == 0
        assert main.main(["cancel", "--address", older.address, "--older-image"]) == 0


def test_a_job_that_does_not_run_is_said_with_what_to_do(capsys, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(MANIFEST)
    assert main.main(["status", str(tmp_path / "job.yaml")]) == 1
    text = capsys.readouterr().err
    assert "sparkstate run" in text
    assert "restore-info" in text
    assert main.main(["status"]) == 2
    assert "no job was named" in capsys.readouterr().err


def test_checkpoints_are_listed(capsys, manifest: str) -> None:
    assert main.main(["checkpoints", manifest]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["ID", "KIND", "STATUS", "EPOCH"]
    assert [line.split()[:4] for line in lines[1:]] == [
        ["6", "checkpoint", "COMPLETED", "30"],
        ["7", "checkpoint", "COMPLETED", "35"],
    ]


def complete_when_asked(job: control_job.InMemoryJob, **fields: object) -> threading.Thread:
    def serve() -> None:
        while not job.requests():
            time.sleep(0.01)
        identifier = job.requests()[0].trigger_id
        assert identifier is not None
        job.finish_savepoint(identifier, **fields)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_a_savepoint_is_waited_for_and_its_url_printed(
    capsys, manifest: str, job: control_job.InMemoryJob
) -> None:
    complete_when_asked(
        job, status=documents.SavepointPhase.COMPLETED, location="file:///s/savepoint-1", epoch=41
    )
    arguments = ["--trigger-id", "mine", "--target", "file:///s", "--stop", "--drain", "--type", "native"]
    assert main.main(["savepoint", manifest, *arguments]) == 0
    assert capsys.readouterr().out == "file:///s/savepoint-1\n"
    assert job.requests() == [
        port.SavepointTrigger(
            trigger_id="mine",
            target_directory="file:///s",
            stop=True,
            drain=True,
            format_type="native",
        )
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_a_savepoint_is_while_it_is_waited_for(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    manifest: str,
    job: control_job.InMemoryJob,
) -> None:
    another = SAVEPOINT.model_copy(update={"name": "another", "done_bytes": 1})
    job.update(progress=(RESCALE, another, SAVEPOINT))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def complete_once_it_is_shown() -> None:
        until = time.monotonic() + 10
        while "savepoint mine" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        job.finish_savepoint("mine", status=documents.SavepointPhase.COMPLETED, location="file:///s/mine")

    completes = threading.Thread(target=complete_once_it_is_shown)
    completes.start()
    assert main.main(["savepoint", manifest, "--trigger-id", "mine", "--timeout", "30"]) == 0
    completes.join()
    assert capsys.readouterr().out == "file:///s/mine\n"
    *drawn, left = terminal.getvalue().split("\r\x1b[2K")
    assert left == ""
    assert set(drawn) == {"", "savepoint mine 30.0 MiB of 56.0 MiB, 12 s left"}


def test_a_savepoint_ends_well_though_nobody_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    manifest: str,
    job: control_job.InMemoryJob,
) -> None:
    asked = threading.Event()

    def refused() -> documents.JobStatus:
        asked.set()
        raise RuntimeError("on purpose")

    monkeypatch.setattr(job, "status", refused)
    monkeypatch.setattr(sys, "stderr", Terminal())

    def complete_once_it_was_asked() -> None:
        asked.wait(10)
        job.finish_savepoint("mine", status=documents.SavepointPhase.COMPLETED, location="file:///s/mine")

    completes = threading.Thread(target=complete_once_it_was_asked)
    completes.start()
    assert main.main(["savepoint", manifest, "--trigger-id", "mine", "--timeout", "30"]) == 0
    completes.join()
    assert asked.is_set()
    assert capsys.readouterr().out == "file:///s/mine\n"


def test_a_savepoint_that_fails_is_an_error_with_its_reason(
    capsys, manifest: str, job: control_job.InMemoryJob
) -> None:
    complete_when_asked(job, status=documents.SavepointPhase.FAILED, failure="disk full")
    assert main.main(["savepoint", manifest]) == 1
    assert "disk full" in capsys.readouterr().err


def test_a_savepoint_need_not_be_waited_for(capsys, manifest: str) -> None:
    assert main.main(["savepoint", manifest, "--no-wait", "--trigger-id", "later", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "PENDING"
    assert main.main(["savepoint", manifest, "--timeout", "0.1", "--trigger-id", "later"]) == 1
    assert "ask again with the same trigger id" in capsys.readouterr().err


def test_drain_without_stop_is_wrong_usage(capsys, manifest: str) -> None:
    assert main.main(["savepoint", manifest, "--drain"]) == 2
    assert "give --stop too" in capsys.readouterr().err


def test_the_state_of_one_key_is_read(capsys, manifest: str) -> None:
    arguments = ["state", "get", manifest, "--operator", "rotation", "--state", "delay"]
    assert main.main([*arguments, "--key", '"N14228"']) == 0
    assert json.loads(capsys.readouterr().out) == {"total": 17}
    assert main.main([*arguments, "--key", '"N14228"', "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["epoch"] == 41


def test_the_operator_state_of_one_slot_is_read(capsys, manifest: str, job: control_job.InMemoryJob) -> None:
    job.values[("judged", "rules", 1)] = {"card": 5}
    arguments = ["state", "get", manifest, "--operator", "judged", "--state", "rules"]
    assert main.main([*arguments, "--slot", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"card": 5}
    for wrong in ([], ["--slot", "1", "--key", "1"]):
        assert main.main([*arguments, *wrong]) == 2
        assert "either --key" in capsys.readouterr().err


def test_a_key_that_is_no_json_is_wrong_usage_with_the_right_spelling(capsys, manifest: str) -> None:
    arguments = ["state", "get", manifest, "--operator", "rotation", "--state", "delay"]
    assert main.main([*arguments, "--key", "N14228"]) == 2
    assert """--key '"N14228"'""" in capsys.readouterr().err


def test_an_unknown_state_is_said(capsys, manifest: str) -> None:
    arguments = ["state", "get", manifest, "--operator", "rotation", "--state", "dealy", "--key", "1"]
    assert main.main(arguments) == 1
    assert "'dealy'" in capsys.readouterr().err


def test_cancel_asks_the_job_to_stop(capsys, manifest: str, job: control_job.InMemoryJob) -> None:
    assert main.main(["cancel", manifest]) == 0
    assert job.cancelled


def test_a_driver_that_is_gone_is_said(capsys, manifest: str, endpoint: server.ControlServer) -> None:
    endpoint.stop()
    assert main.main(["status", manifest]) == 1
    assert "nothing answers" in capsys.readouterr().err


def test_with_the_key_to_look_the_command_line_shows_and_changes_nothing(
    endpoint: server.ControlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "read").write_text(keys.of_token(control_job.TOKEN).read)
    target = ["--address", endpoint.address, "--token-file", str(tmp_path / "read")]
    assert main.main(["status", *target]) == 0
    assert main.main(["cancel", *target]) != 0
    assert "may read, but change nothing" in capsys.readouterr().err
