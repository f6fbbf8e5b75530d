"""What a slot's process prints is kept, within a bound, under the name of the slot."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkstate.slots import left

PROGRAM = """
import ctypes, os, sys, time
from sparkstate.slots.logs import SlotLog
log = SlotLog(int(sys.argv[1]), limit_bytes=10_000)
log.begin()
sys.stdout.reconfigure(line_buffering=True)
print("before it is told", file=sys.stderr)
log.belongs_to(3, 7)
print("a print of the user's")
libc = ctypes.CDLL(None)
libc.puts(b"of native code"); libc.fflush(None)
{more}
"""


def run(folder: Path, more: str = "time.sleep(1.5)", watched: int = 0) -> subprocess.CompletedProcess[bytes]:
    """A process that begins as a slot does: its standard output is read by who starts it, the rest goes to a file."""
    with (folder / "slot-0.log").open("ab") as log:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM.format(more=more), str(watched or os.getpid())],
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
        )


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_prints_errors_and_native_output_are_in_the_log_of_the_slot(tmp_path: Path) -> None:
    assert run(tmp_path, "").stdout == b""
    assert [path.name for path in tmp_path.iterdir()] == ["slot-3-7.log"]
    text = (tmp_path / "slot-3-7.log").read_text()
    assert text.splitlines() == ["before it is told", "a print of the user's", "of native code"]


def test_what_a_crash_says_last_is_in_it(tmp_path: Path) -> None:
    crashed = run(tmp_path, "import faulthandler; faulthandler.enable(); os.abort()")
    assert crashed.returncode != 0
    assert "Fatal Python error: Aborted" in (tmp_path / "slot-3-7.log").read_text()


def test_a_log_that_grows_is_begun_anew_and_no_line_of_the_newest_is_lost(tmp_path: Path) -> None:
    more = (
        "\nfor n in range(30):\n    print(f'line {n:04d} ' + 'x' * 1000)\n    time.sleep(0.05)\ntime.sleep(1)"
    )
    run(tmp_path, more)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"slot-3-7.log", "slot-3-7.log.1"}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 40_000
    text = "".join((tmp_path / name).read_text() for name in ("slot-3-7.log.1", "slot-3-7.log"))
    numbers = [int(line.split()[1]) for line in text.splitlines() if line.startswith("line")]
    assert numbers == list(range(numbers[0], 30)) and len(numbers) >= 10


@pytest.mark.parametrize("lines", [3, 25], ids=["one file", "over a new one"])
def test_in_a_container_every_line_goes_to_its_log_too(tmp_path: Path, lines: int) -> None:
    watched = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    more = f"\nfor n in range({lines}):\n    print(f'line {{n:04d}} ' + 'x' * 1000)\n    time.sleep(0.02)\n"
    more += "time.sleep(1.2)"
    run(tmp_path, more, watched.pid)
    _, console = watched.communicate(b"\n", 30)
    told = console.decode().splitlines()
    assert {"slot 3: a print of the user's", "slot 3: of native code"} <= set(told)
    assert [int(line.split()[3]) for line in told if " line " in line] == list(range(lines))


def test_of_each_slot_the_newest_incarnations_stay(tmp_path: Path) -> None:
    for name in (
        "slot-3-1.log",
        "slot-3-2.log.1",
        "slot-3-9.log",
        "slot-3-10.log",
        "slot-13-1.log",
        "slot-3.log",
    ):
        (tmp_path / name).touch()
    run(tmp_path, "")
    assert {path.name for path in tmp_path.iterdir()} == {
        *("slot-3-7.log", "slot-3-9.log", "slot-3-10.log"),
        *("slot-13-1.log", "slot-3.log"),
    }


def test_the_next_driver_finds_the_logs_of_the_one_before(tmp_path: Path) -> None:
    for name in ("slot-0-4.log", "slot-0-4.log.1", "slot-0.log", "notes"):
        (tmp_path / name).touch()
    left.settle(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"slot-0-4.log", "slot-0-4.log.1"}


def test_a_process_whose_output_is_no_file_is_left_alone() -> None:
    program = PROGRAM.format(more="")
    done = subprocess.run([sys.executable, "-c", program, str(os.getpid())], capture_output=True, check=True)
    assert b"a print of the user's" in done.stdout and b"before it is told" in done.stderr
