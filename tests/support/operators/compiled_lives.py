"""The same random life through the compiled record path and through the Python path, on stores of their own."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from support.operators import driven as ops
from support.operators.every_answer import ACTIONS, ANSWERS, NUMBERS, OUTPUT, SPACES, STATES, Life

from sparkstate import columns
from sparkstate.backends import canonical
from sparkstate.backends.base import ShardStore, StateKind, StoreFactory
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.functions import MIN_WATERMARK, TimeDomain
from sparkstate.operators import base, compiled
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.testing import ManualClock


@dataclass
class Epoch:
    """What happens in one epoch: batches of rows, the watermark at its end, and what becomes of it."""

    batches: list[list[dict[str, Any]]]
    watermark: int
    is_dropped: bool = False
    beside: list[list[dict[str, Any]]] = field(default_factory=list)
    """Batches of another overlay of the same epoch, which takes them in turn with this one and is given up."""


def epochs(
    chosen: random.Random, count: int, keys: tuple[Any, ...], broken: int | None = None
) -> list[Epoch]:
    """So many random epochs; the last one has the answer ``BROKEN[broken]``, which ends it."""
    made, watermark = [], 0
    for number in range(count):
        watermark += chosen.randrange(20)
        batches = [_batch(chosen, keys) for _ in range(chosen.randrange(1, 4))]
        if broken is not None and number == count - 1:
            chosen.choice(chosen.choice(batches))["how"] = -1 - broken
        beside = [_batch(chosen, keys)] if chosen.random() < 0.3 else []
        made.append(Epoch(batches, watermark, chosen.random() < 0.15, beside))
    return made


def _batch(chosen: random.Random, keys: tuple[Any, ...]) -> list[dict[str, Any]]:
    few = chosen.sample(keys, chosen.randrange(1, len(keys) + 1))
    return [
        {
            "k": chosen.choice(few),
            "n": chosen.choice(NUMBERS),
            "what": chosen.randrange(len(ACTIONS)),
            "how": chosen.choice([*range(4), chosen.randrange(len(ANSWERS))]),
            "x": chosen.choice([0.5, -1e300, float("nan"), None]),
            "b": chosen.choice([True, False, None]),
            "s": chosen.choice(["", "ä", "word", None]),
            columns.TIMESTAMP: chosen.choice([None, chosen.randrange(60)]),
        }
        for _ in range(chosen.choice([1, 5, 40, 40, 200]) if chosen.random() < 0.97 else 2500)
    ]


ROW = ("k", "n", "what", "how", "x", "b", "s")


class Side:
    """An operator over stores of its own, on one of the two paths."""

    def __init__(
        self, folder: Path, backend: str, key_type: Any, is_compiled: bool, limit: int | None
    ) -> None:
        self.folder, self.key_type, self.limit = folder, key_type, limit
        self.is_text = key_type.describe() == "STRING"
        self.factory: StoreFactory = HashMapStoreFactory()
        if backend == "rocksdb":
            settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=8 * MIB)
            self.factory = RocksDBStoreFactory(settings, folder, ManualClock())
        self.stores: dict[int, ShardStore] = {
            shard: self.factory.create(shard, ops.KEY_SPACE.key_groups_of_shard(shard), folder / str(shard))
            for shard in range(4)
        }
        self.savepoints = self.opened = 0
        self.open(is_compiled)

    def open(self, is_compiled: bool) -> None:
        """Begin anew on the committed state, on one of the two paths."""
        self.function = Life()
        self.opened += 1
        # An overlay that is given up takes its folder with it, whenever that is.
        folder = self.folder / f"overlays-{self.opened}"
        budget = None if self.limit is None else EpochBudget(folder, self.factory, self.limit)
        with mock.patch.dict(os.environ, {compiled.VARIABLE: "1" if is_compiled else "0"}):
            self.operator: base.Operator[Any] = ops.make_operator(
                self.function,
                self.stores,
                budget=budget,
                row_columns=ROW,
                key_columns=("k",),
                key_type=self.key_type,
                output_schema=OUTPUT,
                side_schemas={"side": pa.schema([("n", pa.int64())])},
            )
        found = type(self.function.total).__name__ == "CompiledLongHandle"
        assert found == (is_compiled and not self.is_text)

    def batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        kinds = {
            "k": pa.string() if self.is_text else pa.int64(),
            "n": pa.int64(),
            "what": pa.int32(),
            "how": pa.int16(),
            "x": pa.float64(),
            "b": pa.bool_(),
            "s": pa.string(),
            columns.TIMESTAMP: pa.int64(),
        }
        made = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
        made[columns.KEY_GROUP] = pa.array([ops.key_group(row["k"]) for row in rows], pa.int32())
        return pa.record_batch(made)

    def epoch(self, number: int, epoch: Epoch, before: int) -> Any:
        """What came of it: all that anybody can see."""
        operator = self.operator
        self.function.kept.clear()
        overlay, other = (
            operator.begin(number, before, number * 7),
            operator.begin(number, before, number * 7),
        )
        beside = iter(epoch.beside)
        try:
            for rows in epoch.batches:
                operator.process_batch(overlay, self.batch(rows))
                for more in beside:
                    operator.process_batch(other, self.batch(more))
            operator.finish(overlay, epoch.watermark)
        except Exception as error:  # all of it is compared
            return type(error), str(error), type(error.__cause__), str(error.__cause__)
        assert all(hash(row) == seen and tuple(row) == values for row, seen, values in self.function.kept)
        outputs = {
            tag: [batch for batch in overlay.output(tag) if batch.validate(full=True) is None]
            for tag in (None, "side")
        }
        tables = {tag: pa.Table.from_batches(batches) for tag, batches in outputs.items() if batches}
        counts = (
            overlay.rows_in,
            overlay.late_rows,
            overlay.dropped_rows,
            overlay.timers_fired,
            overlay.max_timestamp,
        )
        if not epoch.is_dropped:
            commit_overlays([(operator, overlay)])
        overlay.close()
        other.close()
        rows = {
            tag: list(map(repr, zip(*table.to_pydict().values(), strict=True)))
            for tag, table in tables.items()
        }
        if self.limit is not None:  # what went to disk fires in another order among keys of one timestamp
            rows = {tag: sorted(found) for tag, found in rows.items()}
        return rows, [table.schema for table in tables.values()], counts

    def state(self, keys: tuple[Any, ...]) -> Iterator[Any]:
        """Everything that is committed."""
        for key in keys:
            for name in STATES:
                for space in (*SPACES, 1, 2):
                    yield key, name, space, self.operator.read_value(name, key, space)
        for domain in TimeDomain:
            timers = [
                tuple(timer) for table in self.operator.timer_tables(domain) for timer in table.due(2**62)
            ]
            yield domain, sorted(timers, key=repr)

    def savepoint(self) -> dict[int, Any]:
        """The bytes of a snapshot in the canonical format. Where overlays go to disk, its rows."""
        found: dict[int, Any] = {}
        for shard, store in self.stores.items():
            self.savepoints += 1
            folder = self.folder / f"savepoint-{self.savepoints}"
            folder.mkdir(parents=True)
            snapshot = store.prepare_snapshot(self.savepoints, folder, True)
            (file,) = snapshot.files()
            found[shard] = file.path.read_bytes() if self.limit is None else _rows(file.path, store)
            snapshot.release()
        return found

    def close(self) -> None:
        self.operator.close()
        for store in self.stores.values():
            store.close()
        self.factory.close()


def _rows(path: Path, store: ShardStore) -> list[Any]:
    """Rows by the names of their tables: a timer that came and went on disk leaves an empty table. Elements of a list
    are in their order, whatever their places are."""
    file = canonical.CanonicalFile(path)
    found = []
    for row in file.rows(store.key_groups):
        table = file.tables[row.table]
        found.append((table.name, row.key, row.namespace, row.value, table.kind is StateKind.LIST or row.sub))
    return sorted(found, key=lambda row: row[0])  # stable: the rows of a table stay as they are


def run_both(sides: tuple[Side, Side], life: list[Epoch], keys: tuple[Any, ...]) -> None:
    """The life on both; whatever can be seen is equal after each epoch."""
    before = MIN_WATERMARK
    for number, epoch in enumerate(life):
        one, other = [repr(side.epoch(number, epoch, before)) for side in sides]
        assert one == other
        before = epoch.watermark
    one, other = [repr(list(side.state(keys))) for side in sides]
    assert one == other
