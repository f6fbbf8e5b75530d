"""The runner's folder: one runner at a time, a private token, nothing left behind."""

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sparkstate.runner import workdir

HOLD = """
import sys, time
from pathlib import Path
from sparkstate.runner import workdir
with workdir.WorkDir(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> workdir.WorkDir:
    return workdir.WorkDir(tmp_path / "job")


def test_a_second_runner_is_refused_and_told_who_holds_the_folder(folder: workdir.WorkDir) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder.root)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            refused = pytest.raises(workdir.WorkDirInUse, match=rf"process {holder.pid}.*--work-dir")
            with refused, folder.locked():
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
    with folder.locked():  # the kernel dropped the lock of the killed process
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
