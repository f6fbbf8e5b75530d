"""The runner's folder: one runner at a time, a private token, nothing left behind."""

import contextlib
import errno
import io
import itertools
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.manifests import ROTATIONS
from support.storage.stores import ManualClock

from sparkstate import errors, java
from sparkstate.runner import running, watching, workdir

HOLD = """
import sys, time
from pathlib import Path
from sparkstate.runner import workdir
with workdir.WorkDir(*map(Path, sys.argv[1:])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> workdir.WorkDir:
    return workdir.WorkDir(tmp_path / "job")


@contextlib.contextmanager
def another_runner(*folders: Path) -> Iterator[int]:
    """The process id of one that holds a folder, and is killed in the end."""
    command = [sys.executable, "-c", HOLD, *map(str, folders)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            yield holder.pid
        finally:
            holder.send_signal(signal.SIGKILL)


def test_a_second_runner_is_refused_and_told_who_holds_the_folder(folder: workdir.WorkDir) -> None:
    with another_runner(folder.root) as pid:
        refused = pytest.raises(workdir.WorkDirInUse, match=rf"process {pid}.*--work-dir")
        with refused, folder.locked():
            pass
    with folder.locked():  # the kernel dropped the lock of the killed process
        pass


def test_runs_from_two_folders_do_not_share_the_place_of_the_driver(tmp_path: Path) -> None:
    local = tmp_path / "disk" / "sparkstate-orders"
    folder = workdir.WorkDir(tmp_path / "second", local)
    with another_runner(tmp_path / "first", local) as pid:
        (local / "slots").mkdir(parents=True)
        refused = pytest.raises(
            workdir.WorkDirInUse, match=rf"^{local} is in use .*process {pid}.*--set spec.localStorage.paths="
        )
        with refused, folder.locked():
            pass
        assert (local / "slots").is_dir()
        with workdir.WorkDir(tmp_path / "second", local.with_name("sparkstate-others")).locked():
            pass  # the refused one holds nothing, and another name is another place
    with folder.locked():
        folder.clean()
        with workdir.WorkDir(tmp_path / "first").locked():
            pass
        # What a run has removed it still holds, until it has ended.
        with pytest.raises(workdir.WorkDirInUse), workdir.WorkDir(tmp_path / "third", local).locked():
            pass
    assert not local.exists()


def test_a_disk_that_cannot_take_the_place_of_the_driver_is_named(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("no folder")
    folder = workdir.WorkDir(tmp_path / "job", tmp_path / "disk" / "sparkstate-orders")
    with (
        pytest.raises(errors.SpecInvalid, match=r"spec\.localStorage\.paths has to be a folder"),
        folder.locked(),
    ):
        pass


def test_the_token_is_readable_by_the_owner_only(folder: workdir.WorkDir) -> None:
    with folder.locked():
        folder.write_token("first")
        folder.write_token("second")
    assert stat.S_IMODE(folder.token_file.stat().st_mode) == 0o600
    assert folder.read_token() == "second"


def test_attempts_are_numbered_across_runs(folder: workdir.WorkDir) -> None:
    assert folder.last_attempt() == 0
    with folder.locked():
        folder.record_attempt(7)
    assert workdir.WorkDir(folder.root).last_attempt() == 7


def test_the_status_file_names_the_driver(folder: workdir.WorkDir) -> None:
    with folder.locked():
        assert folder.driver() is None
        folder.status_file.write_text('{"pid": 5')
        assert folder.driver() is None
        folder.status_file.write_text('{"pid": 5, "address": "http://127.0.0.1:1", "phase": "RUNNING"}')
        assert folder.driver() == workdir.DriverAddress(5, "http://127.0.0.1:1")


def test_only_the_newest_logs_are_kept(folder: workdir.WorkDir) -> None:
    for attempt in range(1, 13):
        folder.new_log_file(attempt).write_text("x")
    kept = sorted(int(log.stem.split("-")[1]) for log in (folder.root / "logs").iterdir())
    assert kept == [8, 9, 10, 11, 12]


def test_cleaning_leaves_lock_attempt_last_word_and_logs(folder: workdir.WorkDir) -> None:
    with folder.locked():
        folder.record_attempt(1)
        folder.write_token("token")
        folder.status_file.write_text("{}")
        folder.termination_log.write_text("{}")
        folder.new_log_file(1).write_text("x")
        (folder.local / "slot-0").mkdir(parents=True)
        folder.clean()
    assert sorted(path.name for path in folder.root.iterdir()) == [
        "attempt",
        "lock",
        "logs",
        "termination.json",
    ]


def test_the_logs_of_slots_outlive_a_run_that_failed_until_another_one_fails(folder: workdir.WorkDir) -> None:
    slots, logs = folder.local / "slots", folder.root / "logs"
    for run, names in enumerate([("slot-0-1.log", "slot-0-1.log.1", "slot-10-2.log"), ("slot-0-3.log",)]):
        (slots / "00001-000" / "db").mkdir(parents=True)
        for name in names:
            (slots / name).write_text(f"run {run}")
        (slots / "slot-0.log").touch()  # of a process that was never told its slot
        folder.clean()
        assert {path.name: path.read_text() for path in logs.glob("*")} == dict.fromkeys(names, f"run {run}")
        assert not folder.local.exists()
        folder.clean()  # after a run that started no driver
        assert [path.read_text() for path in logs.glob("*")] == [f"run {run}"] * len(names)


def test_cleaning_goes_on_while_slots_of_a_killed_driver_still_write(folder: workdir.WorkDir) -> None:
    database = folder.local / "slots" / "0" / "db"
    with folder.locked():
        database.mkdir(parents=True)
        for number in range(2000):
            (database / f"old-{number}").touch()
        until = time.monotonic() + 0.5

        def write() -> None:
            for number in itertools.takewhile(lambda _: time.monotonic() < until, itertools.count()):
                with contextlib.suppress(FileNotFoundError):
                    database.mkdir(parents=True, exist_ok=True)
                    (database / f"{number}.sst").write_bytes(b"x")

        writer = threading.Thread(target=write)
        writer.start()
        told = folder.clean()
        writer.join()
        assert told == ""
        assert folder.clean() == ""
    assert [path.name for path in folder.root.iterdir()] == ["lock"]


def test_what_cannot_be_removed_is_told_once_and_the_exit_code_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", "db")

    class Killed(running.Runner):
        def _supervise(self, *parts: object) -> int:
            return watching.INTERRUPTED

    (tmp_path / "job.yaml").write_text(ROTATIONS)
    monkeypatch.setattr(shutil, "rmtree", refuse)
    monkeypatch.setattr(java, "find", lambda environ: None)
    output = io.StringIO()
    runner = Killed(
        environ={},
        stream=output,
        clock=ManualClock(),
        rng=random.Random(1),
        new_token=str,
        stop=watching.StopRequest(),
    )
    options = running.Options(manifest=tmp_path / "job.yaml", work_dir=tmp_path / "kept")
    assert runner.run(options) == watching.INTERRUPTED
    told = [line for line in output.getvalue().splitlines() if "cannot remove" in line]
    assert told == [f"note: cannot remove all of {tmp_path}/kept/local: [Errno 39] Directory not empty: 'db'"]
