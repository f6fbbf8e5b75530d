"""A second kind of operator: on Arrow batches, with an overlay of its own form. A slot, the commit of an epoch and a
snapshot take it by the contract alone (``operators.base``); one line in ``operators.kinds`` is all that it needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops
from support.slots import slots

from sparkstate import columns, errors
from sparkstate.backends.base import ShardStore, StateKind, TableChanges, TableSpec
from sparkstate.functions import MIN_WATERMARK
from sparkstate.keygroups import KeySpace
from sparkstate.operators import base, kinds
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.user_metrics import UserMetrics
from sparkstate.serde.types import Types

TABLE = TableSpec(
    uid="sum", name="total", kind=StateKind.VALUE, key_type=Types.STRING(), value_type=Types.LONG()
)


@dataclasses.dataclass(frozen=True)
class SumOfBatchesSpec:
    uid: str = "sum"
    output_schema: pa.Schema | None = slots.OUT
    side_schemas: Mapping[str, pa.Schema] = dataclasses.field(default_factory=dict)
    emit_timestamps: bool = False
    rows_at_once: int = 0
    rows_wait_for_choice: bool = False


@dataclasses.dataclass
class Sums:
    """An overlay that has neither numbers of keys nor handles."""

    epoch: int
    totals: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Key group and new total, by key."""
    rows_in: int = 0
    late_rows: int = 0
    timers_fired: int = 0
    dropped_rows: int = 0
    finished: bool = False
    committed: bool = False
    dropped: bool = False
    unconverted: Mapping[str | None, list[Any]] = dataclasses.field(default_factory=dict)
    put_out: list[pa.RecordBatch] = dataclasses.field(default_factory=list)

    def output(self, tag: str | None = None) -> list[pa.RecordBatch]:
        return self.put_out

    def row_count(self, tag: str | None = None) -> int:
        return sum(batch.num_rows for batch in self.put_out)

    def forget_state(self) -> None:
        self.totals.clear()

    def close(self) -> None:
        self.dropped = True


