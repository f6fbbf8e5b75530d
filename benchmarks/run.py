"""``make bench``: our figures beside Spark's own, in one run, on the same data, in alternating rounds.

Contenders: Spark's identity through ``repartitionById`` and ``mapInArrow`` (the ceiling), ours on HashMap and RocksDB
(interval mode, checkpoints running), Spark's own aggregation and Python's ``transformWithState`` (both on RocksDB).
Load: a keyed sum over ``--keys`` keys, every record answered. Rows/s is the median over all epochs but the first of
each round.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

HERE = Path(__file__).parent
SLOW_ROWS = 20_000
"""Rows an epoch for a contender slower than 20 k rows/s: a prefix of the same data."""
CONTENDERS = ("identity", "hashmap", "rocksdb", "aggregation", "transform-with-state")


def make_input(folder: Path, rows: int, epochs: int, keys: int) -> None:
    """``epochs`` files of ``rows`` rows with seeded keys and values."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for number in range(epochs):
        table = pa.table({"k": rng.integers(0, keys, rows), "v": rng.integers(0, 100, rows)})
        path = folder / f"{number:04d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)


def ours(folder: Path, backend: str, slots: int, scratch: Path) -> list[float]:
    """Epoch times of one run of our driver, from its phase log: from one epoch's begin to the next."""
    document = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "bench"},
        "spec": {
            "pythonFile": str(HERE / "job.py"),
            "params": {"input": str(folder)},
            "slots": slots,
            "stateBackend": {"type": backend},
            "trigger": {"availableNow": True},
            "checkpointing": {"interval": "5s", "storage": str(scratch / "checkpoints")},
            "driver": {"memory": "2Gi"},
        },
    }
    manifest, log = scratch / "job.yaml", scratch / "phases.jsonl"
    manifest.write_text(yaml.safe_dump(document))
    command = [
        sys.executable,
        "-m",
        "sparkstate.driver",
        "--manifest",
        str(manifest),
        "--work-dir",
        str(scratch / "w"),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARKSTATE_PHASE_LOG": str(log)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    begins = [e["t_ms"] for e in entries if e["process"] == "driver" and e["phase"] == "epoch-begin"]
    return [(b - a) / 1000 for a, b in itertools.pairwise(begins)]


def spark(name: str, folder: Path, slots: int, scratch: Path) -> list[float]:
    """Epoch times of one run of one of Spark's own ways."""
    command = [
        sys.executable,
        str(HERE / "contenders.py"),
        name,
        str(folder),
        str(slots),
        str(scratch / "query"),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_200_000, help="rows an epoch (default 1,200,000)")
    parser.add_argument(
        "--epochs", type=int, default=5, help="epochs a round; the first is not counted (default 5)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default 5)")
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=CONTENDERS, default=list(CONTENDERS))
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="sparkstate-bench-"))
    try:
        report(options, measure(options, scratch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, list[float]]:
    """Rows/s of every counted epoch, by contender."""
    make_input(scratch / "in", options.rows, options.epochs, options.keys)
    make_input(scratch / "few", SLOW_ROWS, min(3, options.epochs), options.keys)
    rates: dict[str, list[float]] = {name: [] for name in options.only}
    for number in range(options.rounds):
        for name in options.only:
            private = scratch / f"{name}-{number}"
            private.mkdir()
            slow = name == "transform-with-state"
            folder, rows = (scratch / "few", SLOW_ROWS) if slow else (scratch / "in", options.rows)
            if name in ("hashmap", "rocksdb"):
                times = ours(folder, name, options.slots, private)
            else:
                times = spark(name, folder, options.slots, private)
            rates[name] += [rows / seconds for seconds in times[1:]]
            shutil.rmtree(private)
            print(
                f"round {number + 1}/{options.rounds} {name}: {statistics.median(rates[name]):,.0f} rows/s",
                flush=True,
            )
    return rates


def report(options: argparse.Namespace, rates: dict[str, list[float]]) -> None:
    """The table, and the same as JSON."""
    ceiling = statistics.median(rates["identity"]) if rates.get("identity") else None
    results: list[dict[str, Any]] = []
    print(f"\n{'contender':<22}{'rows/s':>12}{'of identity':>13}")
    for name, values in rates.items():
        median = statistics.median(values)
        ratio = round(median / ceiling, 3) if ceiling else None
        print(f"{name:<22}{median:>12,.0f}{ratio if ratio is not None else '-':>13}")
        parameters = {k: v for k, v in vars(options).items() if k != "only"}
        results.append(
            {"name": name, "rows_per_s": round(median), "ratio_to_identity": ratio, "parameters": parameters}
        )
    target = HERE / "results" / "throughput.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {target}")


if __name__ == "__main__":
    main()
