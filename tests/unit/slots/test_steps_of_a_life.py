"""The steps of a function's life in a slot, from setup to dispose: their order, and an error in each of them."""

from __future__ import annotations

import dataclasses
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
import pyarrow as pa
import pytest
from support.slots import checkpointed, slots

from sparkstate import errors
from sparkstate.checkpointed import CheckpointedFunction, CheckpointListener
from sparkstate.functions import MAX_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.slots import client, protocol, starting
from sparkstate.slots.held_output import HeldOutput
from sparkstate.state.descriptors import ListStateDescriptor
from sparkstate_tools.drivers import driving

STEPS = (
    "initialize_state",
    "open",
    "process_element",
    "snapshot_state",
    "notify_checkpoint_complete",
    "notify_checkpoint_aborted",
    "on_timer",
    "finish",
    "close",
)
"""Those of the function."""
SHARDS = slots.KEY_SPACE.shards
SETUP = [("setup", shard) for shard in range(SHARDS)]
"""The making of a store, before the function's first step."""
SINKS, STORE, FACTORY = ("dispose", "sinks"), ("dispose", "store"), ("dispose", "factory")
DISPOSE = [SINKS, *[STORE] * SHARDS, FACTORY]
"""The end of what the slot holds, after the function's last step."""


class Recorder(slots.Sum, CheckpointedFunction, CheckpointListener):
    """Notes each step; raises in the one of that name."""

    calls: ClassVar[list[Any]] = []

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in

    def note(self, step: str, *more: Any) -> None:
        self.calls.append((step, *more) if more else step)
        if step == self.fails_in:
            raise ValueError(f"raised in {step}")

    def initialize_state(self, ctx: Any) -> None:
        self.stored = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.seen = self.stored.get()
        self.note("initialize_state", list(self.seen))

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.note("open")

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        self.seen.append(row.v)
        ctx.timer_service().register_event_time_timer(1_000)
        self.note("process_element")
        yield from super().process_element(row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        self.note("on_timer")
        yield "timer", timestamp

    def snapshot_state(self, ctx: Any) -> None:
        self.stored.update(self.seen)
        self.note("snapshot_state", ctx.get_checkpoint_id(), ctx.get_checkpoint_timestamp())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.note("notify_checkpoint_complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.note("notify_checkpoint_aborted", checkpoint_id)

    def finish(self) -> Iterator[tuple[str, int]]:
        self.note("finish")
        yield "rows", len(self.seen)

    def close(self) -> None:
        self.note("close")


class Life:
    """A slot from its start to its end, step by step as a driver takes it.

    The slot's own steps, *setup* and *dispose*, are the calls of its real parts: noted, and with an error behind them
    where ``fails_in`` says so.
    """

    def __init__(self, folder: Path, fails_in: Any = "", backend: str = "hashmap") -> None:
        self.slot = checkpointed.slot_with(folder, Recorder(fails_in), backend=backend)
        self.fails_in = fails_in
        self.stored: list[protocol.SnapshotState] = []
        self.state = checkpointed.state_of(self.slot)
        self.create = self.state.factory.create
        self.state.factory.create = self.setup
        self.note_end(self.state.output, SINKS)
        self.note_end(self.state.factory, FACTORY)

    def setup(self, shard: int, *more: Any) -> Any:
        Recorder.calls.append(("setup", shard))
        if self.fails_in == ("setup", shard):
            raise ValueError(f"raised in {self.fails_in}")
        store = self.create(shard, *more)
        self.note_end(store, STORE)
        return store

    def note_end(self, part: Any, step: tuple[str, str]) -> None:
        close = part.close

        def noted() -> None:
            Recorder.calls.append(step)
            close()
            if step == self.fails_in:
                raise ValueError(f"raised in {step}")

        part.close = noted

    def holds_state(self) -> bool:
        """Whether any of its stores is open with something in it."""
        stores = self.state.stores.values()
        if self.slot.plan.backend.type == "rocksdb":
            return any(store.database() is not None for store in stores)
        return any(store.tables() for store in stores)

    def run(self) -> None:
        slot = self.slot
        slot.restore()
        slot.epoch(0, slots.rows(("a", 1)))
        self.checkpoint(1, 0, completed=True)
        self.checkpoint(2, 0, completed=False)
        self.last_epoch()

    def run_and_close(self) -> None:
        self.run()
        self.slot.close()

    def last_epoch(self) -> None:
        """Which ends the input, and its checkpoint."""
        self.slot.feed(1, 1, slots.rows(("a", 2)))
        self.slot.finish(1, 1, watermark=MAX_WATERMARK)
        self.output = self.slot.output(1)
        self.slot.commit(1)
        self.slot.release(1)
        self.checkpoint(3, 1, completed=True)

    def checkpoint(self, number: int, epoch: int, *, completed: bool) -> None:
        request = protocol.Snapshot(
            incarnation=1, checkpoint_id=number, epoch=epoch, timestamp_ms=number * 10
        )
        self.slot.client.call(request, protocol.Ok)
        poll = protocol.SnapshotPoll(checkpoint_id=number, wait_s=30)
        state = self.slot.client.call(poll, protocol.SnapshotState)
        self.slot.done(number, completed=completed and not state.failure)
        self.told()
        self.stored.append(state)
        if state.failure:
            raise errors.UserCodeError(state.failure)

    def told(self) -> None:
        """Until the functions know of the checkpoint's end; raises what they raise."""
        runtime: Any = self.slot.server.slot
        notifications = runtime.runtime._epochs.notifications
        notifications._thread.submit(lambda: None).result(30)
        self.slot.client.call(protocol.Status(), protocol.SlotStatus)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    Recorder.calls = []
    made = []

    def begin(fails_in: Any = "", backend: str = "hashmap") -> Life:
        made.append(Life(tmp_path, fails_in, backend))
        return made[-1]

    yield begin
    for each in made:
        each.slot.client.close()
        each.slot.server._close_listeners()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_steps_come_in_the_documented_order_and_finish_puts_its_rows_out(
    life: Callable[..., Life], backend: str
) -> None:
    whole = life(backend=backend)
    whole.run()
    assert whole.holds_state()
    whole.slot.close()
    assert Recorder.calls == [
        *SETUP,
        ("initialize_state", []),
        "open",
        "process_element",
        ("snapshot_state", 1, 10),
        ("notify_checkpoint_complete", 1),
        ("snapshot_state", 2, 20),
        ("notify_checkpoint_aborted", 2),
        "process_element",
        "on_timer",
        "finish",
        ("snapshot_state", 3, 30),
        ("notify_checkpoint_complete", 3),
        "close",
        *DISPOSE,
    ]
    assert not whole.holds_state()
    assert whole.output[-2:] == [{"k": "timer", "total": 1_000}, {"k": "rows", "total": 2}]


@pytest.mark.parametrize("step", STEPS)
def test_an_error_in_a_step_names_operator_and_step_and_the_function_is_closed(
    life: Callable[..., Life], step: str
) -> None:
    broken = life(step)
    with pytest.raises(errors.UserCodeError, match=rf"operator 'sum'.*raised in {step} \(") as refused:
        broken.run_and_close()
    named = {"process_element": r"row Row\(", "on_timer": "event-time timer 1000"}.get(
        step, rf"{step}\(\) raised"
    )
    assert refused.match(named)
    if step != "close":
        broken.slot.close()
    assert Recorder.calls[-len(DISPOSE) - 1 :] == ["close", *DISPOSE]
    assert Recorder.calls.count("close") == 1
    assert not broken.holds_state()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_an_error_in_setup_lets_no_function_begin_and_closes_what_was_made(
    life: Callable[..., Life], backend: str
) -> None:
    broken = life(SETUP[-1], backend)
    with pytest.raises(errors.SparkstateError, match=r"ValueError: raised in \('setup', 3\)$"):
        broken.run()
    broken.slot.close()
    assert Recorder.calls == [*SETUP, SINKS, *[STORE] * (SHARDS - 1), FACTORY]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("step", [SINKS, STORE, FACTORY], ids=lambda step: step[1])
def test_an_error_in_dispose_is_raised_and_the_rest_is_closed(
    life: Callable[..., Life], step: tuple[str, str], backend: str
) -> None:
    broken = life(step, backend)
    broken.run()
    with pytest.raises(ValueError, match=rf"raised in \('dispose', '{step[1]}'\)$"):
        broken.slot.close()
    assert Recorder.calls[-len(DISPOSE) - 1 :] == ["close", *DISPOSE]
    assert not broken.holds_state()


def test_of_two_errors_at_the_end_the_first_is_raised_and_the_second_logged(
    life: Callable[..., Life], caplog: pytest.LogCaptureFixture
) -> None:
    broken = life(FACTORY)
    broken.run()
    checkpointed.function_of(broken.slot).fails_in = "close"
    with (
        caplog.at_level(logging.ERROR, "sparkstate"),
        pytest.raises(errors.UserCodeError, match=r"raised in close \("),
    ):
        broken.slot.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"closing raised ValueError: raised in {FACTORY}, after an earlier error"
    ]
    assert Recorder.calls[-len(DISPOSE) :] == DISPOSE


def test_a_sink_is_closed_although_the_one_before_it_raises(tmp_path: Path) -> None:
    plan = slots.plan(tmp_path)
    second = dataclasses.replace(plan.sinks[0], uid="second")
    output = HeldOutput(dataclasses.replace(plan, sinks=(*plan.sinks, second)), tmp_path / "held")
    for writer in output.writers.values():
        writer.hold([pa.RecordBatch.from_pylist([{"k": "a", "total": 1}], slots.OUT)])
    first: Any = output.writers["sum"]
    first.close = lambda: 1 / 0
    assert output.weigh() > 0
    with pytest.raises(ZeroDivisionError):
        output.close()
    assert output.writers["second"].held_bytes == 0


@pytest.mark.parametrize("step", ["process_element", "snapshot_state", "on_timer", "finish"])
def test_a_new_slot_goes_on_from_the_last_checkpoint_as_if_the_error_had_not_been(
    life: Callable[..., Life], tmp_path: Path, step: str
) -> None:
    """The state of the call that failed is nowhere: neither in the checkpoint before nor in the next life."""
    healthy = life()
    slot = healthy.slot
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1)))
    healthy.checkpoint(1, 0, completed=True)
    checkpointed.function_of(slot).fails_in = step
    with pytest.raises(errors.UserCodeError, match=f"raised in {step}"):
        healthy.last_epoch()
    slot.close()
    again = checkpointed.slot_with(tmp_path, Recorder(), incarnation=2)
    try:
        checkpointed.restore(again, healthy.stored[:1], tmp_path, 1)
        assert ("initialize_state", [1]) in Recorder.calls
        assert again.value("a") == "1"
        again.epoch(0, slots.rows(("a", 2)))
        assert checkpointed.function_of(again).seen == [1, 2]
        assert again.value("a") == "3"
    finally:
        again.close()


