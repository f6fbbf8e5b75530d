"""Fills the RocksDB stores of one slot far beyond their budget and reports how much memory that took.

    python -m support.backends.memory_probe DIRECTORY STORES BUDGET_MIB

Prints JSON: the largest values seen of cache and write buffers, of the process's resident memory above what it was
before the stores were filled, and how much was stored.
"""

from __future__ import annotations

import gc
import json
import random
import sys
from pathlib import Path

from support.backends import cells

from sparkstate.backends.base import StateKind, TableChanges, TableSpec
from sparkstate.backends.loader import create_store_factory
from sparkstate.keygroups import KeySpace
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

EPOCHS = 30
KEYS_PER_EPOCH = 4_000
KEYS = 100_000


def resident_bytes() -> int:
    """Memory of this process that is its own; mapped files are the kernel's to take back."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon in /proc/self/status")


def main(directory: Path, shards: int, budget_mib: int) -> dict[str, int]:
    """One slot's life under pressure."""
    factory = create_store_factory(
        StateBackendSettings(type="rocksdb", managed_memory_bytes=budget_mib * MIB), directory
    )
    space = KeySpace(128, shards)
    stores = [
        factory.create(shard, space.key_groups_of_shard(shard), directory / str(shard))
        for shard in range(shards)
    ]
    specs = [
        TableSpec("op", f"s{number}", StateKind.VALUE, Types.LONG(), Types.STRING()) for number in range(3)
    ]
    chance = random.Random(11)
    payloads = [chance.randbytes(100).hex() for _ in range(64)]
    for store in stores:
        cells.commit(store, *[cells.values({1: "x"}, spec) for spec in specs])
        store.table(specs[0]).get_many([1], [1])
    gc.collect()
    before = resident_bytes()
    peak = dict.fromkeys(("cache", "write_buffers", "used", "resident"), 0)
    written = 0
    for epoch in range(EPOCHS):
        by_shard: list[list[int]] = [[] for _ in stores]
        for key in chance.sample(range(KEYS), KEYS_PER_EPOCH):
            by_shard[space.shard_of_key_group(cells.group_of(key))].append(key)
        for store, keys in zip(stores, by_shard, strict=True):
            groups = [cells.group_of(key) for key in keys]
            for spec in specs:
                store.table(spec).get_many(groups, keys)
            values = {key: payloads[(key + epoch) % 64] for key in keys}
            store.commit(
                [TableChanges(spec, values=values) for spec in specs], dict(zip(keys, groups, strict=True))
            )
            written += 3 * 200 * len(keys)
            now = {**factory.memory(), "resident": resident_bytes() - before}
            for name in peak:
                peak[name] = max(peak[name], now[name])
    result = {
        **peak,
        "budget": budget_mib * MIB,
        "cache_capacity": factory.memory()["cache_capacity"],
        "write_buffers_limit": factory.memory()["write_buffers_limit"],
        "column_buffers_limit": factory.memory()["column_buffers_limit"],
        "cache_at_end": factory.memory()["cache"],
        "written": written,
        "stored": sum(store.stats().bytes for store in stores),
    }
    factory.close()
    return result


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