class SumOfBatches:
    """The sum of ``v`` by ``k``: one row of output for each key of an epoch, when it is finished."""

    has_operator_state = False
    listens_to_checkpoints = False

    def __init__(
        self, spec: base.Spec, stores: Mapping[int, ShardStore], key_space: KeySpace, *_: Any
    ) -> None:
        self.spec = spec
        self.stores = stores
        self.metrics = UserMetrics(spec.uid)
        self._key_space = key_space
        self._tables: dict[int, Any] = {}

    def open(self) -> None:
        self._tables = {shard: store.table(TABLE) for shard, store in self.stores.items()}

    def close(self) -> None:
        pass

    def begin(self, epoch: int, watermark: int, processing_time: int) -> Sums:
        return Sums(epoch)

    def process_batch(self, overlay: Sums, batch: pa.RecordBatch) -> None:
        overlay.rows_in += batch.num_rows
        table = pa.Table.from_batches([batch]).group_by(["k", columns.KEY_GROUP]).aggregate([("v", "sum")])
        for row in table.to_pylist():
            key, kg = row["k"], row[columns.KEY_GROUP]
            _, before = overlay.totals.get(key) or (kg, self.read_value("total", key, None, kg) or 0)
            overlay.totals[key] = kg, before + row["v_sum"]

    def finish(self, overlay: Sums, watermark: int) -> None:
        rows = [(key, total) for key, (_, total) in overlay.totals.items()]
        overlay.put_out.append(pa.record_batch([list(each) for each in zip(*rows, strict=True)], slots.OUT))
        overlay.finished = True

    def commit_spilled(self, overlay: Sums) -> None:
        pass

    def changes(self, overlay: Sums) -> base.EpochChanges:
        by_shard: base.ShardChanges = {}
        for key, (kg, total) in overlay.totals.items():
            [changes] = by_shard.setdefault(self._key_space.shard_of_key_group(kg), [TableChanges(TABLE)])
            changes.values[key] = total
        return base.EpochChanges(by_shard, {key: kg for key, (kg, _) in overlay.totals.items()})

    def expire_state(self, overlay: Sums) -> base.Sweep:
        """Nothing here expires."""
        return base.Sweep()

    def commit_operator_state(self, overlay: Sums) -> None:
        pass

    def snapshot_operator_state(self, checkpoint_id: int, timestamp_ms: int) -> list[base.StateImage]:
        return []

    def notify(self, checkpoint_id: int, *, completed: bool) -> None:
        pass

    def next_timer(self) -> tuple[int | None, int | None]:
        return None, None

    def timer_tables(self, domain: Any) -> list[Any]:
        return []

    def read_value(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        assert key_group is not None
        return self._tables[self._key_space.shard_of_key_group(key_group)].get(key_group, key)

    read_state = read_value

    def read_operator_state(self, state: str) -> list[Any]:
        return []

    def process_rows(self, overlay: Sums, keys: Any, kgs: Any, stamps: Any, rows: Any) -> None:
        raise NotImplementedError

    def put_side(self, overlay: Sums, tag: str, rows: list[Any]) -> None:
        raise NotImplementedError


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[slots.Slot]:
    monkeypatch.setitem(kinds.KINDS, SumOfBatchesSpec, SumOfBatches)
    plan = dataclasses.replace(slots.plan(tmp_path), operators=(SumOfBatchesSpec(),))
    served = slots.Slot(tmp_path / "slot", plan)
    served.restore()
    yield served
    served.close()


def test_a_slot_runs_it_and_takes_the_attempt_that_the_driver_names(slot: slots.Slot) -> None:
    slot.feed(0, 1, slots.rows(("a", 1)), slots.rows(("a", 2), ("b", 5)))
    slot.feed(0, 2, slots.rows(("a", 100)))
    assert slot.finish(0, 1).rows_in == 3
    assert slot.output(0) == [{"k": "a", "total": 3}, {"k": "b", "total": 5}]
    assert slot.value("a") == "null"
    slot.commit(0)
    slot.release(0)
    slot.epoch(1, slots.rows(("a", 4)))
    assert (slot.value("a"), slot.value("b")) == ("7", "5")


def test_its_state_and_its_output_are_in_a_checkpoint(slot: slots.Slot) -> None:
    slot.epoch(0, slots.rows(("a", 1)))
    taken = slot.snapshot(1, 0)
    assert (taken.done, taken.failure) == (True, "")
    assert [(state.uid, state.name) for state in taken.states] == [("sum", "total")]
    assert len(taken.committables) == 1


def test_an_epoch_commits_both_kinds_in_one_write_per_shard() -> None:
    commits: list[list[str]] = []
    stores: dict[int, Any] = {n: ops.CountingStore(store, commits) for n, store in ops.make_stores().items()}
    on_batches: base.Operator[Sums] = SumOfBatches(SumOfBatchesSpec(), stores, ops.KEY_SPACE)
    keyed = ops.make_operator(
        slots.Sum(),
        stores,
        uid="keyed",
        row_columns=("k", "v"),
        key_columns=("k",),
        event_time_column=None,
        output_schema=None,
    )
    on_batches.open()
    parts: list[tuple[base.Operator[Any], base.EpochOverlay]] = []
    for operator in (on_batches, keyed):
        overlay = operator.begin(0, MIN_WATERMARK, 0)
        for kg in (0, 15):
            operator.process_batch(overlay, slots.rows((f"key-{kg}", 1), group=kg))
        parts.append((operator, overlay))
    with pytest.raises(errors.StateError, match="operator 'sum': epoch 0 is not finished"):
        commit_overlays(parts)
    for operator, overlay in parts:
        operator.finish(overlay, MIN_WATERMARK)
    commit_overlays(parts)
    assert commits == [["sum", "keyed"], ["sum", "keyed"]]  # shards 0 and 3
    assert [operator.read_value("total", "key-15", None, 15) for operator, _ in parts] == [1, 1]
