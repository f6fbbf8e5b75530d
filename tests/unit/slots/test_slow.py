"""A slot at long work: slow is not dead, and a failed question is no lost slot."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.backends.base import TableSpec
from sparkstate.backends.hashmap.store import HashMapShardStore
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.overlay import Overlay
from sparkstate.slots import epochs, protocol
from sparkstate.slots.group import SlotGroup
from sparkstate.slots.snapshots import SnapshotJobs
from sparkstate.slots.snapshotting import SnapshotJob

LIMIT_S = 2.0


@pytest.fixture(params=["hashmap", "rocksdb"])
def slot(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[slots.Slot]:
    served = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend=request.param))
    served.restore()
    yield served
    served.close()


@pytest.fixture
def group(slot: slots.Slot) -> Iterator[SlotGroup]:
    asking = SlotGroup((slot.address,), slots.KEY, 1, "here")
    yield asking
    asking.close()


@pytest.mark.fault(
    broken="the commit of an epoch takes longer than the driver waits for any answer",
    when="the driver asks the slot how it is, and tells it that a checkpoint has completed",
    expected="both are answered beside the commit; no slot counts as lost; the state is right",
)
@pytest.mark.fault_on("a slot")
def test_questions_are_answered_beside_a_commit_that_takes_longer_than_they_are_waited_for(
    slot: slots.Slot, group: SlotGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot.epoch(0, slots.rows(("a", 1)))
    slot.snapshot(1, 0)
    assert group.status(LIMIT_S)[0].state_rows == 1
    runtime = slot.server.slot.runtime
    assert runtime is not None
    commit, entered, go_on = epochs.commit_overlays, threading.Event(), threading.Event()

    def slow(winners: Any) -> Any:
        entered.set()
        assert go_on.wait(60)
        return commit(winners)

    monkeypatch.setattr(epochs, "commit_overlays", slow)
    slot.feed(1, 1, slots.rows(("b", 2)))
    slot.finish(1, 1)
    committing = threading.Thread(target=slot.commit, args=(1,))
    committing.start()
    assert entered.wait(10)
    assert group.status(LIMIT_S)[0].state_rows == 1  # as of the last commit
    done = protocol.CheckpointDone(checkpoint_id=1, completed=True)
    group.ask(lambda _: done, protocol.Ok, LIMIT_S)
    with pytest.raises(errors.SlotLost, match="timed out"):  # a question that needs the state itself waits
        group.ask(lambda _: protocol.ReadState(operator="sum", state="total", key='"b"', key_group=0),
                  protocol.StateValue, 0.2)  # fmt: skip
    group.end(protocol.Quiesce(), LIMIT_S)  # nor does an end wait behind it
    go_on.set()
    committing.join(10)
    assert (slot.value("a"), slot.value("b")) == ("1", "2")
    assert group.status(LIMIT_S)[0].state_rows == 2
    slot.snapshot(2, 1)  # the output of the first was let go of
    assert not runtime._gate._postponed


def test_what_was_said_of_a_checkpoint_beside_a_commit_is_done_before_the_next_one(
    slot: slots.Slot,
) -> None:
    slot.epoch(0, slots.rows(("a", 1)))
    slot.snapshot(1, 0)
    runtime = slot.server.slot.runtime
    assert runtime is not None
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with runtime._gate.held():
            held.set()
            assert release.wait(60)

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(10)
    slot.done(1)
    assert len(runtime._gate._postponed) == 1
    release.set()
    holding.join(10)
    slot.epoch(1, slots.rows(("b", 1)))
    assert not runtime._gate._postponed


@pytest.mark.fault(
    broken="the driver gives a checkpoint up, because another slot has failed, while this slot still prepares it",
    when="the next epoch commits, and another checkpoint that was given up waits to be prepared",
    expected="the commit waits; the other one is not prepared; the next checkpoint has all values",
)
@pytest.mark.fault_on("a slot")
def test_a_commit_waits_for_a_snapshot_that_is_prepared_though_it_was_given_up(
    slot: slots.Slot, tmp_path: Path
) -> None:
    runtime = slot.server.slot.runtime
    assert runtime is not None
    entered, go_on, prepared = threading.Event(), threading.Event(), list[int]()
    for store in runtime._state.stores.values():

        def slowly(checkpoint_id: int, *given: Any, prepare: Any = store.prepare_snapshot) -> Any:
            prepared.append(checkpoint_id)
            entered.set()
            assert go_on.wait(60)
            return prepare(checkpoint_id, *given)

        store.prepare_snapshot = slowly  # type: ignore[method-assign]
    slot.epoch(0, slots.rows(("a", 1)))
    for checkpoint_id in (1, 2):
        asked = protocol.Snapshot(incarnation=1, checkpoint_id=checkpoint_id, epoch=0)
        slot.client.call(asked, protocol.Ok)
        assert entered.wait(10)
        slot.done(checkpoint_id, completed=False)
    slot.feed(1, 1, slots.rows(("a", 2), ("b", 5)))
    slot.finish(1, 1)
    committing = threading.Thread(target=slot.commit, args=(1,))
    committing.start()
    committing.join(0.5)
    assert committing.is_alive()
    go_on.set()
    committing.join(10)
    assert (slot.value("a"), slot.value("b")) == ("3", "5")
    state = slot.snapshot(3, 1)
    assert 2 not in prepared
    other = slots.Slot(
        tmp_path / "other", slots.plan(tmp_path, incarnation=2, backend=slot.plan.backend.type)
    )
    other.restore(*state.shards, url=f"{tmp_path / 'storage' / slots.LINEAGE}", checkpoint_id=3)
    assert (other.value("a"), other.value("b")) == ("3", "5")
    other.close()


@pytest.mark.fault_on("a slot")
@pytest.mark.fault(
    broken="a slot answers a question with an exception of its own",
    when="the driver asks it how it is",
    expected="the driver gets that error, the slot does not count as lost, and its next epoch runs",
)
def test_a_slot_that_answers_with_a_bug_is_not_lost(
    slot: slots.Slot, group: SlotGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = slot.server.slot.runtime
    assert runtime is not None

    def broken() -> None:
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(runtime, "status", broken)
    with pytest.raises(errors.SparkstateError, match="RuntimeError: dictionary changed") as failed:
        group.status(LIMIT_S)
    assert not isinstance(failed.value, errors.SlotLost)
    slot.epoch(0, slots.rows(("a", 1)))


def test_a_slot_that_gives_no_sign_of_life_is_lost(
    slot: slots.Slot, group: SlotGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, go_on = slot.server.slot.runtime, threading.Event()
    assert runtime is not None
    monkeypatch.setattr(runtime, "status", lambda: go_on.wait(30))
    with pytest.raises(errors.SlotLost, match=r"slot 0 .*timed out"):
        group.status(0.2)
    go_on.set()


class _Weighed(Overlay):
    """Only what the budget looks at."""

    def __init__(self) -> None:
        self.weight, self.dropped = 1, False


def test_overlays_are_counted_while_others_come_and_go(tmp_path: Path) -> None:
    budget, over, failed = EpochBudget(tmp_path, None), threading.Event(), []

    def count() -> None:
        while not over.is_set():
            try:
                budget.used_bytes()
            except RuntimeError as error:
                failed.append(error)
                return

    counting = [threading.Thread(target=count) for _ in range(2)]
    for thread in counting:
        thread.start()
    end = time.monotonic() + 1.0
    kept: list[Overlay] = []
    while time.monotonic() < end and not failed:
        kept.append(_Weighed())
        budget._note(kept[-1], None)  # type: ignore[arg-type]
        if len(kept) > 400:
            kept.clear()
    over.set()
    for thread in counting:
        thread.join(10)
    assert failed == []


def test_snapshots_are_looked_through_while_others_come_and_go() -> None:
    """A commit asks whether all of them are prepared, and the driver begins and ends some meanwhile."""
    jobs, over, failed = SnapshotJobs(), threading.Event(), []

    def look() -> None:
        while not over.is_set():
            try:
                assert jobs.all_prepared()
            except RuntimeError as error:
                failed.append(error)
                return

    looking = [threading.Thread(target=look) for _ in range(2)]
    for thread in looking:
        thread.start()
    end = time.monotonic() + 1.0
    for checkpoint_id in itertools.count():
        if time.monotonic() > end or failed:
            break
        request = protocol.Snapshot(incarnation=1, checkpoint_id=checkpoint_id, epoch=checkpoint_id)
        job = SnapshotJob(request, {}, {}, {}, ())
        job.prepared = True
        jobs.add(job)
        if checkpoint_id >= 100:
            assert jobs.remove(checkpoint_id - 100) is not None
    over.set()
    for thread in looking:
        thread.join(10)
    assert failed == []


def test_a_state_is_looked_up_while_no_commit_makes_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's table of timers is made by the first commit that has one: a look at the tables beside it failed
    now and then."""
    served = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend="hashmap"))
    served.restore()
    served.epoch(0, slots.rows(("a", 1)))
    runtime, alone = served.server.slot.runtime, list[bool]()
    assert runtime is not None
    gate, tables = runtime._gate, HashMapShardStore.tables

    def looked_at(store: HashMapShardStore) -> Sequence[TableSpec]:
        alone.append(gate._condition._is_owned())  # type: ignore[attr-defined]
        return tables(store)

    monkeypatch.setattr(HashMapShardStore, "tables", looked_at)
    assert served.value("a") == "1"
    served.close()
    assert alone
    assert all(alone)
