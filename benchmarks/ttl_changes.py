"""Costs of a changed time-to-live at the restore: processor time per value, and bytes that are written anew.

    .venv/bin/python benchmarks/ttl_changes.py                 400,000 values of 200 bytes, both backends
    .venv/bin/python benchmarks/ttl_changes.py --values 50000

One store of a slot is filled and told of each change in turn (``ExpiringStore.adopt``), without Spark. None of the
values has expired. ``new MB`` are in files that RocksDB has written since. The next incremental checkpoint uploads
all of these files.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from sparkstate.backends import loader
from sparkstate.backends.base import StateKind, TableChanges, TableSpec
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.expiring import Times, TimeToLive, with_ttl
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

PLAIN = TableSpec("op", "values", StateKind.VALUE, Types.LONG(), Types.STRING())
HOUR = TimeToLive(3_600_000)
CHANGES: tuple[tuple[str, TimeToLive | None], ...] = (
    ("switched on", HOUR),
    ("shorter", TimeToLive(HOUR.length_ms // 2)),
    ("longer", HOUR),
    ("to event time", TimeToLive(HOUR.length_ms, True)),
    ("switched off", None),
)
NOW = Times(1_000_000, 2_000_000)


def spec_of(ttl: TimeToLive | None) -> TableSpec:
    """The state under that time-to-live."""
    assert PLAIN.value_type is not None
    return dataclasses.replace(PLAIN, value_type=with_ttl(PLAIN.value_type, ttl))


def fill(store: Any, values: int, value_bytes: int) -> None:
    """Random text: RocksDB compresses what repeats."""
    rng = random.Random(5)
    for start in range(0, values, 1000):
        made = {key: rng.randbytes(value_bytes // 2).hex() for key in range(start, start + 1000)}
        store.commit([TableChanges(PLAIN, values=made)], {key: key % 128 for key in made})


class Checkpoints:
    """Of the store alone, into folders of their own."""

    def __init__(self, store: Any, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._known: set[str] = set()
        self._number = 0

    def take(self) -> float:
        """Bytes in files that are new since the last one, in MB."""
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir(parents=True)
        taken = self._store.prepare_snapshot(self._number, folder, False)
        sizes = {file.name: file.size for file in taken.files() if file.shared}
        fresh = sum(size for name, size in sizes.items() if name not in self._known)
        self._known = set(sizes)
        taken.release()
        return fresh / 1e6


def changes(backend: Any, values: int, value_bytes: int, folder: Path) -> None:
    """Print a line for each."""
    settings = StateBackendSettings(type=backend, managed_memory_bytes=256 * MIB)
    factory = loader.create_store_factory(settings, folder / "factory")
    store: Any = factory.create(0, KeyGroupRange(0, 127), folder / "store")
    fill(store, values, value_bytes)
    checkpoints = Checkpoints(store, folder / "checkpoints")
    checkpoints.take()
    for name, ttl in CHANGES:
        began = time.process_time()
        store.adopt(spec_of(ttl), NOW)
        per_value_us = (time.process_time() - began) * 1e6 / values
        store.table(spec_of(ttl))
        anew = f"{checkpoints.take():>6.1f}" if backend == "rocksdb" else ""
        print(f"{backend:>8} {name:>14} {per_value_us:>11.2f} {anew}", flush=True)
    store.close()
    factory.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--values", type=int, default=400_000)
    parser.add_argument("--bytes", type=int, default=200, help="of a value")
    wanted = parser.parse_args()
    print(f"{'backend':>8} {'change':>14} {'µs per value':>11} {'new MB':>6}")
    for backend in ("hashmap", "rocksdb"):
        with tempfile.TemporaryDirectory(prefix="sparkstate-ttl-") as folder:
            changes(backend, wanted.values, wanted.bytes, Path(folder))


if __name__ == "__main__":
    main()
