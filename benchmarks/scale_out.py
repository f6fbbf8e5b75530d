"""What a row costs with 1, 2, 4 and 8 slots that each have the same work: processor time by kind of process.

    make bench-scale                                            both backends, one function, 15 minutes on two cores
    make bench-scale ARGS="--slots 1 4 --functions batches added"
    make bench-scale ARGS="--compiled"                          on the path of sparkstate-compiled, after make compiled

The real job runs: Spark in local mode, slots in processes of their own, a checkpoint every two seconds. An epoch has
``--rows`` rows and ``--keys`` keys for each slot. On a machine with fewer cores than slots, rows/s cannot grow with the
slots, and the table says how many cores there were. Processor time per row can be compared on any machine. It is to
stay flat: with the most slots at most 1.25 times that of one slot.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import data
import job
import machine
import ours
import scaling

from sparkstate.operators import compiled
from sparkstate_tools.tracing.runs import KINDS

RESULTS = Path(__file__).parent / "results"
INTERVAL = "2s"
WARM_UP_ROWS = 3_200_000
"""Rows that every run processes before it counts: the JVM compiles by rows, whatever the slots are."""
WARM_UP_EPOCHS = 2
MIN_SECONDS = 2.5
"""A run in which no checkpoint can have been taken is refused: it would not measure what it says."""


def warm_up(rows: int) -> int:
    """Epochs that do not count, of so many rows each."""
    return max(WARM_UP_EPOCHS, math.ceil(WARM_UP_ROWS / rows))


def measure(setup: ours.Setup, slots: int, options: argparse.Namespace, scratch: Path) -> dict[str, float]:
    """Rows/s and CPU µs per row of one run, over all epochs that count."""
    rows, spare = options.rows * slots, warm_up(options.rows * slots)
    folder = data.make(scratch / "in", rows, spare + options.epochs + 1, options.keys * slots)
    try:
        epochs = ours.run(setup, folder, slots, scratch)[spare:]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    seconds = sum(epoch["seconds"] for epoch in epochs)
    if seconds < MIN_SECONDS:
        raise SystemExit(f"the epochs that count took {seconds:.1f} s; give more --rows or --epochs")
    counted = rows * len(epochs)
    used = {kind: sum(epoch["cpu_s"][kind] for epoch in epochs) / counted * 1e6 for kind in KINDS}
    return {"rows_per_s": counted / seconds, **used}


def result(setup: ours.Setup, slots: int, rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The median of the rounds, and how far they lie apart."""
    sums = [sum(each[kind] for kind in KINDS) for each in rounds]
    middle = {kind: round(statistics.median(each[kind] for each in rounds), 3) for kind in KINDS}
    return {
        "backend": setup.backend,
        "function": f"{setup.function}{', compiled' if setup.compiled else ''}",
        "slots": slots,
        "rows_per_s": round(statistics.median(each["rows_per_s"] for each in rounds)),
        "cpu_us_per_row": middle,
        "sum_us_per_row": round(sum(middle.values()), 3),
        "spread": round((max(sums) - min(sums)) / statistics.median(sums), 3),
    }


def text(results: Sequence[dict[str, Any]], cores: int) -> str:
    """The table and the verdict."""
    fewest = min(each["slots"] for each in results)
    lines = [
        f"{cores} cores; CPU µs per row by kind of process, and the sum relative to {fewest} slot(s)",
        f"{'':<20}{'slots':>6}{'rows/s':>12}{'driver':>9}{'jvm':>7}{'workers':>9}{'slots':>8}{'sum':>7}{'ratio':>7}",
    ]
    for each in results:
        cpu = each["cpu_us_per_row"]
        name = f"{each['backend']} {each['function']}"
        lines.append(
            f"{name:<20}{each['slots']:>6}{each['rows_per_s']:>12,}{cpu['driver']:>9.2f}{cpu['jvm']:>7.2f}"
            f"{cpu['workers']:>9.2f}{cpu['slots']:>8.2f}{each['sum_us_per_row']:>7.2f}{each['of_fewest']:>7.2f}"
        )
    worst = max(results, key=lambda each: float(each["of_fewest"]))
    verdict = "reached" if scaling.flat(results) else "MISSED"
    lines.append(
        f"{verdict}: at most {scaling.FLAT} times the CPU per row; the most was {worst['of_fewest']:.2f}"
    )
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument(
        "--backends", nargs="+", choices=("hashmap", "rocksdb"), default=["hashmap", "rocksdb"]
    )
    parser.add_argument("--functions", nargs="+", choices=list(job.FUNCTIONS), default=["sum"])
    parser.add_argument("--compiled", action="store_true", help="functions per record on the compiled path")
    parser.add_argument("--rows", type=int, default=400_000, help="of each slot and epoch (default 400,000)")
    parser.add_argument("--keys", type=int, default=25_000, help="of each slot (default 25,000)")
    parser.add_argument("--epochs", type=int, default=8, help="that count (default 8)")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds (default 3)")
    parser.add_argument("--name", default="scale-out", help="name of the JSON file under benchmarks/results/")
    return parser.parse_args()


def run(options: argparse.Namespace, scratch: Path) -> list[dict[str, Any]]:
    """All results, from alternating rounds."""
    setups = [
        ours.Setup(backend, name, INTERVAL, compiled=options.compiled)
        for name in options.functions
        for backend in options.backends
    ]
    runs: dict[tuple[ours.Setup, int], list[dict[str, float]]] = {}
    for number in range(options.rounds):
        for setup in setups:
            for slots in options.slots:
                private = scratch / f"{setup.backend}-{setup.function}-{slots}-{number}"
                private.mkdir()
                runs.setdefault((setup, slots), []).append(measure(setup, slots, options, private))
                done = result(setup, slots, runs[setup, slots][-1:])
                print(f"{number + 1}/{options.rounds} {json.dumps(done)}", flush=True)
    results = [result(setup, slots, rounds) for (setup, slots), rounds in runs.items()]
    return scaling.relate(results, "sum_us_per_row", ("backend", "function"))


def main() -> int:
    """Measure, print, write."""
    options = _options()
    if options.compiled and (found := compiled.status()) != compiled.IN_USE:
        raise SystemExit(f"--compiled: sparkstate-compiled is {found}; call `make compiled` first")
    scratch = Path(tempfile.mkdtemp(prefix="ss-scale-"))
    try:
        results = run(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    described = machine.description(sys.argv[1:], "bench-scale")
    machine.write(RESULTS / f"{options.name}.json", results, described)
    print(text(results, os.cpu_count() or 1))
    return 0 if scaling.flat(results) else 1


if __name__ == "__main__":
    sys.exit(main())
