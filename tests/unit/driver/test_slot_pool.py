"""Watching the executors of a pool's slots, and showing how far its restore is."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.slots import slots
from support.storage import checkpoints

from sparkstate import errors
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.clock import SystemClock
from sparkstate.control.documents import LongWorkKind
from sparkstate.driver import slot_pool
from sparkstate.driver.long_work import LongWork
from sparkstate.driver.slot_pool import SlotPool
from sparkstate.keygroups import KeySpace
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.starting import LocalSlots
from sparkstate.storage import open_store


class Group:
    def __init__(self, executors: list[str]) -> None:
        self.addresses = tuple(
            SlotAddress(slot, f"pod-{slot}", 7, "", 1, "10.0.0.1", executor)
            for slot, executor in enumerate(executors)
        )
        self.interrupted = threading.Event()
        self.asked = threading.Event()
        self.given_up: list[int] = []
        self.all_given_up = threading.Event()
        self.answered = False

    def give_up(self, slot: int) -> None:
        self.given_up.append(slot)
        if {1, 2} <= set(self.given_up):
            self.all_given_up.set()

    def interrupt(self) -> None:
        self.interrupted.set()

    def end(self, *_: object) -> None:
        """Slots 1 and 2 have vanished: only who is given up is not waited for."""
        self.asked.set()
        self.answered = self.all_given_up.wait(10)

    def close(self) -> None:
        pass


def pool_of(group: Group, living: list[str]) -> SlotPool:
    """Whose Spark knows these executors."""
    spark: Any = SimpleNamespace()
    spark._jsc = SimpleNamespace(sc=lambda: spark)
    spark.getExecutorIds = lambda: SimpleNamespace(mkString=lambda comma: comma.join(living))
    parts: Any = SimpleNamespace(
        prepared=SimpleNamespace(session=SimpleNamespace(sparkContext=spark)),
        context=SimpleNamespace(clock=SystemClock()),
    )
    return SlotPool(parts, 1, KeySpace(128, 2), group)  # type: ignore[arg-type]


def watched(group: Group, living: list[str]) -> tuple[threading.Event, list[errors.SlotLost]]:
    """What is told; the event ends it."""
    over, told = threading.Event(), []
    pool_of(group, living).watch_executors(over, told.append)
    return over, told


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_pool, "_LOOK_S", 0.01)


def test_an_executor_that_spark_loses_ends_every_call_under_way_and_is_told_once() -> None:
    living = ["1", "2"]
    group = Group(["1", "2"])
    over, told = watched(group, living)
    assert not group.interrupted.wait(0.1)
    living.remove("2")
    assert group.interrupted.wait(10)
    assert [str(error) for error in told] == ["slot 1 (pid 7): Spark has lost its executor 2"]
    assert group.given_up == [1]
    over.set()


def test_nobody_watches_where_there_is_one_executor_without_a_number() -> None:
    before = threading.active_count()
    over, told = watched(Group(["", ""]), [])
    assert threading.active_count() == before
    assert told == []
    over.set()


def test_an_incarnation_that_is_over_is_told_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_pool, "_LOOK_S", 60)
    living = ["1"]
    group = Group(["1"])
    over, told = watched(group, living)
    over.set()
    living.clear()
    assert not group.interrupted.wait(0.2)
    assert told == []


@pytest.mark.parametrize("known", [True, False], ids=["known before", "learned meanwhile"])
def test_nobody_waits_for_a_lost_executor_s_slots_to_stop(known: bool) -> None:
    group, living = Group(["1", "2", "2"]), ["1", "3"] if known else ["1", "2"]
    stopping = threading.Thread(target=pool_of(group, living).stop)
    stopping.start()
    assert group.asked.wait(10)
    assert group.all_given_up.wait(0.5) is known
    living[:] = ["1", "3"]
    stopping.join(10)
    assert group.answered
    assert 0 not in group.given_up


class Raising:
    """Raises while it is pickled."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> str:
        raise self._error


@pytest.mark.parametrize(
    ("error", "is_final"),
    [(TypeError("cannot pickle '_thread.lock'"), True), (OSError("the disk is full"), False)],
    ids=["a lock", "a fault that passes"],
)
def test_what_cannot_be_sent_to_slots_is_final_and_what_could_not_this_time_is_not(
    error: Exception, *, is_final: bool
) -> None:
    with pytest.raises(errors.SparkstateError, match=r"pickled|cannot be sent") as caught:
        slot_pool.pickled(Raising(error))  # type: ignore[arg-type]
    assert isinstance(caught.value, errors.DeclarationError) is is_final


