"""Which options of RocksDB pay where the state is larger than memory? Candidates in turn, each in a process of its own.

    python benchmarks/rocksdb_trial.py                                  the candidates of RFC 0040 on the load `large`
    python benchmarks/rocksdb_trial.py --only 'as it was' 'the defaults' --rounds 5
    python benchmarks/rocksdb_trial.py --way slot --value 512           with the operator, and overlays on disk
    python benchmarks/rocksdb_trial.py --value 16384 --times 10 --checkpoints
    python benchmarks/rocksdb_trial.py --way slot --cold --ahead part   with reads ahead, from a disk that is cold

A quarter of a slot of the load ``large``, without Spark: two stores on 8 MiB of managed memory, with ten times as much
state (``--times``) in values of 512 bytes (``--value``). An epoch reads and replaces a number of random keys. What is
counted does not depend on how busy the machine is: processor time of the whole process (``cpu``; ``compact`` and
``flush`` are RocksDB's threads of these kinds), bytes of its read and write calls, both per row, bytes written for
each byte that the epochs changed (``write amp``), bytes on disk for each byte of state (``space amp``), and with
``--checkpoints``, one after each epoch, bytes uploaded for each byte that changed. ``cache hits`` is counted in one
round more, because RocksDB's counters take processor time. Medians of the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rocks import spare
from rocks.candidates import CANDIDATES
from rocks.life import Load, live

from sparkstate.backends import allocation

SHOWN = (
    "wall",
    "cpu",
    "compact",
    "flush",
    "read",
    "written",
    "write amp",
    "space amp",
    "upload amp",
    "cache hits",
)


def run(candidate: str, load: Load) -> dict[str, float]:
    """One life in a process of its own."""
    command = [sys.executable, __file__, "--one", candidate, json.dumps(dataclasses.asdict(load))]
    environment = {**os.environ, **allocation.ENVIRONMENT}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(names: Sequence[str], load: Load, rounds: int, hits: bool) -> dict[str, dict[str, float]]:
    """Medians of all figures, by candidate. Every other round goes backwards."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else names[::-1]:
            found[name].append(run(name, load))
            print(f"round {number + 1}  {name:24} {found[name][-1]['cpu']:6.2f} µs a row", file=sys.stderr)
    medians = {
        name: {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}
        for name, runs in found.items()
    }
    if hits:
        for name in names:
            medians[name]["cache hits"] = run(name, dataclasses.replace(load, statistics=True))["cache hits"]
    return medians


def table(medians: dict[str, dict[str, float]]) -> str:
    """As Markdown."""
    shown = [name for name in (*SHOWN, "used/budget", "resident MiB") if name in next(iter(medians.values()))]
    lines = ["| candidate | " + " | ".join(shown) + " |", "|---|" + "---|" * len(shown)]
    for name, figures in medians.items():
        cells = [f"{figures[figure]:,.{0 if figures[figure] >= 1000 else 2}f}" for figure in shown]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, metavar="NAME", default=list(CANDIDATES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-hits", dest="hits", action="store_false")
    defaults = Load()
    for name in ("value", "budget_mib", "shards", "epochs"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(defaults, name))
    parser.add_argument("--times", type=float, default=defaults.times)
    parser.add_argument("--touched", type=float, default=defaults.touched)
    parser.add_argument("--way", choices=("store", "slot", "batches"), default=defaults.way)
    parser.add_argument("--compressible", action="store_true")
    parser.add_argument("--checkpoints", action="store_true")
    parser.add_argument("--ahead", choices=spare.AHEAD, default=defaults.ahead)
    parser.add_argument("--pause", type=float, default=defaults.pause)
    parser.add_argument("--merge-in-pauses", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, load_text = arguments.one
        with tempfile.TemporaryDirectory(prefix="ss-rocks-") as folder:
            print(json.dumps(live(name, Load(**json.loads(load_text)), Path(folder))))
        return
    names = {field.name for field in dataclasses.fields(Load)} - {"statistics"}
    load = Load(**{name: value for name, value in vars(arguments).items() if name in names})
    print(
        f"{load.keys:,} keys of {load.value} bytes, {load.epochs} epochs of {load.epoch_rows:,} rows; {load}\n"
    )
    print(table(compare(arguments.only, load, arguments.rounds, arguments.hits)))


if __name__ == "__main__":
    main()
