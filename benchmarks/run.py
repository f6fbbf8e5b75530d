"""``make bench``: our figures beside Spark's own, in one run, on the same data, in alternating rounds.

    make bench                                   everything; about an hour on two idle cores
    make bench ARGS=--quick                      one round, the main load, latency of 1 k; about 4 minutes
    make bench ARGS='--rounds 3 --only hashmap'  identity and one contender
    make bench ARGS='--loads sum --no-latency'   one load
    make bench ARGS='--trace --only rocksdb'     where the time of an epoch goes, for a browser

Contenders: Spark's identity through ``repartitionById`` and ``mapInArrow`` with the engine's Spark settings (the base
of all ratios) and with Spark's defaults; ours on HashMap and RocksDB in interval mode, without and with checkpoints
running, per record on the path of ``sparkstate-compiled`` (``-compiled``; after ``make compiled``), by a function on
Arrow batches that answers every record, and by one that answers once per key and batch (``-added``); Spark's
``transformWithState`` in Python; Spark's own aggregation (both on its RocksDB store).
Loads: ``sum``, a keyed sum over 50 k keys that answers every record; ``distinct``, the same with no key twice;
``windows``, a sum per key and minute of event time, an epoch being a minute, also for an hour that slides by a minute;
``large``, random keys whose state is ten times the slots' managed memory (512 bytes a key, filled before).
A round runs every contender once; its rate is the median of the epochs after the first ones. The table shows the
median of the rounds. ``docs/benchmarks.md`` tells how to read it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import data
import latency
import machine
import ours
import report
import traced

from sparkstate.operators import compiled
from sparkstate_tools.tracing import report as trace_report
from sparkstate_tools.tracing import trace_events

HERE = Path(__file__).parent
RESULTS = HERE / "results"
WARM_UP = 4
"""Epochs of every run that are not counted: the JVM compiles, stores are empty. On two slow cores the third and fourth
epoch took a fifth longer than those after them, in our jobs and in Spark's own."""
FILLS = 2
"""How many of these bring the keys of ``large``."""
CHECKPOINTING = "2s"
SLOW_ROWS, SLOW_EPOCHS, SLOW_WARM_UP = 20_000, 4, 2
"""A contender slower than 20 k rows/s gets a prefix of the same data: about a minute a round."""


@dataclass(frozen=True)
class Contender:
    """How one row of the table is run. ``ours`` None: one of Spark's own ways, by name."""

    name: str
    ours: ours.Setup | None = None
    slow: bool = False


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("identity"),
        Contender("identity-defaults"),
        Contender("hashmap", ours.Setup("hashmap")),
        Contender("hashmap-compiled", ours.Setup("hashmap", compiled=True)),
        Contender("hashmap-batches", ours.Setup("hashmap", "batches")),
        Contender("hashmap-added", ours.Setup("hashmap", "added")),
        Contender("hashmap-checkpoints", ours.Setup("hashmap", interval=CHECKPOINTING)),
        Contender("rocksdb", ours.Setup("rocksdb")),
        Contender("rocksdb-compiled", ours.Setup("rocksdb", compiled=True)),
        Contender("rocksdb-batches", ours.Setup("rocksdb", "batches")),
        Contender("rocksdb-added", ours.Setup("rocksdb", "added")),
        Contender("rocksdb-checkpoints", ours.Setup("rocksdb", interval=CHECKPOINTING)),
        Contender("hashmap-windows", ours.Setup("hashmap", "windows")),
        Contender("hashmap-sliding", ours.Setup("hashmap", "sliding")),
        Contender("rocksdb-windows", ours.Setup("rocksdb", "windows")),
        Contender("rocksdb-sliding", ours.Setup("rocksdb", "sliding")),
        Contender("hashmap-window-records", ours.Setup("hashmap", "window-records")),
        Contender("rocksdb-window-records", ours.Setup("rocksdb", "window-records")),
        Contender("aggregation"),
        Contender("window-aggregation"),
        Contender("transform-with-state", slow=True),
    )
}


@dataclass(frozen=True)
class Load:
    """What the contenders are given. ``keys`` 0: no key comes twice; None: as many as the options say. ``managed``: the
    memory of a slot, where the options say how many times as much state there is."""

    contenders: tuple[str, ...]
    keys: int | None = None
    rows_part: int = 1
    """Epochs have this part of the rows: of a slow load."""
    functions: Mapping[str, str] = field(default_factory=dict)
    """What takes the place of a contender's function."""
    managed: str | None = None
    fills: int = 0
    """How many of the epochs that are not counted bring every key once."""