class Unreadable:
    """Raises where it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("no number",)


@pytest.mark.fault(
    broken="one of the slots beside the driver does not take its plan",
    when="an incarnation starts",
    expected="no slot is left of that start; the restart strategy decides",
)
@pytest.mark.fault_on("slots beside the driver")
def test_a_pool_whose_slots_do_not_all_take_their_plan_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noted(LocalSlots):
        def start(self, *told: Any) -> tuple[SlotAddress, ...]:
            started.extend(super().start(*told))
            return tuple(started)

    started: list[SlotAddress] = []
    parts: Any = SimpleNamespace(
        context=SimpleNamespace(
            slots_here=Noted(tmp_path, 2),
            keys=SimpleNamespace(slots="a-key-for-a-pool-of-slots", in_files=False),
            clock=SystemClock(),
        ),
        prepared=SimpleNamespace(python_path=()),
    )
    monkeypatch.setattr(
        SlotPool, "_plan", lambda self, slot: Unreadable() if slot else slots.plan(tmp_path / "state")
    )
    with pytest.raises(errors.SparkstateError, match="no number"):
        SlotPool.start(parts, 1, KeySpace(128, 2))
    assert len(started) == 2
    for address in started:
        deadline = time.monotonic() + 30
        while Path(f"/proc/{address.pid}").exists():
            assert time.monotonic() < deadline, f"slot {address.slot} lives on"
            time.sleep(0.05)


class FillingGroup:
    """Two slots that read 100 bytes each: 10 more at each question; the third question is not answered."""

    addresses: tuple[SlotAddress, ...] = ()

    def __init__(self) -> None:
        self.questions = 0
        self.filled = threading.Event()

    def __len__(self) -> int:
        return 2

    def ask(self, request: Any, expect: type[Any], timeout_s: float) -> list[protocol.Transferred]:
        self.questions += 1
        if self.questions == 3:
            raise errors.SlotLost("no answer in time")
        done = min(100, 10 * self.questions)
        if self.questions == 6:
            self.filled.set()
        return [protocol.Transferred(done_bytes=done, total_bytes=100)] * 2


def test_a_restore_is_shown_while_it_lasts_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_pool, "_PROGRESS_LOOK_S", 0.01)
    work, group = LongWork(SystemClock()), FillingGroup()
    parts: Any = SimpleNamespace(context=SimpleNamespace(view=SimpleNamespace(long_work=work)))
    pool = SlotPool(parts, 1, KeySpace(128, 2), group)  # type: ignore[arg-type]
    with pool._restore_shown(200):
        (told,) = work.documents()
        assert (told.kind, told.total_bytes) == (LongWorkKind.RESTORE, 200)
        assert group.filled.wait(10)
        until = time.monotonic() + 10
        while work.documents()[0].done_bytes < 120 and time.monotonic() < until:
            time.sleep(0.01)
        (told,) = work.documents()
        assert told.done_bytes >= 120
    until = time.monotonic() + 10
    while work.documents() and time.monotonic() < until:
        time.sleep(0.01)
    assert work.documents() == ()


def test_a_restore_that_fails_is_not_shown_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_pool, "_PROGRESS_LOOK_S", 0.01)
    work = LongWork(SystemClock())
    parts: Any = SimpleNamespace(context=SimpleNamespace(view=SimpleNamespace(long_work=work)))
    pool = SlotPool(parts, 1, KeySpace(128, 2), FillingGroup())  # type: ignore[arg-type]
    with pytest.raises(errors.SlotLost), pool._restore_shown(200):
        raise errors.SlotLost("slot 1 is gone")
    until = time.monotonic() + 10
    while work.documents() and time.monotonic() < until:
        time.sleep(0.01)
    assert work.documents() == ()


class RestoringGroup(FillingGroup):
    """So many slots, which keep the work that the view shows when they are told to restore, and what they are told."""

    def __init__(self, slots: int, work: LongWork) -> None:
        super().__init__()
        self._slots, self._work = slots, work
        self.seen: list[tuple[int | None, int | None]] = []
        self.told: list[protocol.RestoreShards] = []

    def __len__(self) -> int:
        return self._slots

    def each(self, request: Any, expect: type[Any]) -> list[protocol.Restored]:
        self.told = [request(slot) for slot in range(self._slots)]
        self.seen = [(each.slots_before, each.slots_after) for each in self._work.documents()]
        return [protocol.Restored(bytes_read=0) for _ in self.told]


def restoring_pool(slots: int, *uids: str) -> tuple[SlotPool, RestoringGroup]:
    """A pool of so many slots, of a job with these operators."""
    work = LongWork(SystemClock())
    group = RestoringGroup(slots, work)
    parts: Any = SimpleNamespace(
        context=SimpleNamespace(view=SimpleNamespace(long_work=work)),
        prepared=SimpleNamespace(declared=SimpleNamespace(operators=dict.fromkeys(uids))),
    )
    return SlotPool(parts, 1, KeySpace(128, 4), group), group  # type: ignore[arg-type]


def snapshot_of_two_slots(folder: Path) -> RestoredSnapshot:
    """With state of the operator ``op``."""
    taken = checkpoints.metadata([checkpoints.inline_shard(shard) for shard in range(4)], slots=2)
    plan = RestorePlan("checkpoint", "restore from a test")
    return RestoredSnapshot(plan, taken, open_store(str(folder)), same_lineage=True)


@pytest.mark.parametrize(
    ("slots", "told"),
    [(2, (None, None)), (1, (2, 1)), (4, (2, 4))],
    ids=["as-many", "fewer", "more"],
)
def test_a_restore_into_another_number_of_slots_tells_both_numbers(
    slots: int, told: tuple[int | None, int | None], tmp_path: Path
) -> None:
    pool, group = restoring_pool(slots, "op")
    said = pool.restore(snapshot_of_two_slots(tmp_path))
    assert [each.dropped for each in group.told] == [()] * slots
    assert "dropped" not in said
    assert group.seen == [told]


def test_slots_let_go_state_of_operators_that_the_job_no_longer_has(tmp_path: Path) -> None:
    pool, group = restoring_pool(2, "other")
    assert pool.restore(snapshot_of_two_slots(tmp_path)).endswith("; that of op is dropped")
    assert [each.dropped for each in group.told] == [("op",), ("op",)]
