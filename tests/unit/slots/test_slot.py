"""A slot over its real socket: who may speak, which attempt counts, what a checkpoint holds."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.slots import client, protocol
from sparkstate.slots.channel import Channel


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[slots.Slot]:
    served = slots.Slot(tmp_path / "slot", slots.plan(tmp_path))
    served.restore()
    yield served
    served.close()


def test_without_the_key_a_connection_is_closed_before_a_request_is_read(slot: slots.Slot) -> None:
    with pytest.raises(errors.SlotLost, match="did not prove itself"):
        client.SlotClient(slot.address, "another key", "here").call(protocol.Status(), protocol.SlotStatus)
    assert oct(os.stat(slot.address.unix_path).st_mode)[-3:] == "600"


def test_of_several_attempts_only_the_one_that_the_driver_names_becomes_state(slot: slots.Slot) -> None:
    slot.feed(0, 1, slots.rows(("a", 1)))
    slot.feed(0, 2, slots.rows(("a", 1), ("b", 5)))
    slot.feed(0, 3, slots.rows(("a", 100)))
    finished = slot.finish(0, 2)
    assert finished.rows_in == 2
    assert slot.value("a") == "null"
    slot.commit(0)
    assert (slot.value("a"), slot.value("b")) == ("1", "5")


def test_rows_of_a_late_zombie_attempt_change_nothing(slot: slots.Slot) -> None:
    slot.epoch(0, slots.rows(("a", 1)))
    slot.feed(0, 9, slots.rows(("a", 50)))
    slot.epoch(1, slots.rows(("a", 1)))
    assert slot.value("a") == "2"


def test_output_can_be_read_any_number_of_times_until_its_release_beside_the_next_epoch(
    slot: slots.Slot,
) -> None:
    slot.feed(0, 1, slots.rows(("a", 1), ("a", 2)))
    slot.finish(0, 1)
    expected = [{"k": "a", "total": 1}, {"k": "a", "total": 3}]
    assert slot.output(0) == expected
    slot.commit(0)
    slot.feed(1, 2, slots.rows(("a", 10)))
    slot.finish(1, 2)
    assert slot.output(0) == expected
    assert slot.output(0) == expected
    slot.release(0)
    with pytest.raises(AssertionError):
        slot.output(0)
    assert slot.output(1) == [{"k": "a", "total": 13}]


def test_the_next_commit_releases_the_output_before_it(slot: slots.Slot) -> None:
    for epoch in (0, 1):
        slot.feed(epoch, epoch, slots.rows(("a", 1)))
        slot.finish(epoch, epoch)
        slot.commit(epoch)
    with pytest.raises(AssertionError):
        slot.output(0)
    assert slot.output(1) == [{"k": "a", "total": 2}]


def test_the_users_error_comes_at_the_finish_and_the_epoch_can_be_tried_again(slot: slots.Slot) -> None:
    many = [slots.rows(*[("a", 1)] * 1000) for _ in range(50)]
    slot.feed(0, 1, slots.rows(("a", 13)), *many)
    with pytest.raises(errors.UserCodeError, match="13 brings bad luck"):
        slot.finish(0, 1)
    slot.feed(0, 2, slots.rows(("a", 4)))
    slot.finish(0, 2)
    slot.commit(0)
    assert slot.value("a") == "4"


def test_a_row_of_a_foreign_key_group_is_refused(tmp_path: Path) -> None:
    served = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, slot=0, slots=2))
    served.restore()
    served.feed(0, 1, slots.rows(("a", 1), group=7))
    with pytest.raises(errors.StateError, match="key group 7"):
        served.finish(0, 1)
    served.close()


def test_a_request_of_another_incarnation_is_fenced(slot: slots.Slot) -> None:
    assert isinstance(slot.feed(0, 1, slots.rows(("a", 1)), incarnation=2), protocol.Failed)
    with pytest.raises(errors.SparkstateError, match="incarnation 3"):
        slot.client.call(protocol.Commit(incarnation=3, epoch=0), protocol.Committed)


def test_a_commit_of_an_epoch_that_nobody_finished_changes_nothing(slot: slots.Slot) -> None:
    slot.feed(0, 1, slots.rows(("a", 1)))
    slot.commit(0)
    assert slot.value("a") == "null"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_checkpoint_holds_the_state_of_its_epoch_and_restores_into_other_slots(
    tmp_path: Path, backend: str
) -> None:
    served = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend=backend))
    served.restore()
    served.epoch(0, slots.rows(("a", 1), group=0), slots.rows(("z", 9), group=7))
    state = served.snapshot(1, 0)
    served.done(1)
    served.epoch(1, slots.rows(("a", 100)))
    assert [shard.shard for shard in state.shards] == [0, 1, 2, 3]
    assert [c.rows for c in state.committables] == [2]
    url = str(tmp_path / "storage" / served.plan.lineage)
    for number in range(2):
        plan = slots.plan(tmp_path, slot=number, slots=2, incarnation=2, backend=backend)
        half = slots.Slot(tmp_path / f"half-{number}", plan)
        half.restore(*state.shards[2 * number : 2 * number + 2], url=url)
        assert half.value("az"[number], (0, 7)[number]) == ("1", "9")[number]
        half.close()
    served.close()


def test_files_are_a_base_for_increments_only_once_their_checkpoint_completed(tmp_path: Path) -> None:
    served = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend="rocksdb"))
    served.restore()
    served.epoch(0, slots.rows(*[(f"k{i}", i) for i in range(20_00) if i != 13]))

    def shared(state: protocol.SnapshotState) -> set[str]:
        return {file.path for shard in state.shards for file in shard.files if file.shared}

    first = shared(served.snapshot(1, 0))
    served.done(1, completed=False)
    second = shared(served.snapshot(2, 0, base=1))
    assert first and second and not first & second
    served.done(2)
    assert shared(served.snapshot(3, 0, base=2)) == second
    served.close()


def test_the_output_of_a_failed_checkpoint_is_staged_again_with_the_next(slot: slots.Slot) -> None:
    slot.epoch(0, slots.rows(("a", 1)))
    assert slot.snapshot(1, 0).committables[0].rows == 1
    slot.done(1, completed=False)
    slot.epoch(1, slots.rows(("a", 1), ("a", 1)))
    assert slot.snapshot(2, 1).committables[0].rows == 3
    slot.done(2)
    slot.epoch(2, slots.rows(("a", 1)))
    assert slot.snapshot(3, 2).committables[0].rows == 1


def test_a_message_of_a_stranger_is_no_message() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(errors.SlotLost, match="not a sparkstate process"):
            protocol.receive_request(Channel(other))


def test_a_message_that_is_too_large_is_refused_by_its_name_and_loses_no_slot(
    slot: slots.Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot.client.call(protocol.Status(), protocol.SlotStatus)
    large = protocol.Failed(reason="r", message="x" * 500)
    here, there = socket.socketpair()
    with here, there, monkeypatch.context() as patch:
        patch.setattr(protocol, "MAX_FRAME_BYTES", 400)
        with pytest.raises(
            errors.SpecInvalid, match=r"^Configure of 5\d\d bytes does not fit .* \(at most 400\)"
        ):
            slot.client.call(protocol.Configure(plan=bytes(500)), protocol.Ok)
        with pytest.raises(errors.SpecInvalid, match=r"^Failed of 5\d\d bytes does not fit one message"):
            protocol.send(Channel(here), large)
        there.setblocking(False)
        with pytest.raises(BlockingIOError):
            there.recv(1)
    slot.client.call(protocol.Status(), protocol.SlotStatus)


def test_nobody_looks_for_a_slot_that_was_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as never_answers:
        address = client.SlotAddress(0, "elsewhere", 7, "", never_answers.getsockname()[1], "127.0.0.1")
        mute = client.SlotClient(address, "token", "here")
        mute.give_up()
        with pytest.raises(errors.SlotLost, match=r"slot 0 \(pid 7\) is gone"):
            mute.call(protocol.Status(), protocol.SlotStatus)
        never_answers.settimeout(0)
        with pytest.raises(BlockingIOError):
            never_answers.accept()


def test_a_slot_that_was_not_spoken_to_when_calls_were_interrupted_hears_the_next_one(
    slot: slots.Slot,
) -> None:
    told = client.SlotClient(slot.address, slots.KEY, slot.address.host)
    told.call(protocol.Status(), protocol.SlotStatus)
    told.interrupt()
    told.call(protocol.Stop(), protocol.Ok, 5.0)
    assert slot.server.stopped.wait(5)


@contextlib.contextmanager
def nobody_there() -> Iterator[client.SlotAddress]:
    """Whoever connects to this address waits, as for a host that has vanished: its queue is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield client.SlotAddress(0, "elsewhere", 7, "", server.getsockname()[1], "127.0.0.1")


def test_a_call_is_interrupted_while_it_still_connects() -> None:
    with nobody_there() as address, concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = client.SlotClient(address, "token", "here")
        answer = pool.submit(waiting.call, protocol.Status(), protocol.SlotStatus, 60.0)
        time.sleep(0.3)
        assert not answer.done()
        waiting.interrupt()
        with pytest.raises(errors.SlotLost, match="cannot be reached"):
            answer.result(10)


def test_a_slot_whose_host_has_no_address_is_lost() -> None:
    address = client.SlotAddress(3, "elsewhere", 7, "", 1, "no-such-host.invalid")
    with pytest.raises(errors.SlotLost, match=r"slot 3 .* cannot be reached: no-such-host\.invalid"):
        client.SlotClient(address, "token", "here").call(protocol.Status(), protocol.SlotStatus)
