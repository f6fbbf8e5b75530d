"""The tasks of Spark's workers, at two real slots and without Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.slots import slots
from support.slots.running import Running

from sparkstate.functions import MIN_WATERMARK
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.spark import feed


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, count=2)
    yield made
    made.close()


def addresses(running: Running) -> tuple[SlotAddress, ...]:
    """As a task of this host has them."""
    here = socket.gethostname()
    return tuple(dataclasses.replace(address, host=here) for address in running.group.addresses)


def ids(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(numbers, pa.int64())})


@pytest.mark.parametrize("batches", [[ids(0), ids(1)], [ids(0, 1)]], ids=["two batches", "one batch"])
def test_a_task_with_the_rows_of_two_slots_reads_the_output_of_both(
    running: Running, batches: list[pa.RecordBatch]
) -> None:
    for number, slot in enumerate(running.slots):
        slot.feed(0, 1, slots.rows((f"of-{number}", number), group=7 * number))
        slot.finish(0, 1)
    task = feed.OutputTask(addresses(running), slots.KEY, 1, 0, "sum", None)
    found = [row["k"] for batch in task(iter(batches)) for row in batch.to_pylist()]
    assert found == ["of-0", "of-1"]


def test_of_what_several_slots_say_the_users_error_counts_most(running: Running) -> None:
    """One slot refuses a part that another task brought; in the other one the function raised."""
    task = feed.FeedTask(
        addresses(running),
        slots.KEY_SPACE.slots_of_key_groups(2),
        slots.KEY,
        incarnation=1,
        epoch=0,
        operator="sum",
        attempt=1,
        first_part=0,
        follows=-1,
        watermark=MIN_WATERMARK,
        processing_time=0,
        parts=feed.Parts(),
    )
    lucky, unlucky = running.slots
    lucky.feed(0, 1, slots.rows(("a", 1)), part=0, task=7)
    unlucky.feed(0, 1, slots.rows(("b", 13), group=7), part=0, task=7)
    while not isinstance(unlucky.feed(0, 1, slots.rows(("b", 1), group=7), part=1), protocol.Failed):
        pass  # it works on the row in a thread of its own
    with contextlib.ExitStack() as connections:
        stream = feed._Stream(task, connections, attempt=1, part=0, number=8)
        stream.send(pa.concat_batches([slots.rows(("a", 1)), slots.rows(("b", 13), group=7)]))
        failed = stream.end()
    assert failed is not None
    assert failed.reason == "UserCodeError"
    assert stream.rows == [1, 1]


def test_rows_of_two_jobs_that_know_different_columns_to_be_without_nulls_meet_in_one_attempt(
    running: Running,
) -> None:
    """An operator behind an input of the job and an output of another operator has its rows from two jobs of Spark."""
    slot = running.slots[0]
    slot.feed(0, 1, slots.rows(("a", 1)))
    task = feed.FeedTask(
        addresses(running),
        slots.KEY_SPACE.slots_of_key_groups(2),
        slots.KEY,
        incarnation=1,
        epoch=1,
        operator="sum",
        attempt=1,
        first_part=0,
        follows=0,  # so the rows of both wait together
        watermark=MIN_WATERMARK,
        processing_time=0,
        parts=feed.Parts(),
    )
    for part, name in enumerate(("k", "v")):
        batch = slots.rows(("a", 2 + part))
        schema = batch.schema.set(
            batch.schema.get_field_index(name), batch.schema.field(name).with_nullable(False)
        )
        with contextlib.ExitStack() as connections:
            stream = feed._Stream(task, connections, attempt=1, part=part, number=part)
            stream.send(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            assert stream.end() is None
    slot.finish(0, 1)
    slot.commit(0)
    slot.finish(1, 1, rows=2)
    slot.commit(1)
    assert slot.value("a") == "6"
