"""The same random life through the compiled record path and through the Python path, on stores of their own.

A row's ``what`` says what the function does with its states and timers, ``how`` in which form it answers. An answer may
be of any form, so that output columns built in C meet all that they have to leave to Python.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support.operators import driven as ops

from sparkstate import columns
from sparkstate.backends import canonical
from sparkstate.backends.base import ShardStore, StateKind, StoreFactory
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction, OutputTag, ReduceFunction, TimeDomain
from sparkstate.operators import base, compiled
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.testing import ManualClock

LONGS = (0, 1, 7, -1, 2**63 - 1, -(2**63), 8, 100_000, None)
TEXTS = ("", "a", "b", "zero\0", "ü", None)
NUMBERS = (0, 1, 255, 256, 257, 1000, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
STATES = ("total", "count", "word", "list", "map", "sum")
SPACES = (None, 0, -3, "n", ("t", 1))
OUTPUT = pa.schema(
    [("k", pa.int64()), ("i", pa.int32()), ("x", pa.float64()), ("b", pa.bool_()), ("s", pa.string())]
)
SIDE = OutputTag("side", Types.LONG())
UNREAD = OutputTag("unread", Types.LONG())


class Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Whole:
    """A number that is none, until it is asked."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Life(KeyedProcessFunction):
    """``what`` and ``how`` of a row choose from ``ACTIONS`` and ``ANSWERS``."""

    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.word = ctx.get_state(ValueStateDescriptor("word", Types.STRING()))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.sum = ctx.get_reducing_state(ReducingStateDescriptor("sum", Sum(), Types.LONG()))
        self.kept: list[Any] = []

    def process_element(self, value, ctx):
        action = ACTIONS[value.what]
        answer = ANSWERS[value.how] if value.how >= 0 else BROKEN[-value.how - 1]
        seen = action(self, value, ctx)
        if value.how % 2:  # a row that nobody keeps may be used again for the next one
            self.kept.append((value, hash(value), tuple(value)))
        return answer(self, value, ctx, seen)

    def on_timer(self, timestamp, ctx):
        self.total.update((self.total.value() or 0) ^ (timestamp & 1023))
        self.count.set_current_namespace(timestamp % 3)
        self.count.update((self.count.value() or 0) + 1)
        if timestamp % 4 == 0:
            ctx.timer_service().register_event_time_timer(timestamp + 3, ctx.namespace())
        yield ctx.timestamp(), timestamp % 100, None, True, repr((ctx.get_current_key(), self.total.value()))


def _add(life: Life, row: Any, ctx: Any) -> Any:
    total = ((life.total.value() or 0) + row.n) % 2**63
    life.total.update(total)
    life.count.update((life.count.value() or 0) + 1)
    return total


def _update(life: Life, row: Any, ctx: Any) -> Any:
    life.total.update(row.n)
    return life.total.value()


def _clear(life: Life, row: Any, ctx: Any) -> Any:
    life.total.clear()
    return life.total.value()


def _clear_after(life: Life, row: Any, ctx: Any) -> Any:
    life.total.update(row.n)
    life.total.clear()
    life.count.update(None)
    return life.count.value()


def _unusual(life: Life, row: Any, ctx: Any) -> Any:
    small = row.n % 2**31
    life.total.update([np.int64(small), np.int32(small), Whole(small), np.uint8(small % 256)][row.how % 4])
    return life.total.value()


def _spaced(life: Life, row: Any, ctx: Any) -> Any:
    life.total.set_current_namespace(SPACES[row.how % len(SPACES)])
    before = life.total.value()
    life.total.update(row.n)
    life.count.update(1)
    life.total.set_current_namespace(None)
    return (life.total.value() or 0) ^ (before or 0)


def _spaced_and_cleared(life: Life, row: Any, ctx: Any) -> Any:
    life.count.set_current_namespace(SPACES[row.how % len(SPACES)])
    life.count.update(row.n)
    life.count.clear()
    life.total.set_current_namespace("n")
    return life.total.value()


def _others(life: Life, row: Any, ctx: Any) -> Any:
    life.word.update(f"{life.word.value()}{row.how}"[-9:])
    life.list.add(row.n)
    life.map.put(row.n, row.how)
    life.sum.add(row.n % 1000)
    return life.sum.get()


def _timers(life: Life, row: Any, ctx: Any) -> Any:
    service = ctx.timer_service()
    service.register_event_time_timer(row.how * 3, None if row.how % 2 else "n")
    service.delete_event_time_timer(row.how * 2)
    service.register_processing_time_timer(row.how)
    return ctx.timestamp()


def _late(life: Life, row: Any, ctx: Any) -> Any:
    ctx.late_rows += row.how % 2
    return ctx.timer_service().current_watermark()


def _refused(value: Any) -> Callable[[Life, Any, Any], Any]:
    def refused(life: Life, row: Any, ctx: Any) -> Any:
        try:
            life.total.update(value)
        except Exception as error:  # the text is the answer
            return str(error)
        raise AssertionError(value)

    return refused


ACTIONS: list[Callable[[Life, Any, Any], Any]] = [
    *[_add] * 6,
    _update,
    _clear,
    _clear_after,
    _unusual,
    _spaced,
    _spaced_and_cleared,
    _others,
    _timers,
    _late,
    *(_refused(value) for value in (2**63, -(2**63) - 1, True, 1.0, "1", Whole(2**70))),
]


