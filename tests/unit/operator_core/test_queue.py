"""The keyed queue, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time

import pytest

from sparkstate_operator.patience import BURST, HELD_S, PATIENT, SLOW, SLOW_S
from sparkstate_operator.queue import BEHIND_S, Backoff, KeyedQueue, Requeue


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def queue(clock: Clock, **rest: object) -> KeyedQueue[str]:
    """These tests take and end keys by hand."""
    return KeyedQueue(monotonic=clock, rng=random.Random(1), **rest)  # type: ignore[arg-type]


def test_a_key_that_is_added_often_is_taken_once() -> None:
    found = queue(Clock())
    for _ in range(5):
        found.add("a")
    assert found.take() == "a"
    assert found.take() is None


def test_a_key_is_never_taken_while_it_runs_and_comes_again_after_it() -> None:
    found = queue(Clock())
    found.add("a")
    assert found.take() == "a"
    found.add("a")
    found.add("a")
    assert found.take() is None
    found.done("a", None)
    assert found.take() == "a"
    found.done("a", None)
    assert found.take() is None
    assert len(found) == 0


def test_the_earliest_of_several_times_counts() -> None:
    clock = Clock()
    found = queue(clock)
    found.add("a", 60.0)
    found.add("a", 5.0)
    found.add("a", 30.0)
    assert found.next_due_s() == 5.0
    clock.now_s += 5.0
    assert found.take() == "a"
    found.done("a", None)
    assert found.next_due_s() is None


def test_failures_in_a_row_wait_longer_and_longer_and_a_success_ends_that() -> None:
    clock = Clock()
    found = queue(clock, backoff=Backoff(1.0, 2.0, 5.0), jitter=0.0)
    waited = []
    found.add("a")
    for _ in range(5):
        assert found.take() == "a"
        found.done("a", OSError("no"))
        delay_s = found.next_due_s()
        assert delay_s is not None
        waited.append(delay_s)
        clock.now_s += delay_s
    assert waited == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert found.take() == "a"
    found.done("a", Requeue(0.0, exact=True))
    assert found.take() == "a"
    found.done("a", OSError("no"))
    assert found.next_due_s() == 1.0


def test_a_healthy_key_comes_back_with_jitter() -> None:
    clock = Clock()
    found = queue(clock, jitter=0.1)
    times = set()
    for name in ("a", "b", "c"):
        found.add(name)
        assert found.take() == name
        found.done(name, Requeue(100.0))
    while (due_s := found.next_due_s()) is not None:
        clock.now_s += due_s
        times.add(round(clock.now_s - 100.0, 3))
        key = found.take()
        assert key is not None
        found.done(key, None)
    assert len(times) == 3
    assert all(100.0 <= moment <= 110.0 for moment in times)


def test_work_that_does_not_end_is_seen_as_a_stall() -> None:
    clock = Clock()
    found = queue(clock)
    assert found.stalled_s() == 0.0
    found.add("a")
    found.take()
    clock.now_s += 400.0
    assert found.stalled_s() == 400.0
    found.done("a", None)
    assert found.stalled_s() == 0.0


def test_time_without_work_is_no_stall() -> None:
    """A stall makes the liveness probe restart the operator."""
    clock = Clock()
    found = queue(clock)
    clock.now_s += 4000.0
    found.add("event")
    assert found.stalled_s() == 0.0
    assert found.take() == "event"
    clock.now_s += 1.0
    assert found.stalled_s() == 1.0
    found.done("event", Requeue(4000.0, exact=True))
    clock.now_s += 4000.0
    assert found.stalled_s() == 0.0, "it is due again, and nothing was due before"
    clock.now_s += 400.0
    assert found.stalled_s() == 400.0, "nobody takes it"
    assert found.take() == "event"
    assert found.stalled_s() == 400.0
    found.add("other", 10.0)
    assert found.stalled_s() == 400.0, "work that begins later ends no stall"


def test_keys_are_worked_on_at_once_and_one_failure_ends_nothing() -> None:
    done: list[str] = []

    async def scenario() -> None:
        reached = asyncio.Event()
        both = asyncio.Barrier(2)

        async def work(key: str) -> None:
            if key == "bad" and "bad" not in done:
                done.append("bad")
                raise OSError("no")
            await both.wait()
            done.append(key)
            reached.set()

        loop = asyncio.get_running_loop()
        found: KeyedQueue[str] = KeyedQueue(monotonic=loop.time, rng=random.Random(1), backoff=Backoff(60.0))
        for key in ("bad", "a", "b"):
            found.add(key)
        task = asyncio.create_task(found.run(2, work))
        await asyncio.wait_for(reached.wait(), 5)
        await asyncio.sleep(0.05)
        task.cancel()

    asyncio.run(scenario())
    assert sorted(done) == ["a", "b", "bad"]


def test_who_stands_aside_leaves_its_place_and_is_not_taken_twice() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []
        answer, ended = asyncio.Event(), asyncio.Event()

        async def work(key: str) -> None:
            seen.append(f"{key} begins")
            if key == "asks":
                async with found.aside():
                    await answer.wait()
                await asyncio.sleep(0)
                ended.set()
            seen.append(f"{key} ends")

        loop = asyncio.get_running_loop()
        found: KeyedQueue[str] = KeyedQueue(monotonic=loop.time, rng=random.Random(1))
        found.add("asks")
        task = asyncio.create_task(found.run(1, work))
        await asyncio.sleep(0.05)
        found.add("other")
        found.add("asks")
        await asyncio.sleep(0.05)
        assert seen == ["asks begins", "other begins", "other ends"]
        answer.set()
        await asyncio.wait_for(ended.wait(), 5)
        await asyncio.sleep(0.05)
        task.cancel()
        return seen

    assert asyncio.run(scenario())[3:] == ["asks ends", "asks begins", "asks ends"]


def test_the_liveness_probe_asks_from_its_thread_while_keys_come_and_go() -> None:
    found = queue(Clock())
    for number in range(2000):
        found.add(f"kept-{number}", 60.0)
    wrong: list[Exception] = []
    asked = 0
    stop = threading.Event()

    def probe() -> None:
        nonlocal asked
        while not stop.is_set():
            try:
                found.stalled_s()
                asked += 1
            except Exception as error:
                wrong.append(error)

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=probe)
    thread.start()
    try:
        end_s = time.monotonic() + 1.0
        number = 0
        while time.monotonic() < end_s or asked < 100:
            number += 1
            found.add(f"passing-{number}")
            key = found.take()
            assert key is not None
            found.done(key, None)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(switch_s)
    assert wrong == []


def test_an_event_hurries_a_key_that_waits_patiently() -> None:
    clock = Clock()
    found = queue(clock)
    for key in "abc":
        found.add(key, 1.0, patient=True)
    clock.now_s += 60.0
    found.add("c")
    found.add("c", patient=True)
    for number in range(PATIENT):
        found.add(f"before-{number}", patient=True)
    taken = [found.take() for _ in range(PATIENT + 1)]
    assert taken[-1] == "c", "no place of a patient one has to be free for it"
    assert taken[:2] == ["a", "b"]


def test_few_patient_keys_are_under_way_at_once() -> None:
    found = queue(Clock())
    for number in range(PATIENT + 2):
        found.add(str(number), patient=True)
    for number in range(PATIENT):
        assert found.take() == str(number)
    assert found.take() is None
    assert found.next_due_s() == SLOW_S
    found.add("event")
    assert found.next_due_s() == 0.0
    assert found.take() == "event"
    found.done("event", None)
    found.done("7", Requeue(10.0, patient=True))
    assert found.next_due_s() == 0.0
    assert found.take() == str(PATIENT)
    assert found.take() is None


def test_patient_keys_that_were_held_do_not_come_all_at_once() -> None:
    clock = Clock()
    found = queue(clock, patient_per_s=10.0)
    for number in range(100):
        found.add(str(number), patient=True)
    found.add("event")
    taken: list[float] = []
    while len(taken) < 101:
        while (key := found.take()) is not None:
            taken.append(clock.now_s)
            found.done(key, None)
        clock.now_s += found.next_due_s() or 0.0
    began_s = taken[0]
    in_first_second = sum(at_s < began_s + 1.0 for at_s in taken)
    assert BURST + 1 <= in_first_second <= BURST + 1 + 10 + 1, "the event among them"
    assert taken[-1] - began_s == pytest.approx((100 - BURST) / 10.0, abs=0.2)


def test_it_is_behind_when_a_key_that_is_not_patient_waits() -> None:
    clock = Clock()
    found = queue(clock)
    found.add("poll", patient=True)
    clock.now_s += 50.0
    assert not found.behind()
    found.add("event")
    assert not found.behind()
    clock.now_s += BEHIND_S + 0.1
    assert found.behind()
    assert [found.take(), found.take()] == ["poll", "event"]
    assert not found.behind()


def test_patient_keys_are_held_and_no_others() -> None:
    held = True
    clock = Clock()
    found = queue(clock, held=lambda: held)
    found.add("poll", patient=True)
    assert found.take() is None
    assert found.next_due_s() == HELD_S
    found.add("event")
    assert found.take() == "event"
    held = False
    assert found.next_due_s() == 0.0
    assert found.take() == "poll"


def test_who_is_slow_holds_no_place_of_a_patient_key_but_few_are() -> None:
    clock = Clock()
    found = queue(clock)
    taken = 0
    for number in range(PATIENT + SLOW + 10):
        found.add(str(number), patient=True)
    while found.next_due_s() is not None:
        while found.take() is not None:
            taken += 1
        clock.now_s += SLOW_S
    assert taken == PATIENT + SLOW
    found.done("0", None)
    assert found.next_due_s() == 0.0, "one of those that wait becomes slow in its place"
    assert found.take() == str(PATIENT + SLOW)


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="the machine is too slow for the polls of all drivers",
    when="thousands of polls are overdue, and a savepoint is asked for",
    expected="its request does not wait for them",
)
def test_no_event_waits_behind_thousands_of_polls_that_are_overdue() -> None:
    async def scenario() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        processor = asyncio.Semaphore(1)
        polled = 0
        answered = asyncio.Event()

        async def work(key: int) -> Requeue | None:
            nonlocal polled
            async with found.aside(), processor:
                await asyncio.sleep(0.001)
            if key < 0:
                answered.set()
                return None
            polled += 1
            return Requeue(1000.0, patient=True)

        found: KeyedQueue[int] = KeyedQueue(monotonic=loop.time, rng=random.Random(1))
        for number in range(5000):
            found.add(number, patient=True)
        task = asyncio.create_task(found.run(24, work))
        while polled < 100:
            await asyncio.sleep(0.01)
        before = polled
        asked_s = loop.time()
        found.add(-1)
        await asyncio.wait_for(answered.wait(), 60)
        task.cancel()
        return loop.time() - asked_s, polled - before

    took_s, polls = asyncio.run(scenario())
    assert polls < 200, f"{polls} polls and {took_s:.1f} s before it"


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="the API server is slow, and events hold all workers",
    when="drivers are due to be polled",
    expected="they are polled",
)
def test_polls_go_on_while_events_hold_all_places() -> None:
    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        polled = 0

        async def work(key: int) -> Requeue | None:
            nonlocal polled
            if key < 0:
                await asyncio.sleep(0.1)
                return Requeue(0.0, exact=True)
            async with found.aside():
                await asyncio.sleep(0.001)
            polled += 1
            return Requeue(1000.0, patient=True)

        found: KeyedQueue[int] = KeyedQueue(monotonic=loop.time, rng=random.Random(1))
        for number in range(1000):
            found.add(number, patient=True)
            found.add(-1 - number)
        task = asyncio.create_task(found.run(4, work))
        await asyncio.sleep(2.0)
        task.cancel()
        return polled

    assert asyncio.run(scenario()) > 300