WINDOWED = (
    "hashmap-windows",
    "hashmap-sliding",
    "rocksdb-windows",
    "rocksdb-sliding",
    "hashmap-window-records",
    "rocksdb-window-records",
    "window-aggregation",
)
LARGE_MANAGED_MIB, LARGE_STATE_BYTES = 32, 512
LARGE_SLOTS = 2
LOADS = {
    "sum": Load(tuple(name for name in CONTENDERS if name not in WINDOWED)),
    "windows": Load(("identity", *WINDOWED)),
    "distinct": Load(
        (
            "identity",
            "hashmap",
            "hashmap-compiled",
            "hashmap-batches",
            "rocksdb",
            "rocksdb-compiled",
            "rocksdb-batches",
            "aggregation",
        ),
        keys=0,
    ),
    "large": Load(
        ("identity", "rocksdb", "rocksdb-compiled", "rocksdb-batches"),
        rows_part=4,
        functions={"sum": "padded", "batches": "padded-batches"},
        managed=f"{LARGE_MANAGED_MIB}Mi",
        fills=FILLS,
    ),
}
LATENCIES = {1_000: (3, 100), 100_000: (2, 15), 1_000_000: (1, 15)}
"""Rows an epoch: alternating turns, and samples of each. A turn takes a minute or less, and machines have slow ones. Of
small epochs p99 has a target. With 60 samples it would be the slowest one."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    _leave_out_what_is_not_built(options)
    started = time.monotonic()
    if options.trace:
        trace_one(options)
        return
    scratch = Path(tempfile.mkdtemp(prefix="sparkstate-bench-"))
    results: list[dict[str, Any]] = []
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{options.name}.json"
    described = machine.description(sys.argv[1:])
    try:
        for load in options.loads:
            results += measure_load(load, options, scratch / load)
            _write(target, results, described)  # a run that is cut short loses one load
        if options.latency:
            results += measure_latency(options, scratch / "latency")
            _write(target, results, described)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(report.text(results))
    print(f"\n{(time.monotonic() - started) / 60:.0f} minutes; written to {target}")


def _write(target: Path, results: list[dict[str, Any]], described: dict[str, Any]) -> None:
    machine.write(target, results, described, targets=report.judged(results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_200_000, help="rows an epoch (default 1,200,000)")
    parser.add_argument("--epochs", type=int, default=10, help=f"epochs a run; {WARM_UP} are not counted")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default 5)")
    parser.add_argument("--keys", type=int, default=50_000, help="keys of the load sum (default 50,000)")
    parser.add_argument(
        "--times",
        type=float,
        default=10,
        help="state of the load large, as a multiple of its slots' managed memory (default 10)",
    )
    parser.add_argument("--slots", type=int, default=2, help="slots, and cores of Spark (default 2)")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, help="these contenders, and identity")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    parser.add_argument("--latency", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--name", default="throughput", help="name of the JSON file under benchmarks/results/"
    )
    parser.add_argument(
        "--trace", action="store_true", help="a trace of one contender of ours (the first of --only)"
    )
    parser.add_argument("--quick", action="store_true", help="one round, fewer epochs, one load")
    options = parser.parse_args()
    if options.epochs <= WARM_UP:
        parser.error(f"--epochs must be more than {WARM_UP}")
    if options.quick:
        options.rounds, options.epochs, options.loads = 1, min(options.epochs, WARM_UP + 3), ["sum"]
    return options


def _leave_out_what_is_not_built(options: argparse.Namespace) -> None:
    """Take the contenders of the compiled path out where the extension cannot be used."""
    found = compiled.status()
    names = [name for name, each in CONTENDERS.items() if each.ours and each.ours.compiled]
    wanted = [name for name in options.only or names if name in names]
    if found == compiled.IN_USE or not wanted:
        return
    if options.only == wanted:
        raise SystemExit(f"{', '.join(wanted)}: sparkstate-compiled is {found}; call `make compiled` first")
    print(f"left out: {', '.join(wanted)}, because sparkstate-compiled is {found}; `make compiled` builds it")
    options.only = [name for name in options.only or CONTENDERS if name not in names]


def trace_one(options: argparse.Namespace) -> None:
    """Run one contender of ours on the first load, write its trace and what it shows."""
    name = next(iter(options.only or ["hashmap"]))
    ours_of_it = CONTENDERS[name].ours
    if ours_of_it is None:
        raise SystemExit(f"{name} is one of Spark's own ways; a trace is made of ours")
    scratch = Path(tempfile.mkdtemp(prefix="sparkstate-trace-"))
    RESULTS.mkdir(exist_ok=True)
    load = LOADS[options.loads[0]]
    target = RESULTS / f"{options.loads[0]}-{name}.trace.json.gz"
    described = machine.description(sys.argv[1:])
    try:
        rows = options.rows // load.rows_part
        folder = data.make(scratch / "in", rows, options.epochs, _keys(load, options), load.fills)
        run = traced.record(_setup(ours_of_it, load), folder, options.slots, scratch)
        trace_events.write(run, target)
        lines = [f"{word}: {told}" for word, told in described.items()]
        shown = "\n".join([*lines, "", trace_report.text(run, options.slots, WARM_UP)])
        target.with_suffix("").with_suffix(".txt").write_text(shown + "\n")
        print(shown)
        print(f"\n{target}: open it at https://ui.perfetto.dev")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measure_load(load: str, options: argparse.Namespace, scratch: Path) -> list[dict[str, Any]]:
    """Results of all contenders on one load."""
    given = LOADS[load]
    keys = _keys(given, options)
    all_rows = options.rows // given.rows_part
    whole = data.make(scratch / "in", all_rows, options.epochs, keys, given.fills)
    few = data.make(scratch / "few", min(SLOW_ROWS, options.rows), min(SLOW_EPOCHS, options.epochs), keys)
    wanted = {"identity", *(options.only or CONTENDERS)}
    names = [name for name in given.contenders if name in wanted]
    rounds: dict[str, list[float]] = {name: [] for name in names}
    cpu_s: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(options.rounds):
        for name in names:
            contender = CONTENDERS[name]
            private = scratch / f"{name}-{number}"
            private.mkdir()
            folder, rows = (few, min(SLOW_ROWS, options.rows)) if contender.slow else (whole, all_rows)
            all_epochs = _run(contender, given, folder, options.slots, private)
            epochs = all_epochs[SLOW_WARM_UP if contender.slow else WARM_UP :]
            shutil.rmtree(private)
            rounds[name].append(statistics.median(rows / epoch["seconds"] for epoch in epochs))
            cpu_s[name] += [{k: v / rows * 1e6 for k, v in epoch["cpu_s"].items()} for epoch in epochs]
            print(
                f"{load} {number + 1}/{options.rounds} {name:<22}{rounds[name][-1]:>12,.0f} rows/s",
                flush=True,
            )
    base = statistics.median(rounds["identity"])
    return [_result(load, name, rounds[name], cpu_s[name], base, options) for name in names]


def _keys(load: Load, options: argparse.Namespace) -> int:
    """Keys of a load; 0: no key comes twice."""
    if load.managed is not None:
        return int(options.times * LARGE_SLOTS * (LARGE_MANAGED_MIB << 20) / LARGE_STATE_BYTES)
    return int(options.keys if load.keys is None else load.keys)


def _setup(setup: ours.Setup, load: Load) -> ours.Setup:
    """The setup with the function and the memory of a load."""
    function = load.functions.get(setup.function, setup.function)
    return dataclasses.replace(setup, managed=load.managed, function=function)


def _run(contender: Contender, load: Load, folder: Path, slots: int, private: Path) -> list[dict[str, Any]]:
    if contender.ours is not None:
        return ours.run(_setup(contender.ours, load), folder, slots, private)
    command = [sys.executable, str(HERE / "contenders.py"), contender.name, str(folder), str(slots)]
    with (private / "contender.log").open("w+") as log:
        done = subprocess.run(
            [*command, str(private / "query")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=False,
            timeout=ours.LIMIT_S,
        )
        if done.returncode != 0:
            log.seek(0)
            raise SystemExit(f"{contender.name} failed:\n{log.read()[-3000:]}")
    epochs: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return epochs


def _result(
    load: str,
    name: str,
    rates: list[float],
    cpu_s: list[dict[str, float]],
    base: float,
    options: argparse.Namespace,
) -> dict[str, Any]:
    rate = statistics.median(rates)
    return {
        "name": name,
        "load": load,
        "rows_per_s": round(rate),
        "ratio_to_identity": round(rate / base, 4),
        "rounds": [round(value) for value in rates],
        "cpu_us_per_row": {
            kind: round(statistics.median(epoch[kind] for epoch in cpu_s), 3) for kind in cpu_s[0]
        },
        "parameters": {
            key: value
            for key, value in vars(options).items()
            if key not in ("only", "loads", "latency", "quick", "name")
        },
    }


def measure_latency(options: argparse.Namespace, scratch: Path) -> list[dict[str, Any]]:
    """Results of identity and ours at each size of epoch, of all turns together."""
    wanted = {"identity", *(options.only or CONTENDERS)}
    names = [name for name in ("identity", "hashmap", "rocksdb") if name in wanted]
    results = []
    for rows, (turns, samples) in ({1_000: (1, 30)} if options.quick else LATENCIES).items():
        kept: dict[str, list[latency.Turn]] = {name: [] for name in names}
        for turn in range(turns):
            for name in names if turn % 2 == 0 else reversed(names):
                private = scratch / f"{name}-{rows}-{turn}"
                kept[name].append(latency.turn(name, rows, samples, options.keys, options.slots, private))
                # Slots of a driver that was killed end by themselves, and remove files of their own meanwhile.
                shutil.rmtree(private, ignore_errors=True)
                told = latency.result(name, rows, kept[name])
                print(
                    f"latency {rows:>9,} rows an epoch {turn + 1}/{turns} {name:<10}"
                    f"p50 {told['p50_ms']:>6,} ms   p99 {told['p99_ms']:>6,} ms",
                    flush=True,
                )
        results += [latency.result(name, rows, kept[name]) for name in names]
    return results


if __name__ == "__main__":
    main()
