"""The rows of a task are split among slots: none is lost, none goes elsewhere, each slot's keep their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import columns, errors
from sparkstate.keygroups import KeySpace
from sparkstate.spark import feed


@given(
    st.lists(st.integers(0, 127), min_size=1, max_size=300),
    st.sampled_from([(128, 16, 1), (128, 16, 2), (128, 16, 5), (128, 128, 100)]),
    st.integers(0, 20),
)
def test_every_row_goes_to_the_slot_of_its_key_group_and_keeps_its_place(
    groups: list[int], layout: tuple[int, int, int], offset: int
) -> None:
    max_parallelism, shards, slots = layout
    space = KeySpace(max_parallelism, shards)
    whole = pa.record_batch(
        {
            "n": pa.array([None if n % 7 == 3 else n for n in range(len(groups))], pa.int64()),
            "s": pa.array([f"row {n}" for n in range(len(groups))]),
            columns.KEY_GROUP: pa.array(groups, pa.int32()),
        }
    )
    batch = whole.slice(min(offset, len(groups) - 1))  # a slice: its buffers begin elsewhere
    table = np.frombuffer(space.slots_of_key_groups(slots), np.uint16)
    pieces = dict(feed.split(batch, table, slots))
    wanted: dict[int, list[dict[str, object]]] = {}
    for row in batch.to_pylist():
        slot = space.slot_of_shard(space.shard_of_key_group(row[columns.KEY_GROUP]), slots)
        wanted.setdefault(slot, []).append(row)
    assert {slot: piece.to_pylist() for slot, piece in pieces.items()} == wanted


@pytest.mark.parametrize("strange", [None, -1, 128])
def test_a_key_group_that_the_job_does_not_have_is_refused_before_any_row_is_sent(
    strange: int | None,
) -> None:
    table = np.frombuffer(KeySpace(128, 16).slots_of_key_groups(5), np.uint16)
    batch = pa.record_batch({columns.KEY_GROUP: pa.array([3, strange], pa.int32())})
    with pytest.raises(errors.StateError, match=f"key group {strange}; the job has key groups 0 to 127"):
        next(feed.split(batch, table, 5))
