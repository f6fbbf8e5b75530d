"""What a slot's process prints is kept, within a bound, under the name of the slot."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkstate.local_state import inheritance
from sparkstate.slots import logs

PROGRAM = """
import ctypes, os, pathlib, resource, sys, threading, time
from sparkstate.slots.logs import SlotLog
log = SlotLog(int(sys.argv[1]), pathlib.Path(sys.argv[2], "slot-0.log"), limit_bytes=10_000)
log.begin()
sys.stdout.reconfigure(line_buffering=True)
print("before it is told", file=sys.stderr)
log.belongs_to(3, 7)
print("a print of the user's")
libc = ctypes.CDLL(None)
libc.puts(b"of native code"); libc.fflush(None)
{more}
"""


WAIT = "while not pathlib.Path(sys.argv[2], 'go').exists(): time.sleep(0.02)"


def start(folder: Path, more: str, watched: int = 0) -> subprocess.Popen[bytes]:
    """A process that begins as a slot does: its standard output is read by who starts it, the rest goes to a file."""
    arguments = [str(watched or os.getpid()), str(folder)]
    with (folder / "slot-0.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(more=more), *arguments], stdout=subprocess.PIPE, stderr=log
        )


def run(folder: Path, more: str = "time.sleep(1.5)", watched: int = 0) -> subprocess.CompletedProcess[bytes]:
    with start(folder, more, watched) as process:
        try:
            told, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, told)


@contextlib.contextmanager
def container() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose standard error is a pipe, which the test reads as a container's runtime does, or does not."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watched:
        try:
            yield watched
        finally:
            watched.kill()


def fill_console(pid: int) -> None:
    console = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(console, b"-\n" * 2048)
    os.close(console)


def sizes(folder: Path) -> dict[str, int]:
    found = {}
    for path in folder.glob("slot-*"):
        with contextlib.suppress(FileNotFoundError):  # a new file has got its name meanwhile
            found[path.name] = path.stat().st_size
    return found


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


@pytest.mark.parametrize("name", ["mine.log", "slot-0.log"], ids=["another name", "a slot's name elsewhere"])
def test_a_file_to_which_a_user_redirects_a_slot_stays_the_users(tmp_path: Path, name: str) -> None:
    redirected = tmp_path / "home" / name
    redirected.parent.mkdir()
    program = PROGRAM.format(more="print('x' * 20_000)\ntime.sleep(1.2)")
    with redirected.open("ab") as mine:
        arguments = [sys.executable, "-c", program, str(os.getpid()), str(tmp_path)]
        subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=mine, timeout=30, check=True)
    assert [path.name for path in redirected.parent.iterdir()] == [name]
    assert redirected.read_text() == "before it is told\n"


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
    inheritance.retire_all(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"slot-0-4.log", "slot-0-4.log.1"}


def test_a_process_whose_output_is_no_file_is_left_alone(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", PROGRAM.format(more=""), str(os.getpid()), str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, check=True)
    assert b"a print of the user's" in done.stdout and b"before it is told" in done.stderr


def test_a_console_that_nobody_reads_holds_up_neither_the_bound_nor_the_slot(tmp_path: Path) -> None:
    more = f"""
for n in range(50):
    print('x' * 99_999)
    time.sleep(0.02)
began = time.monotonic()
log.belongs_to(3, 8)
pathlib.Path(sys.argv[2], 'waited').write_text(str(time.monotonic() - began))
{WAIT}
print("read again")
time.sleep(1.5)
"""
    with container() as watched:
        fill_console(watched.pid)
        with start(tmp_path, more, watched.pid) as process:
            try:
                eventually((tmp_path / "waited").exists)
                eventually(lambda: sizes(tmp_path).get("slot-3-8.log", 1) == 0)
                (tmp_path / "go").touch()
                _, console = watched.communicate(b"\n", 30)
            finally:
                process.kill()
    assert float((tmp_path / "waited").read_text()) < 5
    *_, lacks, last = [line for line in console.decode().splitlines() if line.startswith("slot 3: ")]
    assert last == "slot 3: read again"
    assert re.fullmatch(r"slot 3: [1-9]\d{4,6} bytes of the slot's log are left out here, .*", lacks)


PRINTED = 300 * 20_000
PRINT_FOR_3_S = """
peak = 0
for n in range(300):
    print(('x' * 99 + chr(10)) * 200, end='')
    peak = max(peak, os.fstat(2).st_size)
    time.sleep(0.01)
