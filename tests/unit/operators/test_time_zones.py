"""Times that Spark sends in its session's time zone. At the end of summer time an hour comes twice there."""

from __future__ import annotations

import datetime
import socket
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import Types
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.rows.arrow_rows import column_values
from sparkstate.serde import utc_types
from sparkstate.slots import batches as wire
from sparkstate.slots.channel import Channel
from sparkstate.state.descriptors import ValueStateDescriptor

FIRST = 1_792_887_300_000_000
"""2026-10-25T00:15Z, a quarter past two in Berlin. An hour later it is a quarter past two there again."""
SECOND = FIRST + 3_600_000_000
BERLIN = pa.timestamp("us", "Europe/Berlin")
UTC = pa.timestamp("us", "UTC")


def instants(*micros: int) -> list[datetime.datetime]:
    return [datetime.datetime.fromtimestamp(each / 1e6, datetime.UTC) for each in micros]


class Sum(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value.amount)
        yield str(ctx.get_current_key()), self.total.value()


class SumBatches(KeyedBatchFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch: pa.RecordBatch, keys: Any, ctx: Any) -> Any:
        totals = keys.cumulative_sum("amount", start=self.total.get(keys))
        self.total.update(keys, totals.take(pa.array(keys.last_rows())))
        yield pa.record_batch({"user": batch.column("user"), "amount": totals})


@pytest.mark.parametrize("function", [Sum, SumBatches])
def test_keys_of_the_repeated_hour_are_two_and_find_their_state_again(function: Any, tmp_path: Path) -> None:
    def add(stores: Any, epoch: int) -> Any:
        operator = ops.make_operator(function(), stores, key_columns=("at",), key_type=Types.INSTANT())
        rows = ops.make_batch(("a", 1, 1), ("a", 10, 1), key_groups=[0, 0])
        batch = rows.append_column("at", pa.array([FIRST, SECOND], BERLIN))
        overlay = operator.begin(epoch, MIN_WATERMARK, 0)
        operator.process_batch(overlay, batch)
        operator.finish(overlay, MIN_WATERMARK)
        commit_overlays([(operator, overlay)])
        return [operator.read_state("total", key) for key in instants(FIRST, SECOND)]

    stores = ops.make_stores()
    assert add(stores, 1) == [1, 10]
    taken = stores[0].prepare_snapshot(1, tmp_path, True)
    restored = ops.make_stores()
    restored[0].restore({file.name: file.path for file in taken.files()}, taken.format)
    assert add(restored, 2) == [2, 20]


@pytest.mark.parametrize(
    ("given", "wanted", "value"),
    [
        (BERLIN, UTC, FIRST),
        (pa.list_(BERLIN), pa.list_(UTC), [FIRST]),
        (pa.large_list(BERLIN), pa.large_list(UTC), [FIRST]),
        (pa.list_(BERLIN, 1), pa.list_(UTC, 1), [FIRST]),
        (
            pa.struct({"at": BERLIN, "n": pa.int64()}),
            pa.struct({"at": UTC, "n": pa.int64()}),
            {"at": FIRST, "n": 1},
        ),
        (pa.map_(BERLIN, BERLIN), pa.map_(UTC, UTC), [(FIRST, SECOND)]),
    ],
    ids=str,
)
def test_values_of_every_shape_are_in_utc(given: pa.DataType, wanted: pa.DataType, value: Any) -> None:
    assert utc_types.in_utc(given) == wanted
    (found,) = column_values(pa.array([value], given))
    (same,) = column_values(pa.array([value], wanted))
    assert (found, str(found)) == (same, str(same))


@pytest.mark.parametrize(
    "kind", [UTC, pa.timestamp("us"), pa.list_(pa.string()), pa.map_(pa.string(), UTC)], ids=str
)
def test_other_types_stay_as_they_are(kind: pa.DataType) -> None:
    assert utc_types.in_utc(kind) == kind


def test_batches_come_to_a_slot_in_utc() -> None:
    """Functions on batches see the columns themselves."""
    sent = pa.record_batch(
        {"at": pa.array([FIRST, None], BERLIN), "all": pa.array([[SECOND], []], pa.list_(BERLIN))}
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=wire.send_all, args=(Channel(ours), sent.schema, [sent]))
        sender.start()
        (found,) = wire.receive(Channel(theirs))
        sender.join()
    assert found.schema.types == [UTC, pa.list_(UTC)]
    assert found.column("at").cast(pa.int64()).to_pylist() == [FIRST, None]
    assert found.column("all").to_pylist() == [instants(SECOND), []]
