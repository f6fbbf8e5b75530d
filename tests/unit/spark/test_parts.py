"""The largest event times of a task, by source and part: grouped per batch, as rows one by one would give them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import columns
from sparkstate.spark import feed, watermarks

ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.integers(0, 2),
        st.sampled_from(["clicks", "orders", None]),
        st.integers(0, 3),
    ),
    max_size=20,
)


def batch(rows: list[tuple[int | None, int, str | None, int]]) -> pa.RecordBatch:
    times, sources, topics, partitions = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.record_batch(
        {
            columns.TIMESTAMP: pa.array(times, pa.int64()),
            columns.SOURCE: pa.array(sources, pa.int32()),
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
        }
    )


@pytest.mark.parametrize("names", [(), ("partition",), ("topic", "partition")], ids=str)
@pytest.mark.parametrize("sources", [1, 3])
@given(data=st.data())
def test_the_largest_times_of_batches_are_those_of_their_rows(
    names: tuple[str, ...], sources: int, data: st.DataObject
) -> None:
    parts = feed.Parts(sources, names)
    found: dict[tuple[int, str], int] = {}
    expected: dict[tuple[int, str], int] = {}
    for rows in data.draw(st.lists(ROWS, max_size=3)):
        parts.note_largest(batch(rows), found)
        for time, source, topic, partition in rows:
            values = {"topic": topic, "partition": partition}
            label = json.dumps({n: values[n] for n in names}, separators=(",", ":")) if names else ""
            place = (source if sources > 1 else 0, label)
            if time is not None:
                expected[place] = max(time, expected.get(place, time))
    assert found == expected
    assert feed.decode_largest(feed.encode_largest(found)) == expected


def test_a_column_of_too_many_values_is_known_by_one_part_more_than_may_be() -> None:
    rows = [(1, 0, str(number), 0) for number in range(watermarks.MOST_PARTS + 500)]
    found: dict[tuple[int, str], int] = {}
    feed.Parts(1, ("topic",)).note_largest(batch(rows), found)
    assert len(found) == watermarks.MOST_PARTS + 1


def test_a_batch_without_event_time_tells_nothing() -> None:
    found: dict[tuple[int, str], int] = {}
    feed.Parts(1, ("topic",)).note_largest(batch([(1, 0, "a", 0)]).drop_columns([columns.TIMESTAMP]), found)
    assert found == {}