pathlib.Path(sys.argv[2], 'peak').write_text(str(peak))
"""


def test_a_console_slower_than_the_prints_does_not_put_off_the_bound(tmp_path: Path) -> None:
    def read_slowly(descriptor: int) -> None:
        while os.read(descriptor, 4096):
            time.sleep(0.02)

    with container() as watched:
        assert watched.stderr is not None
        reader = threading.Thread(target=read_slowly, args=(watched.stderr.fileno(),))
        reader.start()
        run(tmp_path, PRINT_FOR_3_S, watched.pid)
        watched.kill()
        reader.join(30)
    assert int((tmp_path / "peak").read_text()) < PRINTED / 2


def test_a_console_that_is_closed_does_not_put_off_the_bound(tmp_path: Path) -> None:
    with container() as watched, start(tmp_path, f"\n{WAIT}\n{PRINT_FOR_3_S}", watched.pid) as process:
        eventually((tmp_path / "slot-3-7.log").exists)
        assert watched.stderr is not None
        watched.stderr.close()
        (tmp_path / "go").touch()
        assert process.wait(30) == 0
    assert int((tmp_path / "peak").read_text()) < PRINTED / 2


NO_DESCRIPTORS = """
bounds = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, bounds[1]))
"""


def test_a_second_file_that_could_not_be_made_is_made_at_a_later_look(tmp_path: Path) -> None:
    more = f"""
{NO_DESCRIPTORS}
print('x' * 11_000)
time.sleep(1.2)
resource.setrlimit(resource.RLIMIT_NOFILE, bounds)
time.sleep(1.2)
print('in the second file')
"""
    run(tmp_path, more)
    assert sizes(tmp_path).keys() == {"slot-3-7.log", "slot-3-7.log.1"}
    assert (tmp_path / "slot-3-7.log").read_text() == "in the second file\n"
    assert (tmp_path / "slot-3-7.log.1").read_text().startswith("before it is told\n")


def test_where_no_second_file_can_be_made_the_first_begins_anew_at_twice_the_bound(tmp_path: Path) -> None:
    more = f"{NO_DESCRIPTORS}\nprint('x' * 21_000)\ntime.sleep(1.2)\nprint('last')\n"
    run(tmp_path, more)
    assert sizes(tmp_path) == {"slot-3-7.log": len("last\n")}


def test_a_log_that_somebody_removed_is_begun_anew(tmp_path: Path) -> None:
    more = "\nos.remove(pathlib.Path(sys.argv[2], 'slot-3-7.log'))\nlog.belongs_to(3, 8)\n"
    more += "print('x' * 11_000)\ntime.sleep(1.2)\nprint('last')\n"
    assert run(tmp_path, more).returncode == 0
    assert sizes(tmp_path) == {"slot-3-8.log": len("last\n")}


def test_a_fresh_start_of_the_job_keeps_its_own_log_beside_those_of_higher_incarnations(
    tmp_path: Path,
) -> None:
    for incarnation in (48, 49, 50):
        (tmp_path / f"slot-3-{incarnation}.log").touch()
    run(tmp_path, "")
    assert sizes(tmp_path).keys() == {"slot-3-7.log", "slot-3-49.log", "slot-3-50.log"}


def test_the_logs_written_last_stay_whatever_their_numbers_and_the_own_one_always(tmp_path: Path) -> None:
    ages = {
        "slot-3-1.log": 1,
        "slot-3-2.log": 9,
        "slot-3-2.log.1": 50,
        "slot-3-60.log": 30,
        "slot-3-61.log": 5,
    }
    for name, age in ages.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    logs.trim(tmp_path, 3, tmp_path / "slot-3-60.log")
    assert sizes(tmp_path).keys() == {"slot-3-1.log", "slot-3-60.log", "slot-3-61.log"}
