from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from sparkstate.clock import SystemClock
from sparkstate.runner.process import DriverProcess, group_members

DRIVER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("ready", flush=True)
time.sleep(60 if sys.argv[1] == "lives" else 0)
"""


def ended(process: DriverProcess) -> int:
    """Poll as the supervisor does until there is an exit code."""
    while (code := process.poll()) is None:
        time.sleep(0.02)
    return code


def started(tmp_path: Path, what: str) -> DriverProcess:
    log = tmp_path / "log"
    process = DriverProcess.start([sys.executable, "-c", DRIVER, what], dict(os.environ), log, SystemClock())
    deadline = time.monotonic() + 30
    while "ready" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_what_a_killed_driver_left_is_not_waited_for(tmp_path: Path) -> None:
    process = started(tmp_path, "lives")
    assert group_members(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    before = time.monotonic()
    assert ended(process) == -signal.SIGKILL
    assert time.monotonic() - before < 5
    assert group_members(process.pid) == []


@pytest.mark.timeout(60)
def test_what_a_driver_that_ended_by_itself_left_gets_time_to_end(tmp_path: Path) -> None:
    process = started(tmp_path, "ends")
    before = time.monotonic()
    assert ended(process) == 0
    assert time.monotonic() - before > 5
    assert group_members(process.pid) == []
