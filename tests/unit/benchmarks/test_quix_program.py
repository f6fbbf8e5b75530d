"""Quix Streams never ends by itself: its program ends it when all rows are answered, and fails if a process does.

Quix is installed only where the benchmark runs, so the processes here count rows without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.examples import example

PROGRAMS = example.ROOT / "benchmarks" / "peers" / "programs"
PROCESSES = """
import signal, sys
import on_quix

def work(task, number, counted):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(task["codes"][number])))
    counted[number] = int(task["answers"][number])
    if task["ends"] == str(number):
        sys.exit(0)
    while True:
        signal.pause()

if __name__ == "__main__":
    on_quix.run(dict(word.split("=") for word in sys.argv[1:]), work)
"""


def ran(folder: Path, *, answers: str, codes: str = "00", ends: str = "none") -> tuple[int, str]:
    """Exit code and last line. A digit for each process: its answers, and its exit code when it is told to stop."""
    program = folder / "program.py"
    program.write_text(PROCESSES)
    words = ["rows=10", "slots=2", f"answers={answers}", f"codes={codes}", f"ends={ends}"]
    done = subprocess.run(
        [sys.executable, program, *words],
        env={**os.environ, "PYTHONPATH": str(PROGRAMS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


def test_the_processes_are_told_to_stop_when_all_rows_are_answered(tmp_path: Path) -> None:
    assert ran(tmp_path, answers="46") == (0, "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param({"answers": "40", "ends": "0"}, "when 4 of 10 rows were answered", id="ends before"),
        pytest.param(
            {"answers": "46", "codes": "01"}, "with exit codes [0, 1] instead of 0", id="last commit"
        ),
        pytest.param({"answers": "56"}, "11 answers to 10 rows", id="a row is answered twice"),
    ],
)
def test_a_run_that_went_wrong_gives_no_rate(words: dict[str, str], says: str, tmp_path: Path) -> None:
    code, last = ran(tmp_path, **words)
    assert code == 1
    assert says in last
