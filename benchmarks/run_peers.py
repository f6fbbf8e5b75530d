"""``make bench-peers``: other engines beside sparkstate on the same rows, results compared before rates.

    make bench-peers                                        everything, three alternating rounds
    make bench-peers ARGS=--quick                           one round of the load sum; up to 15 minutes
    make bench-peers ARGS='--loads distinct --only sparkstate-rocksdb flink-sql-rocksdb'
    make bench-peers ARGS='--loads large --add'             what the file has of other loads stays

Each contender first answers a short input, and its answers are compared with what NumPy calculates. Only then are
rates measured: a contender runs to the end of N and of 2 N rows in processes of their own, and the difference of the
two gives the rate and the processor time per row. ``docs/benchmarks.md`` tells how to read the table.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
from peers import installing, kept, lengths, running, table
from peers.contenders import CONTENDERS, Contender
from peers.loads import LOADS, Load

RESULTS = Path(__file__).parent / "results"
COMPARED_ROWS = 20_000
"""What is answered for the comparison. Spark's transformWithState takes some seconds for it."""

QUICK_SCALE = 0.5


def main() -> int:
    """Compare, measure, print, write; 1 if answers were wrong."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    begun = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="sparkstate-peers-"))
    target = RESULTS / f"{options.name}.json"
    before = kept.read(target) if options.add else []
    described = machine.description(sys.argv[1:], "bench-peers")
    described |= {"peers": installing.versions(), "checkpoint_s": running.CHECKPOINT_S, "note": options.note}
    results: list[dict[str, Any]] = []
    try:
        for load in options.loads:
            results += measure_load(LOADS[load], options, scratch)
            # A run that is cut short loses one load.
            kept.write(target, kept.with_run(before, {**described, "results": results}))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(table.text(results))
    print(f"{(time.monotonic() - begun) / 60:.0f} minutes; written to {target}")
    return 1 if any(result.get("wrong") for result in results) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument(
        "--loads", nargs="+", choices=LOADS, help="loads to run (default all; sum with --quick)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds (default 3)")
    parser.add_argument("--slots", type=int, default=2, help="parallelism of every engine (default 2)")
    parser.add_argument(
        "--scale", type=float, help=f"factor of all lengths (default 1; {QUICK_SCALE} with --quick)"
    )
    parser.add_argument("--name", default="peers", help="name of the JSON file under benchmarks/results/")
    parser.add_argument("--note", default="", help="a remark for the JSON file, such as what else ran")
    parser.add_argument(
        "--add",
        action="store_true",
        help="keep what the JSON file has of loads that this run does not measure",
    )
    parser.add_argument("--quick", action="store_true", help="one round with shorter runs")
    options = parser.parse_args()
    options.loads = options.loads or (["sum"] if options.quick else list(LOADS))
    if options.quick:
        options.rounds = 1
    if options.scale is None:
        options.scale = QUICK_SCALE if options.quick else 1.0
    return options


def measure_load(load: Load, options: argparse.Namespace, scratch: Path) -> list[dict[str, Any]]:
    """Results of all contenders that take part in a load."""
    wanted = [CONTENDERS[name] for name in options.only if load.name in CONTENDERS[name].rows]
    commands: dict[str, list[str]] = {}
    absent: dict[str, dict[str, Any]] = {}
    for contender in wanted:
        say(load, contender, "compare")
        try:
            commands[contender.name] = installing.command(contender.engine)
            rows = min(COMPARED_ROWS, rows_of(contender, load, options))
            wrong = running.check(
                contender,
                commands[contender.name],
                load,
                rows,
                options.slots,
                scratch / f"check-{load.name}-{contender.name}",  # apart from the answers of another load
            )
            if wrong:
                absent[contender.name] = {"reason": f"wrong answers: {wrong}", "wrong": True}
        except installing.Unavailable as error:
            absent[contender.name] = {"reason": str(error)}
    able = [contender for contender in wanted if contender.name not in absent]
    rates = measure_rounds(load, able, commands, absent, options, scratch)
    return [result(load, one, rates.get(one.name, []), absent.get(one.name), options) for one in wanted]


def measure_rounds(
    load: Load,
    able: list[Contender],
    commands: dict[str, list[str]],
    absent: dict[str, dict[str, Any]],
    options: argparse.Namespace,
    scratch: Path,
) -> dict[str, list[lengths.Rate | None]]:
    """Rates of each round; every other round goes backwards, so that no contender always follows the same one."""
    rates: dict[str, list[lengths.Rate | None]] = {contender.name: [] for contender in able}
    for number in range(options.rounds):
        for contender in able if number % 2 == 0 else reversed(able):
            if contender.name in absent:
                continue
            rows = rows_of(contender, load, options)
            try:
                short, long = (
                    running.run(
                        contender,
                        commands[contender.name],
                        load,
                        length,
                        options.slots,
                        scratch / f"{load.name}-{contender.name}-{number}-{length}",
                    )
                    for length in (rows, 2 * rows)
                )
            except installing.Unavailable as error:
                absent[contender.name] = {"reason": str(error)}
                continue
            rates[contender.name].append(lengths.rate(short, long))
            say(load, contender, f"{number + 1}/{options.rounds}", rates[contender.name][-1])
    return rates


def rows_of(contender: Contender, load: Load, options: argparse.Namespace) -> int:
    """The shorter length: whole epochs, and a multiple of the slots."""
    unit = contender.epoch_rows or options.slots
    return max(1, round(contender.rows[load.name] * options.scale / unit)) * unit


def say(load: Load, contender: Contender, step: str, rate: lengths.Rate | None = None) -> None:
    """A line of progress."""
    figures = f"{rate.rows_per_s:>12,.0f} rows/s{rate.cpu_us:>9.2f} CPU µs/row" if rate else ""
    print(f"{load.name:<9} {step:<8} {contender.name:<34}{figures}", flush=True)


def result(
    load: Load,
    contender: Contender,
    rates: list[lengths.Rate | None],
    absent: dict[str, Any] | None,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """What the table and the JSON file have of a contender."""
    rows = rows_of(contender, load, options)
    known = {
        "name": contender.name,
        "load": load.name,
        "each_row": contender.each_row,
        "whole": load.whole,
        "user_code": contender.user_code,
        "lengths": [rows, 2 * rows],
    }
    median = lengths.median(rates)
    if absent or median is None:
        return known | (absent or {"reason": "the longer run took no longer than the shorter one: noise"})
    rounds = [None if one is None else [round(one.rows_per_s), round(one.cpu_us, 3)] for one in rates]
    return known | {
        "rows_per_s": round(median.rows_per_s),
        "cpu_us_per_row": round(median.cpu_us, 3),
        "rounds": rounds,
    }


if __name__ == "__main__":
    sys.exit(main())