def _long(seen: Any) -> Any:
    return seen if type(seen) is int and -(2**63) <= seen < 2**63 else None


def _row(life: Life, row: Any, ctx: Any, seen: Any) -> tuple[Any, ...]:
    return _long(seen), row.how, row.x, row.b, seen if isinstance(seen, str) else row.s


def _yields(life: Life, row: Any, ctx: Any, seen: Any) -> Iterator[Any]:
    for place in range(row.how % 3 + 1):
        yield (ctx.get_current_key(), place, float(place), place == 1, f"{row.s}…{place}")
    yield _row(life, row, ctx, seen)


def _changed(index: int, *values: Any) -> Callable[..., Iterator[Any]]:
    """One column has a value of another form."""

    def changed(life: Life, row: Any, ctx: Any, seen: Any) -> Iterator[Any]:
        given = list(_row(life, row, ctx, seen))
        given[index] = values[row.how % len(values)]
        yield tuple(given)
        yield _row(life, row, ctx, seen)

    return changed


def _raises(life: Life, row: Any, ctx: Any, seen: Any) -> Iterator[Any]:
    yield _row(life, row, ctx, seen)
    raise ValueError(f"after the first of {row!r}")


ANSWERS: list[Callable[..., Any]] = [
    *[_yields] * 4,
    lambda life, row, ctx, seen: None,
    lambda life, row, ctx, seen: [_row(life, row, ctx, seen)] * (row.how % 4),
    lambda life, row, ctx, seen: (_row(life, row, ctx, seen),),
    lambda life, row, ctx, seen: iter([_row(life, row, ctx, seen)]),
    lambda life, row, ctx, seen: map(list, [_row(life, row, ctx, seen)]),
    lambda life, row, ctx, seen: [dict(zip(OUTPUT.names, _row(life, row, ctx, seen), strict=True))],
    lambda life, row, ctx, seen: [type("Own", (tuple,), {})(_row(life, row, ctx, seen))],
    lambda life, row, ctx, seen: [(SIDE, (row.how,)), _row(life, row, ctx, seen)],
    lambda life, row, ctx, seen: [
        _row(life, row, ctx, seen),
        (UNREAD, (row.how,)),
        _row(life, row, ctx, seen),
    ],
    _changed(0, np.int64(5), np.uint8(5), 2**63 - 1, -(2**63)),
    _changed(1, 2**31 - 1, -(2**31), np.int32(3)),
    _changed(2, 2**53, -(2**53), 7, float("nan"), float("-inf"), -0.0, np.float64(1.5), np.float32(0.5)),
    _changed(3, np.bool_(True), None),
    _changed(4, "\0", "𝄞", "x" * 5000, np.str_("s"), ""),
]
BROKEN: list[Callable[..., Any]] = [
    _raises,
    _changed(0, 2**63, True, 1.5, "1", (), SIDE),
    _changed(1, 2**31, -(2**31) - 1, False),
    _changed(2, 2**53 + 1, "x", True),
    _changed(3, 1, "x"),
    _changed(4, "\ud800", 1, b"\xff"),
    lambda life, row, ctx, seen: [_row(life, row, ctx, seen)[:4]],
    lambda life, row, ctx, seen: [(*_row(life, row, ctx, seen), 1)],
    lambda life, row, ctx, seen: [()],
    lambda life, row, ctx, seen: [None],
    lambda life, row, ctx, seen: "text",
    lambda life, row, ctx, seen: 5,
    lambda life, row, ctx, seen: [{"k": 1}],
]
"""Answers that end the epoch."""


@contextmanager
def variable(value: str) -> Iterator[None]:
    """``SPARKSTATE_COMPILED`` for operators that are made within."""
    before = os.environ.get(compiled.VARIABLE)
    os.environ[compiled.VARIABLE] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[compiled.VARIABLE]
        else:
            os.environ[compiled.VARIABLE] = before


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
        self.savepoints = 0
        self.open(is_compiled)

    def open(self, is_compiled: bool) -> None:
        """Begin anew on the committed state, on one of the two paths."""
        self.function = Life()
        budget = (
            None if self.limit is None else EpochBudget(self.folder / "overlays", self.factory, self.limit)
        )
        with variable("1" if is_compiled else "0"):
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
        """The bytes of a snapshot in the canonical format. Where overlays go to disk, its rows: the places of list
        elements count how often that was."""
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
    file = canonical.CanonicalFile(path)
    kinds = [table.kind for table in file.tables]
    rows = list(file.rows(store.key_groups))
    # Elements of a list are in their order.
    return [row._replace(sub=b"") if kinds[row.table] is StateKind.LIST else row for row in rows] + kinds


def run_both(sides: tuple[Side, Side], life: list[Epoch], keys: tuple[Any, ...]) -> None:
    """The life on both; whatever can be seen is equal after each epoch."""
    before = MIN_WATERMARK
    for number, epoch in enumerate(life):
        one, other = [repr(side.epoch(number, epoch, before)) for side in sides]
        assert one == other
        before = epoch.watermark
    one, other = [repr(list(side.state(keys))) for side in sides]
    assert one == other
