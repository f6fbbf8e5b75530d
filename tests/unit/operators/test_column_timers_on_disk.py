"""Timers of event time in columns, while a pass that fires them has to give its memory up half-way."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops
from support.operators import timer_chunks
from support.operators.spilling import Side

from sparkstate import columns
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types

KEYS = range(40)


class Alarms(KeyedBatchFunction):
    """A row registers a timer for its time; one of a null key registers none."""

    def process_batch(self, batch, keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, keys.max("time"), mask=keys.values.is_valid())

    def on_timers(self, timestamps, keys, ctx):
        rest, budget = self.on_call
        if next(rest, budget) is budget:
            budget.limit_bytes = 1
        yield pa.record_batch({"k": keys.values, "time": timestamps})


class AlarmsByKey(Alarms):
    """In order of time for each key alone."""

    is_ordered_across_keys = False


def a_batch(keys: Sequence[int | None], time: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "k": pa.array(keys, pa.int64()),
            "time": pa.array([time] * len(keys), pa.int64()),
            columns.KEY_GROUP: pa.array(map(ops.key_group, keys), pa.int32()),
        }
    )


def epoch(
    side: Side, batch: pa.RecordBatch | None, before: int, after: int, sets: int = 10**9
) -> Counter[Any]:
    """What fires in an epoch whose memory is enough for its rows, and for so many calls of ``on_timers``."""
    overlay = side.operator.begin(1, before, 0)
    side.budget.limit_bytes = 2**30
    if batch is not None:
        side.operator.process_batch(overlay, batch)
    side.operator.spec.function.author_object.on_call = itertools.repeat(None, sets - 1), side.budget
    side.operator.finish(overlay, after)
    commit_overlays([(side.operator, overlay)])
    found = Counter(ops.rows_of(overlay))
    overlay.close()
    return found


@pytest.fixture(params=[Alarms, AlarmsByKey])
def side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    timer_chunks.patch_batches(monkeypatch, 2)
    opened = Side(
        tmp_path,
        2**30,
        request.param(),
        row_columns=("k", "time"),
        key_columns=("k",),
        key_type=Types.LONG(),
        event_time_column=None,
        output_schema=pa.schema([("k", pa.int64()), ("time", pa.int64())]),
    )
    yield opened
    opened.close()


@pytest.mark.parametrize("sets", [1, 6, 12])
def test_a_timer_that_was_registered_again_fires_once(sets, side):
    at_five = a_batch(KEYS, 5)
    epoch(side, at_five, MIN_WATERMARK, 0)
    assert epoch(side, at_five, 0, 5, sets) == Counter((key, 5) for key in KEYS)
    assert side.budget.spilled
    assert side.timers("EVENT_TIME") == []


def test_timers_of_keys_without_rows_stay_apart_from_a_null_key(side):
    epoch(side, a_batch(KEYS, 5), MIN_WATERMARK, 0)
    assert epoch(side, a_batch([None], 5), 0, 5, 1) == Counter((key, 5) for key in KEYS)
    assert side.budget.spilled
    assert side.timers("EVENT_TIME") == []


@pytest.mark.parametrize("sets", [1, 2, 5, 12])
def test_several_timers_of_each_key_fire_once_and_in_order(sets, side):
    for time in (5, 6, 7, 8):
        epoch(side, a_batch(KEYS, time), MIN_WATERMARK, 0)
    overlay = side.operator.begin(1, 0, 0)
    side.budget.limit_bytes = 2**30
    side.operator.process_batch(overlay, a_batch(KEYS, 9))
    side.operator.spec.function.author_object.on_call = itertools.repeat(None, sets - 1), side.budget
    side.operator.finish(overlay, 9)
    commit_overlays([(side.operator, overlay)])
    fired: dict[int, list[int]] = {}
    for key, time in ops.rows_of(overlay):
        fired.setdefault(key, []).append(time)
    overlay.close()
    assert fired == {key: [5, 6, 7, 8, 9] for key in KEYS}
    assert side.budget.spilled
    assert side.timers("EVENT_TIME") == []
