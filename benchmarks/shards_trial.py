"""How many stores should a slot have? Reads, writes, flush and checkpoint of 1 to 32 RocksDB stores in one
process.

    python benchmarks/shards_trial.py                 # the table of docs/rfcs/0002-shards.md
    python benchmarks/shards_trial.py --keys 200000 --shards 1 16
    python benchmarks/shards_trial.py --keys 5000 --epoch-keys 5000 --epochs 4 --states 24 --shards 8 --budget-mib 1

Each number of stores is measured in a process of its own, ``--rounds`` times in turn; the table shows
medians. Work goes through the same stores and the same memory budget as in a job: an epoch reads 50 k
distinct keys, changes all of them in one commit, every tenth epoch takes a snapshot. The last line above is the trial
of write buffers that are too small for the memtables of a slot (``memory.LEAST_MEMTABLE``).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sparkstate.backends.base import ShardStore, StateKind, TableChanges, TableSpec
from sparkstate.backends.loader import create_store_factory
from sparkstate.keygroups import KeySpace
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

EPOCH_KEYS = 50_000
MAX_PARALLELISM = 128


class Slot:
    """``shards`` stores with ``states`` value tables each."""

    def __init__(self, shards: int, states: int, directory: Path, budget_mib: int) -> None:
        settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=budget_mib * MIB)
        self.directory = directory
        self.space = KeySpace(MAX_PARALLELISM, shards)
        self.factory = create_store_factory(settings, directory)
        self.specs = [
            TableSpec("trial", f"state-{number}", StateKind.VALUE, Types.LONG(), Types.LONG())
            for number in range(states)
        ]
        self.stores: list[ShardStore] = [
            self.factory.create(shard, self.space.key_groups_of_shard(shard), directory / str(shard))
            for shard in range(shards)
        ]

    def split(self, keys: list[int]) -> list[list[int]]:
        """The keys of each shard; the key group is a stand-in for Spark's hash."""
        parts: list[list[int]] = [[] for _ in self.stores]
        for key in keys:
            parts[self.space.shard_of_key_group(key * 2654435761 % MAX_PARALLELISM)].append(key)
        return parts

    def read(self, parts: list[list[int]]) -> None:
        for store, keys in zip(self.stores, parts, strict=True):
            groups = [key * 2654435761 % MAX_PARALLELISM for key in keys]
            for spec in self.specs:
                store.table(spec).get_many(groups, keys)

    def write(self, parts: list[list[int]], value: int) -> None:
        for store, keys in zip(self.stores, parts, strict=True):
            groups = {key: key * 2654435761 % MAX_PARALLELISM for key in keys}
            values = dict.fromkeys(keys, value)
            store.commit([TableChanges(spec, values=values) for spec in self.specs], groups)

    def snapshot(self, number: int, known: set[str]) -> tuple[float, float, int, int]:
        """Seconds of flush and of the rest, new SST files, other files."""
        flush = rest = 0.0
        new = other = 0
        for store in self.stores:
            directory = self.directory / f"snapshot-{number}-{store.shard}"
            directory.mkdir()
            started = time.perf_counter()
            store.database().flush()
            flushed = time.perf_counter()
            snapshot = store.prepare_snapshot(number, directory, canonical=False)
            rest += time.perf_counter() - flushed
            flush += flushed - started
            for file in snapshot.files():
                if not file.shared:
                    other += 1
                elif file.identity not in known:
                    known.add(file.identity)
                    new += 1
            snapshot.release()
        return flush, rest, new, other


def measure(
    shards: int, states: int, keys: int, budget_mib: int, epoch_keys: int, epochs: int
) -> dict[str, float]:
    """One process, one number of stores."""
    random_source = random.Random(7)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        slot = Slot(shards, states, Path(folder), budget_mib)
        load = time.perf_counter()
        for start in range(0, keys, epoch_keys):
            slot.write(slot.split(list(range(start, min(start + epoch_keys, keys)))), start)
        load = time.perf_counter() - load
        known: set[str] = set()
        slot.snapshot(0, known)
        spans, reads, writes, flushes, checkpoints, files, others = [], [], [], [], [], [], []
        for epoch in range(1, epochs + 1):
            parts = slot.split(random_source.sample(range(keys), epoch_keys))
            started = time.perf_counter()
            slot.read(parts)
            read = time.perf_counter()
            slot.write(parts, epoch)
            reads.append(epoch_keys * states / (read - started))
            writes.append(epoch_keys * states / (time.perf_counter() - read))
            spans.append((time.perf_counter() - started) * 1000)
            if epoch % (epochs // 2) == 0:
                flush, rest, new, other = slot.snapshot(epoch, known)
                flushes.append(flush * 1000)
                checkpoints.append(rest * 1000)
                files.append(new)
                others.append(other)
        slot.factory.close()
    return {
        "epoch ms": statistics.median(spans),
        "load k/s": keys * states / load / 1000,
        "read k/s": statistics.median(reads) / 1000,
        "write k/s": statistics.median(writes) / 1000,
        "flush ms": statistics.median(flushes),
        "checkpoint ms": statistics.median(checkpoints),
        "new SST": statistics.median(files),
        "other files": statistics.median(others),
        "RSS MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--states", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--budget-mib", type=int, default=256)
    parser.add_argument("--epoch-keys", type=int, default=EPOCH_KEYS)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(
            json.dumps(
                measure(
                    arguments.shards[0],
                    arguments.states[0],
                    arguments.keys,
                    arguments.budget_mib,
                    arguments.epoch_keys,
                    arguments.epochs,
                )
            )
        )
        return
    for states in arguments.states:
        print(f"\n{arguments.keys} keys, {states} state(s) per key, {arguments.budget_mib} MiB, ", end="")
        print(f"medians of {arguments.rounds}")
        results: dict[int, list[dict[str, float]]] = {shards: [] for shards in arguments.shards}
        for _ in range(arguments.rounds):
            for shards in arguments.shards:
                command = [
                    sys.executable,
                    __file__,
                    "--one",
                    "--shards",
                    str(shards),
                    "--states",
                    str(states),
                ]
                command += ["--keys", str(arguments.keys), "--budget-mib", str(arguments.budget_mib)]
                command += ["--epoch-keys", str(arguments.epoch_keys), "--epochs", str(arguments.epochs)]
                results[shards].append(
                    json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                )
        names = list(results[arguments.shards[0]][0])
        print("| stores | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
        for shards, runs in results.items():
            cells = [f"{statistics.median(run[name] for run in runs):.0f}" for name in names]
            print(f"| {shards} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
