"""One slot's life with one candidate's options, in this process: fill the state, change random keys, count.

``way`` ``store``: an epoch's keys are read with sorted multi-gets and written in one commit. ``slot``: a real operator
does the same record by record, and what the epoch changes goes to disk where it exceeds its share of the memory.
``batches``: the same operator on Arrow batches.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocks import spare, usage
from rocks.candidates import CANDIDATES, TrialFactory
from sparkstate import KeyedBatchFunction, columns
from sparkstate.backends.base import StateKind, TableChanges, TableSpec
from sparkstate.clock import SystemClock
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.state.descriptors import ValueStateDescriptor

GROUPS = 128
READ_ROWS = 2048
FILL_ROWS = 20_000
KEY_BYTES = 12
"""Of a row: key group, key, namespace."""
SPEC = TableSpec("trial", "payload", StateKind.VALUE, Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE()))


@dataclass(frozen=True)
class Load:
    """What a life consists of. Sizes in bytes; ``times`` is how many times the managed memory the state has."""

    way: str = "store"
    value: int = 512
    times: float = 10
    budget_mib: int = 8
    shards: int = 2
    epochs: int = 8
    touched: float = 0.23
    """The part of all keys that an epoch touches (``large``: 150,000 of 655,360 in a slot)."""
    compressible: bool = False
    checkpoints: bool = False
    ahead: spare.Ahead = "none"
    pause: float = 0.0
    """Seconds after each epoch in which the slot has nothing to do."""
    merge_in_pauses: bool = False
    """RocksDB merges files only in the pauses."""
    cold: bool = False
    """Files are dropped from the page cache before each epoch."""
    statistics: bool = False

    @property
    def keys(self) -> int:
        return int(self.times * self.budget_mib * MIB / (self.value + KEY_BYTES))

    @property
    def epoch_rows(self) -> int:
        return max(1, int(self.keys * self.touched))


class Values:
    """Payloads: slices of noise, or of text in which only numbers differ."""

    def __init__(self, load: Load) -> None:
        chance = random.Random(1)
        if load.compressible:
            words = (f'"field_{n % 40}": {chance.randrange(10**6)}, ' for n in range(100_000))
            self._noise = "".join(words).encode()
        else:
            self._noise = chance.randbytes(2 * MIB)
        self._size = load.value

    def of(self, key: int, version: int) -> bytes:
        at = (key * 7919 + version * 104_729) % (len(self._noise) - self._size)
        return self._noise[at : at + self._size]

    def of_all(self, keys: pa.Array, versions: pa.Array) -> pa.Array:
        """The same for many keys."""
        starts = (keys.to_numpy() * 7919 + versions.to_numpy() * 104_729) % (len(self._noise) - self._size)
        data = self._windows[starts]
        ends = np.arange(len(keys) + 1, dtype=np.int32) * self._size
        return pa.Array.from_buffers(pa.binary(), len(keys), [None, pa.py_buffer(ends), pa.py_buffer(data)])

    @functools.cached_property
    def _windows(self) -> np.ndarray:
        return np.lib.stride_tricks.sliding_window_view(np.frombuffer(self._noise, np.uint8), self._size)


class Payload(KeyedProcessFunction):
    """Reads and replaces the value of every record's key."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def open(self, ctx: Any) -> None:
        self.payload = ctx.get_state(ValueStateDescriptor("payload", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        old = self.payload.value()
        self.payload.update(self._values.of(row.k, row.v))
        yield row.k, 0 if old is None else len(old)


class PayloadBatches(KeyedBatchFunction):
    """The same over Arrow batches."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def open(self, ctx: Any) -> None:
        self.payload = ctx.get_state(ValueStateDescriptor("payload", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        sizes = pc.binary_length(self.payload.get(keys, default=b""))
        self.payload.update(keys, self._values.of_all(keys.values, keys.last("v")))
        yield pa.RecordBatch.from_arrays([keys.values, sizes.cast(pa.int64())], names=["k", "size"])


FUNCTIONS = {"slot": Payload, "batches": PayloadBatches}


class Slot:
    """Stores, and the operator where the way is not ``store``."""

    def __init__(self, candidate: str, load: Load, directory: Path) -> None:
        self.load = load
        self.values = Values(load)
        settings = StateBackendSettings(
            type="rocksdb",
            managed_memory_bytes=load.budget_mib * MIB,
            native_metrics=("block-cache-hit",) if load.statistics else (),
        )
        self.directory = directory
        self.factory = TrialFactory(settings, directory, SystemClock(), CANDIDATES[candidate])
        self.space = KeySpace(GROUPS, load.shards)
        self.stores = {
            shard: self.factory.create(
                shard, self.space.key_groups_of_shard(shard), directory / f"shard-{shard}"
            )
            for shard in range(load.shards)
        }
        self._operator: Any = self._make_operator() if load.way in FUNCTIONS else None
        self._known: set[str] = set()
        self.uploaded = 0
        self._ahead = spare.ReadAhead(self._tables)
        self.wall_s = 0.0
        """Of the epochs without their pauses."""

    def _make_operator(self) -> Any:
        spec = kinds.spec(
            FUNCTIONS[self.load.way](self.values),
            uid=SPEC.uid,
            row_columns=("k", "v"),
            key_columns=("k",),
            key_type=Types.LONG(),
            output_schema=pa.schema([("k", pa.int64()), ("size", pa.int64())]),
        )
        self.budget = EpochBudget(self.directory / "overlays", self.factory)
        operator = kinds.make(spec, self.stores, self.space, SystemClock(), 0, 1, self.budget)
        operator.open()
        return operator

    def _by_shard(self, keys: np.ndarray) -> Iterator[tuple[Any, list[int], list[int]]]:
        groups = (keys * 2654435761 & 0x7FFFFFFF) % GROUPS
        shards = groups * self.load.shards // GROUPS
        for shard, store in self.stores.items():
            mine = shards == shard
            yield store, keys[mine].tolist(), groups[mine].tolist()

    def _tables(self, keys: np.ndarray) -> Iterator[tuple[Any, list[int], list[int]]]:
        for store, mine, groups in self._by_shard(keys):
            yield store.table(SPEC), mine, groups

    def write(self, keys: np.ndarray, version: int) -> None:
        """One commit per store."""
        for store, mine, groups in self._by_shard(keys):
            values = {key: self.values.of(key, version) for key in mine}
            store.commit([TableChanges(SPEC, values=values)], dict(zip(mine, groups, strict=True)))

    def epoch(self, keys: np.ndarray, version: int, following: np.ndarray) -> None:
        """Read and replace these keys. ``following``: those of the next epoch."""
        if self.load.cold:
            spare.cool(store.database().path for store in self.stores.values())
        begun = time.perf_counter()
        if self.load.ahead == "epoch":
            self._ahead.begin(following)
        if self._operator is None:
            parts = (keys[at : at + READ_ROWS] for at in range(0, len(keys), READ_ROWS))
            for part in self._parts(parts, lambda part: part):
                for table, mine, groups in self._tables(part):
                    assert None not in table.get_many(groups, mine)
            self._ahead.wait()  # a commit changes what it reads
            self.write(np.unique(keys), version)
        else:
            self._operate(keys, version)
        if self.load.checkpoints:
            self._checkpoint(version)
        self.wall_s += time.perf_counter() - begun

    def _parts(
        self, parts: Iterable[spare.Part], keys_of: Callable[[spare.Part], np.ndarray]
    ) -> Iterable[spare.Part]:
        return self._ahead.parts(parts, keys_of) if self.load.ahead == "part" else parts

    def pause(self) -> None:
        """Nothing to do; in the end, merges that are allowed have ended."""
        databases = [store.database() for store in self.stores.values()]
        if self.load.merge_in_pauses:
            spare.merge(databases, allowed=True)
        time.sleep(self.load.pause)
        if self.load.merge_in_pauses:
            self.settle()
            spare.merge(databases, allowed=False)

    def _operate(self, keys: np.ndarray, version: int) -> None:
        overlay = self._operator.begin(version, MIN_WATERMARK, 0)
        groups = (keys * 2654435761 & 0x7FFFFFFF) % GROUPS
        batch = pa.record_batch(
            [pa.array(keys), pa.array(np.full(len(keys), version)), pa.array(groups.astype(np.int32))],
            names=["k", "v", columns.KEY_GROUP],
        )
        parts = self.budget.parts(SPEC.uid, batch)
        for part in self._parts(parts, lambda part: part.column("k").to_numpy()):
            self._operator.process_batch(overlay, part)
        self._ahead.wait()
        self._operator.finish(overlay, MIN_WATERMARK)
        commit_overlays([(self._operator, overlay)])
        overlay.close()

    def _checkpoint(self, number: int) -> None:
        for shard, store in self.stores.items():
            directory = self.directory / f"snapshot-{number}-{shard}"
            directory.mkdir()
            snapshot = store.prepare_snapshot(number, directory, canonical=False)
            for file in snapshot.files():
                if not file.shared or file.identity not in self._known:
                    self.uploaded += file.size
                    self._known.add(file.identity)
            snapshot.release()

    def settle(self) -> None:
        """Wait for flushes and compactions: what an epoch owes counts as its own."""
        # Not compaction-pending: with some options it stays 1 while nothing runs.
        names = ("num-running-compactions", "num-running-flushes")
        quiet = 0
        while quiet < 8:
            time.sleep(0.05)
            families = [f for s in self.stores.values() for f in s.database().families().values()]
            busy = any(family.integer(f"rocksdb.{name}") for family in families for name in names)
            quiet = 0 if busy else quiet + 1

    def disk_bytes(self) -> int:
        """Of tables and blobs."""
        total = 0
        for store in self.stores.values():
            for file in os.scandir(store.database().path):
                with contextlib.suppress(FileNotFoundError):  # a compaction was done with it
                    total += file.stat().st_size if file.name.endswith((".sst", ".blob")) else 0
        return total

    def hit_ratio(self) -> float | None:
        """Of the block cache, all kinds of blocks."""
        totals: dict[str, int] = {}
        for store in self.stores.values():
            for line in store.database().statistics().splitlines():
                name, _, rest = line.partition(" COUNT : ")
                if name in ("rocksdb.block.cache.hit", "rocksdb.block.cache.miss"):
                    totals[name] = totals.get(name, 0) + int(rest)
        if not totals:
            return None
        hits = totals["rocksdb.block.cache.hit"]
        return hits / max(1, hits + totals["rocksdb.block.cache.miss"])


def live(candidate: str, load: Load, directory: Path) -> dict[str, float]:
    """Figures of the epochs after the state was filled and one more epoch."""
    slot = Slot(candidate, load, directory)
    chance = np.random.default_rng(5)
    order = chance.permutation(load.keys)
    for start in range(0, load.keys, FILL_ROWS):
        slot.write(order[start : start + FILL_ROWS], 0)
    epochs = [chance.integers(0, load.keys, load.epoch_rows) for _ in range(load.epochs + 1)]
    slot.epoch(epochs[0], 1, epochs[1])
    slot.settle()
    slot.pause()
    slot.uploaded, slot.wall_s = 0, 0.0
    before = usage.used()
    memory = 0
    space: list[int] = []
    for version, (keys, following) in enumerate(itertools.pairwise([*epochs[1:], epochs[0]]), 2):
        slot.epoch(keys, version, following)
        slot.pause()
        memory = max(memory, slot.factory.memory()["used"])
        space.append(slot.disk_bytes())
    slot.settle()
    spent = usage.used().since(before)
    rows = load.epochs * load.epoch_rows
    user = rows * (load.value + KEY_BYTES)
    figures = {
        "wall": slot.wall_s / rows * 1e6,
        "cpu": spent.cpu_s / rows * 1e6,
        "compact": spent.compacting_s / rows * 1e6,
        "flush": spent.flushing_s / rows * 1e6,
        "read": spent.read_bytes / rows,
        "written": spent.written_bytes / rows,
        "write amp": spent.written_bytes / user,
        "space amp": max(space) / (load.keys * (load.value + KEY_BYTES)),
        "used/budget": memory / (load.budget_mib * MIB),
        "resident MiB": usage.peak_resident_bytes() / MIB,
    }
    if load.checkpoints:
        figures["upload amp"] = slot.uploaded / user
    hits = slot.hit_ratio()
    if hits is not None:
        figures["cache hits"] = hits
    slot.factory.close()
    return figures