def test_a_snapshot_that_fails_leaves_operator_state_as_it_was_and_the_next_one_has_all(
    life: Callable[..., Life], capsys: pytest.CaptureFixture[str]
) -> None:
    one = life()
    slot = one.slot
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1)))
    function = checkpointed.function_of(slot)
    function.fails_in = "snapshot_state"
    with pytest.raises(errors.UserCodeError, match=r"checkpoint 1: snapshot_state\(\) raised ValueError"):
        one.checkpoint(1, 0, completed=True)
    assert "in snapshot_state\n" in capsys.readouterr().err
    assert Recorder.calls[-1] == ("notify_checkpoint_aborted", 1)
    handle: Any = function.stored
    assert handle.committed == []
    function.fails_in = ""
    one.checkpoint(2, 0, completed=True)
    assert handle.committed == [1]
    slot.close()


def test_the_last_notification_comes_before_the_close(life: Callable[..., Life]) -> None:
    one = life()
    one.slot.restore()
    one.slot.epoch(0, slots.rows(("a", 1)))
    one.slot.snapshot(1, 0)
    one.slot.done(1)
    one.slot.close()
    assert Recorder.calls[-len(DISPOSE) - 2 :] == [("notify_checkpoint_complete", 1), "close", *DISPOSE]


def test_a_second_function_is_closed_although_the_first_one_raises(tmp_path: Path) -> None:
    Recorder.calls = []
    plan = slots.plan(tmp_path)
    first = dataclasses.replace(plan.operators[0], function=Recorder("close"))
    second = dataclasses.replace(plan.operators[0], uid="second", function=Recorder())
    slot = slots.Slot(tmp_path / "slot", dataclasses.replace(plan, operators=(first, second)))
    slot.restore()
    with pytest.raises(errors.UserCodeError, match=r"operator 'sum': close\(\) raised"):
        slot.close()
    assert Recorder.calls.count("close") == 2


def test_an_error_in_close_is_in_the_log_of_the_slots_process(tmp_path: Path) -> None:
    plan = slots.plan(tmp_path)
    operator = dataclasses.replace(plan.operators[0], function=checkpointed.FailsToClose())
    (address,) = starting.LocalSlots(tmp_path / "slots", 1).start(1, slots.KEY, ())
    caller = client.SlotClient(address, slots.KEY, socket.gethostname())
    configured = cloudpickle.dumps(dataclasses.replace(plan, operators=(operator,)))
    caller.call(protocol.Configure(plan=configured), protocol.Ok)
    caller.call(protocol.RestoreShards(), protocol.Restored)
    caller.call(protocol.Stop(), protocol.Ok)
    caller.close()
    driving.wait_for(lambda: not driving.is_alive(address.pid), 60, "the end of the slot")
    log = (tmp_path / "slots" / "slot-0-1.log").read_text()
    assert "operator 'sum': close() raised ValueError: the connection is gone" in log
    assert not Path(address.unix_path).parent.exists(), "the slot has left its folder"
