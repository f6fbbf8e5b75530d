"""sparkstate's own job of a load of ``make bench-peers``, and where its processor time goes.

    python benchmarks/peer_parts.py [--loads q5 q7] [--backends hashmap rocksdb] [--epochs 8] [--rounds 2]
    python benchmarks/peer_parts.py --loads q7 --backends hashmap --record build/q7      with ``perf``
    python benchmarks/peer_parts.py --each                                               a line for each epoch

Lines have µs of processor time per row by kind of process, from the begin of an epoch of 1.2 million rows to that of
the next one: the mean of the second half of a run, in which the JVM has compiled most of its code. ``--record`` samples
each slot with ``perf record`` into files with that beginning; ``perf report`` reads them.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import tempfile
import time
from pathlib import Path

import cpu
import ours
from peers import chunks, installing, running
from peers.contenders import CONTENDERS
from peers.loads import LOADS

LOOK_S = 0.02
SLOTS = 2


Marks = list[dict[str, float]]
"""Seconds of processor time by kind of process, at the begin of each epoch."""


def run(load: str, backend: str, epochs: int, record: str | None) -> Marks:
    """One run of the job."""
    contender = CONTENDERS[f"sparkstate-{backend}"]
    rows = epochs * contender.epoch_rows
    with tempfile.TemporaryDirectory(prefix="sparkstate-parts-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        words = running.words(contender, LOADS[load], rows, SLOTS, scratch, None)
        words["input"] = str(chunks.make(scratch / "in", rows, contender.epoch_rows, SLOTS))
        command = installing.command("sparkstate") + [f"{word}={value}" for word, value in words.items()]
        log, phases = scratch / "log", scratch / "phases.jsonl"
        environment = running.environment() | {"SPARKSTATE_PHASE_LOG": str(phases)}
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            marks = followed(process, ours.Phases(phases), record)
        finally:
            ours.stop(process)
        if process.returncode:
            raise SystemExit(log.read_text(errors="replace")[-3000:])
        return marks


def followed(process: subprocess.Popen[bytes], phases: ours.Phases, record: str | None) -> Marks:
    """Until the driver has ended."""
    marks: Marks = []
    recorded: set[int] = set()
    while process.poll() is None:
        begun = [e for e in phases.new() if (e["process"], e["phase"]) == ("driver", "epoch-begin")]
        marks += [cpu.used(process.pid, phases.slots) for _ in begun]
        for pid in (phases.slots - recorded) if record else ():
            recorded.add(pid)
            command = ["perf", "record", "-q", "-F", "199", "-g", "-p", str(pid)]
            subprocess.Popen([*command, "-o", f"{record}.{pid}.data"], stderr=subprocess.DEVNULL)
        time.sleep(LOOK_S)
    return marks


def told(name: str, used: dict[str, float], rows: int) -> None:
    """A line of the table."""
    figures = {"all": sum(used.values()), **used}
    shown = "  ".join(f"{kind} {seconds / rows * 1e6:6.3f}" for kind, seconds in figures.items())
    print(f"{name:28} {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loads", nargs="+", choices=list(LOADS), default=["q5", "q7"])
    parser.add_argument(
        "--backends", nargs="+", choices=["hashmap", "rocksdb"], default=["hashmap", "rocksdb"]
    )
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--record")
    asked = parser.parse_args()
    for _ in range(asked.rounds):
        for load in asked.loads:
            for backend in asked.backends:
                rows = CONTENDERS[f"sparkstate-{backend}"].epoch_rows
                marks = run(load, backend, asked.epochs, asked.record)
                if asked.each:
                    for epoch, (before, after) in enumerate(itertools.pairwise(marks)):
                        told(f"{load} {backend} {epoch}", cpu.between(before, after), rows)
                half = len(marks) // 2
                told(f"{load} {backend}", cpu.between(marks[half], marks[-1]), rows * (len(marks) - 1 - half))


if __name__ == "__main__":
    main()
