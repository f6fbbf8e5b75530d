"""Placing slots over executors: asked again until all have a place, given up with a sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from sparkstate import errors
from sparkstate.slots.client import SlotAddress
from sparkstate.spark import slotlaunch
from sparkstate.testing import ManualClock


class Executors:
    """Stands for SparkContext: runs the task of each slot; ``cancelAllJobs`` ends one that hangs."""

    def __init__(self, answer: Callable[[int, int], Any]) -> None:
        self.answer = answer
        self.rounds: list[list[int]] = []
        self.cancelled = threading.Event()

    def parallelize(self, slots: list[int], partitions: int) -> Executors:
        assert partitions == len(slots)
        self.rounds.append(list(slots))
        return self

    def mapPartitions(self, _: slotlaunch.StartSlot) -> Executors:
        return self

    def collect(self) -> list[Any]:
        return [self.answer(slot, len(self.rounds)) for slot in self.rounds[-1]]

    def cancelAllJobs(self) -> None:
        self.cancelled.set()


START = slotlaunch.StartSlot("/tmp/none", 1, "token", (), places=1)


def address(slot: int) -> SlotAddress:
    return SlotAddress(slot, f"host-{slot}", 100 + slot, "", 4000, "10.0.0.1")


def launch(context: Executors, slots: int = 3, **how: Any) -> tuple[SlotAddress, ...]:
    return slotlaunch.launch(context, slots, START, ManualClock(), **how)  # type: ignore[arg-type]


def test_slots_come_back_in_order_whatever_order_they_started_in() -> None:
    executors = Executors(lambda slot, _: address(slot))
    assert launch(executors) == tuple(address(slot) for slot in range(3))
    assert executors.rounds == [[0, 1, 2]]


def test_only_slots_without_a_place_are_asked_for_again() -> None:
    def crowded_at_first(slot: int, number: int) -> Any:
        return address(slot) if slot <= number - 1 else slotlaunch.NoPlace(slot, "host-0")

    executors = Executors(crowded_at_first)
    assert len(launch(executors)) == 3
    assert executors.rounds == [[0, 1, 2], [1, 2], [2]]


def test_executors_that_never_have_room_end_in_a_lost_slot_that_says_where_to_look() -> None:
    executors = Executors(lambda slot, _: slotlaunch.NoPlace(slot, "host-0"))
    with pytest.raises(errors.SlotLost, match=r"slot\(s\) 0, 1, 2 within 7 s.*kubectl get pods"):
        launch(executors, patience_s=7)


def test_a_job_that_waits_for_executors_for_ever_is_cancelled() -> None:
    def hang(_: int, __: int) -> Any:
        assert executors.cancelled.wait(10)
        raise RuntimeError("job cancelled")

    executors = Executors(hang)
    with pytest.raises(errors.SlotLost, match="had room"):
        launch(executors, patience_s=0.2)


def test_another_failure_is_not_mistaken_for_waiting() -> None:
    def fail(_: int, __: int) -> Iterator[Any]:
        raise RuntimeError("no such module")

    with pytest.raises(errors.SlotLost, match=r"starts slot\(s\) 0, 1, 2: no such module"):
        launch(Executors(fail))


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"SPARK_EXECUTOR_POD_IP": "10.1.0.4", "SPARK_LOCAL_IP": "10.2.0.4"}, "10.1.0.4"),
        ({"SPARK_LOCAL_IP": "10.2.0.4"}, "10.2.0.4"),
        ({}, "127.0.0.1"),
        ({"SPARK_EXECUTOR_POD_IP": "[fd00::4]"}, "fd00::4"),
    ],
    ids=["pod", "told", "by name", "pod of IPv6"],
)
def test_a_slot_s_address_is_the_pod_s_where_there_is_one(environ: dict[str, str], found: str) -> None:
    assert slotlaunch.own_address(environ, "localhost") == found


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_a_name_that_has_an_address_of_ipv6_alone_is_reached_by_it(host: str) -> None:
    assert slotlaunch.own_address({}, host) == "::1"


class Told:
    """A SparkContext that knows of these executors, or whose JVM has ended; counts how often it is asked."""

    def __init__(self, ids: Sequence[str] | None) -> None:
        self.ids, self.asked = ids, 0
        self._jsc = self

    def sc(self) -> Told:
        self.asked += 1
        return self

    def getExecutorIds(self) -> Told:
        if self.ids is None:
            raise OSError("the JVM has ended")
        return self

    def mkString(self, separator: str) -> str:
        assert self.ids is not None
        return separator.join(self.ids)


class Registering(Executors):
    """An executor registers at every third question; Spark's jobs are only good when all have."""

    def __init__(self, most: int) -> None:
        super().__init__(lambda slot, _: address(slot))
        self.most, self.asked = most, 0
        self._jsc = self

    def sc(self) -> Registering:
        self.asked += 1
        return self

    def getExecutorIds(self) -> Registering:
        return self

    def mkString(self, separator: str) -> str:
        return separator.join(str(number + 1) for number in range(min(self.asked // 3, self.most)))


def test_slots_are_asked_for_when_all_executors_have_registered() -> None:
    context = Registering(most=2)
    assert len(launch(context, executors=2)) == 3
    assert (context.asked, context.rounds) == (6, [[0, 1, 2]])


def test_executors_that_never_register_end_in_a_lost_slot_that_says_where_to_look() -> None:
    context = Registering(most=1)
    with pytest.raises(errors.SlotLost, match=r"slot\(s\) 0, 1, 2 within 7 s.*kubectl get pods"):
        launch(context, executors=2, patience_s=7)
    assert context.rounds == []


@pytest.mark.parametrize(
    ("ids", "lost"),
    [
        (["1", "2"], []),
        (["2", "1", "12"], []),
        (["1", "12"], [1]),
        (["12"], [0, 1]),
        ([], [0, 1]),
        (None, []),
    ],
)
def test_slots_whose_executors_spark_has_lost_are_found(ids: Sequence[str] | None, lost: list[int]) -> None:
    slots = [SlotAddress(slot, f"pod-{slot}", 7, "", 1, "10.0.0.1", str(slot + 1)) for slot in (0, 1)]
    found = slotlaunch.without_executor(Told(ids), slots)  # type: ignore[arg-type]
    assert [one.slot for one in found] == lost


def test_where_executors_have_no_ids_spark_is_not_asked() -> None:
    context = Told([])
    assert slotlaunch.without_executor(context, [address(0), address(1)]) == ()  # type: ignore[arg-type]
    assert context.asked == 0


@pytest.mark.parametrize(
    ("started", "before", "then"),
    [
        (["3", "1"], ["1", "2"], ["1", "3"]),
        (["3", "1"], ["2", "1"], ["3", "1"]),
        (["1", "3", "1", "3"], ["2", "1", "2", "1"], ["3", "1", "3", "1"]),
        (["1", "3", "3", "1"], ["1", "1", "2", "2"], ["1", "1", "3", "3"]),
        (["1", "3"], [], ["1", "3"]),
        (["4", "3"], ["1", "2"], ["4", "3"]),
        (["3", "1"], ["2", "2", "1"], ["3", "1"]),
        (["", ""], ["", ""], ["", ""]),
    ],
)
def test_slots_of_an_executor_that_is_still_there_are_what_they_were(
    started: list[str], before: list[str], then: list[str]
) -> None:
    def at(executors: list[str], first_port: int) -> list[SlotAddress]:
        return [
            SlotAddress(slot, "pod", 7, "", first_port + slot, "10.0.0.1", executor)
            for slot, executor in enumerate(executors)
        ]

    found = slotlaunch.at_home(at(started, 100), at(before, 200))
    assert [one.executor for one in found] == then
    assert [one.slot for one in found] == list(range(len(started)))
    assert sorted(one.tcp_port for one in found) == list(range(100, 100 + len(started)))


def test_a_slot_that_cannot_be_started_is_told_as_what_it_is() -> None:
    """Raised in a task it would be Java's, which ends the driver and all executors."""

    def full(slot: int, _: int) -> Any:
        refused = slotlaunch.NotStarted(slot, "StorageUnavailable", "the disk of /work is full")
        return refused if slot == 1 else address(slot)

    with pytest.raises(errors.StorageUnavailable, match="the disk of /work is full"):
        launch(Executors(full))
