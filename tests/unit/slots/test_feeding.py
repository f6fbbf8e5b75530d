"""Several tasks bring the rows of one epoch to one attempt: whole, or not at all."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.functions import MIN_WATERMARK
from sparkstate.slots import batches as wire
from sparkstate.slots import client, protocol
from sparkstate.slots.channel import Channel
from sparkstate.slots.handshake import Role


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def slot(tmp_path: Path, backend: str) -> Iterator[slots.Slot]:
    made = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend=backend))
    made.restore()
    yield made
    made.close()


@pytest.fixture
def window_slot(tmp_path: Path, backend: str) -> Iterator[slots.Slot]:
    plan = slots.plan(tmp_path, backend=backend)
    window = dataclasses.replace(plan.operators[0], function=Window(tmp_path))
    made = slots.Slot(tmp_path / "slot", dataclasses.replace(plan, operators=(window,)))
    made.restore()
    yield made
    made.close()


class Window(slots.Sum):
    """A sum of each key, put out and forgotten at the time 100; on disk ``folder`` says so and is waited for."""

    def __init__(self, folder: Path) -> None:
        self.fires, self.may_end = folder / "fires", folder / "may-end"

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        if self.total.value() is None:
            ctx.timer_service().register_event_time_timer(100)
        self.total.update((self.total.value() or 0) + row.v)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        self.fires.touch()
        until(self.may_end.exists)
        yield ctx.get_current_key(), self.total.value()
        self.total.clear()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def begin(slot: slots.Slot, epoch: int, attempt: int, part: int, task: int) -> Channel:
    """A task that has said what it brings."""
    connection = client.connect(slot.address, slots.KEY, Role.TASK, "here")
    request = protocol.Feed(
        incarnation=1,
        epoch=epoch,
        operator="sum",
        attempt=attempt,
        anew=True,
        part=part,
        task=task,
        follows=-1,
        watermark=MIN_WATERMARK,
        processing_time=0,
    )
    protocol.send(connection, request)
    return connection


def test_tasks_that_run_together_fill_one_attempt_and_each_partition_keeps_its_order(
    slot: slots.Slot,
) -> None:
    def bring(part: int) -> None:
        for_each = [slots.rows((f"of-{part}", value), ("all", value)) for value in range(100, 150)]
        assert isinstance(slot.feed(0, 1, *for_each, part=part, task=part), protocol.FeedAck)

    tasks = [threading.Thread(target=bring, args=(part,)) for part in range(4)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert slot.finish(0, 1).rows_in == 400
    for part in range(4):
        running = [row["total"] for row in slot.output(0) if row["k"] == f"of-{part}"]
        assert running == [sum(range(100, end)) for end in range(101, 151)]
    slot.commit(0)
    assert slot.value("all") == str(4 * sum(range(100, 150)))


def test_a_part_that_comes_from_two_tasks_is_taken_from_the_first_and_breaks_the_attempt(
    slot: slots.Slot,
) -> None:
    slot.feed(0, 1, slots.rows(("a", 1)), part=0, task=7)
    again = slot.feed(0, 1, slots.rows(("a", 1)), part=0, task=8)
    assert isinstance(again, protocol.Failed)
    assert again.reason == "FeedBroken"
    assert "part 0 comes from task 8 and came from task 7 before" in again.message
    slot.finish(0, 1)
    slot.commit(0)
    assert slot.value("a") == "1"


def test_a_task_that_breaks_off_breaks_its_attempt_and_a_second_one_is_exact(slot: slots.Slot) -> None:
    broken = begin(slot, 0, 1, part=0, task=7)
    sender = wire.Sender(broken)
    sender.send(slots.rows(("a", 1), ("b", 1)))
    broken.connection.shutdown(socket.SHUT_RDWR)
    broken.connection.close()
    for task in range(8, 1000):  # the slot sees the end of the connection in a thread of its own
        other = slot.feed(0, 1, slots.rows(("a", 10)), part=task, task=task)
        if isinstance(other, protocol.Failed):
            break
    assert isinstance(other, protocol.Failed)
    assert other.reason == "FeedBroken"
    assert "task 7 broke off after 2 rows of part 0" in other.message
    with pytest.raises(errors.FeedBroken):
        slot.finish(0, 1)
    slot.feed(0, 2, slots.rows(("a", 1), ("b", 1)), part=0, task=9)
    slot.feed(0, 2, slots.rows(("a", 10)), part=1, task=10)
    slot.finish(0, 2)
    slot.commit(0)
    assert (slot.value("a"), slot.value("b")) == ("11", "1")


@pytest.mark.parametrize("counted", [1, 3])
def test_rows_that_no_counted_task_brought_or_that_did_not_come_are_found_at_the_finish(
    slot: slots.Slot, counted: int
) -> None:
    slot.feed(0, 1, slots.rows(("a", 1), ("a", 1)))
    with pytest.raises(errors.FeedBroken, match=f"2 rows came where Spark's tasks brought {counted}"):
        slot.finish(0, 1, rows=counted)
    slot.feed(0, 2, slots.rows(("a", 5)))
    slot.finish(0, 2)
    slot.commit(0)
    assert slot.value("a") == "5"


def test_a_task_that_nobody_counts_and_that_goes_on_after_the_finish_changes_nothing(
    slot: slots.Slot,
) -> None:
    zombie = begin(slot, 0, 1, part=1, task=6)
    slot.feed(0, 1, slots.rows(("a", 1)), part=0, task=7)
    slot.finish(0, 1)
    sender = wire.Sender(zombie)
    sender.send(slots.rows(("a", 100)))
    sender.end()
    protocol.receive_reply(zombie)
    zombie.connection.close()
    slot.commit(0)
    slot.epoch(1, slots.rows(("a", 1)))
    assert slot.value("a") == "2"


def test_a_task_that_is_refused_for_the_users_error_says_so(
    slot: slots.Slot, capsys: pytest.CaptureFixture[str]
) -> None:
    slot.feed(0, 1, slots.rows(("a", 13)), part=0, task=1)
    parts = iter(range(1, 1000))  # the slot works on the row in a thread of its own
    until(lambda: isinstance(slot.feed(0, 1, slots.rows(("a", 1)), part=next(parts)), protocol.Failed))
    again = slot.feed(0, 1, slots.rows(("a", 13)), part=0, task=2)
    assert isinstance(again, protocol.Failed)
    assert again.reason == "UserCodeError", "no second try would end otherwise"
    with pytest.raises(
        errors.UserCodeError, match=r"bad luck \(support/slots/slots.py:\d+ in process_element\)"
    ):
        slot.finish(0, 1)
    logged = capsys.readouterr().err
    assert logged.count("in process_element") == 1, "the stack is in the slot's log, once for the failure"
    assert logged.endswith("ValueError: 13 brings bad luck\n")


def test_an_attempt_that_brings_all_rows_anew_takes_the_place_of_the_one_before(slot: slots.Slot) -> None:
    def overlays() -> int:
        status = slot.client.call(protocol.Status(), protocol.SlotStatus)
        return status.memory["overlays"]

    many = slots.rows(*((f"key-{number}", 1) for number in range(5000)))
    slot.feed(0, 1, many, anew=True)
    until(lambda: overlays() > 100_000)
    slot.feed(0, 2, slots.rows(("a", 5)), anew=True)
    until(lambda: 0 < overlays() < 50_000)
    late = slot.feed(0, 1, slots.rows(("a", 100)), part=1, anew=True)
    assert isinstance(late, protocol.FeedAck), "it makes its attempt afresh, which is worth nothing either"
    slot.finish(0, 2)
    slot.commit(0)
    assert (slot.value("a"), slot.value("key-1")) == ("5", "null")


def test_rows_see_what_timers_have_done_in_the_epoch_before_which_had_none_for_this_slot(
    window_slot: slots.Slot, tmp_path: Path
) -> None:
    slot = window_slot
    slot.epoch(0, slots.rows(("a", 1)))
    firing = threading.Thread(target=slot.finish, args=(1, -1), kwargs={"watermark": 150})
    firing.start()
    until((tmp_path / "fires").exists)
    slot.feed(2, 1, slots.rows(("a", 10)))
    (tmp_path / "may-end").touch()
    firing.join()
    time.sleep(0.3)  # long enough to process a row that does not wait for its turn
    slot.commit(1)
    assert slot.output(1) == [{"k": "a", "total": 1}]
    slot.finish(2, 1)
    slot.commit(2)
    assert slot.value("a") == "10"


def test_a_storage_error_of_the_overflow_arrives_as_itself_at_its_task_and_at_the_successor(
    tmp_path: Path,
) -> None:
    slot = slots.Slot(tmp_path / "slot", slots.plan(tmp_path))
    slot.restore()
    slot.feed(0, 1, slots.rows(("a", 1)))
    (tmp_path / "slot" / "incoming").touch()  # where the overflow would make its folder
    wide = "x" * (1 << 20)
    many = [slots.rows((f"{number}{wide}", 1)) for number in range(48)]
    for task in (7, 8):
        told = slot.feed(1, 1, *many, part=0, task=task)
        assert isinstance(told, protocol.Failed)
        assert told.reason == "StorageError", told.message
        assert "make room on the working volume" in told.message
    slot.close()
