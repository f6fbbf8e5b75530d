"""How often drivers are asked and progress is written, and which events are only echoes."""

from __future__ import annotations

import heapq
import math
import random

import pytest

from sparkstate_operator import pacing
from sparkstate_operator.config import Config
from sparkstate_operator.echoes import Echo


@pytest.mark.parametrize("jobs", [1, 60, 1000, 5000, 20000])
def test_all_jobs_together_are_asked_and_written_at_a_rate_that_has_a_bound(jobs: int) -> None:
    config = Config()
    assert jobs / pacing.listen_s(config, jobs) <= config.polls_per_s
    assert jobs / pacing.progress_s(config, jobs) <= config.progress_writes_per_s
    assert pacing.listen_s(config, jobs) <= max(10.0, jobs / 100)


def test_a_thousand_jobs_are_asked_as_often_as_one() -> None:
    assert pacing.listen_s(Config(), 1000) == pacing.listen_s(Config(), 1) == 10.0
    assert pacing.progress_s(Config(), 1200) == pacing.progress_s(Config(), 1) == 60.0


def test_what_we_wrote_is_no_news_and_what_anybody_else_wrote_is() -> None:
    echo = Echo()
    assert echo.is_news("1")
    echo.begin()
    assert not echo.end("2")
    assert not echo.is_news("2")
    assert echo.is_news("3")


def test_an_event_that_overtakes_the_answer_to_the_write_is_an_echo_all_the_same() -> None:
    echo = Echo()
    echo.begin()
    assert not echo.is_news("2")
    assert not echo.end("2")
    assert not echo.is_news("2")


def test_a_list_from_before_the_write_that_is_heard_during_it_or_after_it_is_no_news() -> None:
    """As the first list of a watch, where the first poll of a job found by the inventory has progress to write."""
    echo = Echo()
    echo.end("1")
    echo.begin()
    assert not echo.is_news("1")
    assert not echo.end("2")
    assert not echo.is_news("1")


def test_an_event_of_somebody_else_during_a_write_is_told_by_its_end() -> None:
    echo = Echo()
    echo.begin()
    assert not echo.is_news("2")
    assert not echo.is_news("3")
    assert echo.end("2")
    assert echo.is_news("3")


def test_after_a_write_that_failed_nothing_that_was_heard_is_an_echo() -> None:
    echo = Echo()
    echo.begin()
    assert not echo.is_news("2")
    assert echo.end("")
    assert echo.is_news("2")


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_pace_spreads_those_that_are_due_together_and_forgets_none() -> None:
    clock = Clock()
    pace = pacing.Pace(4.0, clock)
    waiting, passed = list(range(50)), []
    for _ in range(125):
        clock.now_s += 0.1
        # Whoever asks last in one round asks first in the next one.
        passed += (now := [key for key in reversed(waiting) if pace.take(key)])
        waiting = [key for key in waiting if key not in now]
    assert len(passed) == 50
    assert passed == sorted(passed, reverse=True), "in the order in which they first asked"
    clock.now_s += 3600
    assert sum(pace.take(key) for key in range(50)) == 1, "a long rest lets no more pass"


def test_only_so_many_are_under_way_and_slow_ones_let_fewer_pass() -> None:
    clock = Clock()
    pace = pacing.Pace(100.0, clock, places=2)
    passed = []
    for key in range(4):
        clock.now_s += 0.1
        passed.append(pace.take(key))
    assert passed == [True, True, False, False]
    clock.now_s += 60
    assert not pace.take(2)
    pace.end(0)
    assert [pace.take(2), pace.take(3)] == [True, False]
    pace.end(1)
    pace.end(2)
    assert [pace.take(3), pace.take(4)] == [True, True]
    pace.end(3)
    assert not pace.take(5)
    clock.now_s += 1.0
    assert not pace.take(5), "a minute each, two at once: a turn comes every few seconds"
    clock.now_s += 30.0
    assert pace.take(5)


def test_who_need_not_pass_any_more_comes_last_when_it_asks_again() -> None:
    clock = Clock()
    pace = pacing.Pace(1.0, clock)
    assert [pace.take(key) for key in "abc"] == [True, False, False]
    pace.drop("b")
    clock.now_s += 1.0
    assert [pace.take(key) for key in "bc"] == [False, True]
    clock.now_s += 1.0
    assert pace.take("b")


def test_who_drops_out_of_the_line_leaves_no_gap_in_it() -> None:
    """Of 3,000 that wait all but the last are looked at because of events."""
    clock = Clock()
    pace = pacing.Pace(5.0, clock)
    assert [key for key in range(3000) if pace.take(key)] == [0]
    for key in range(1, 2999):
        pace.drop(key)
    clock.now_s += 0.3
    assert pace.take(2999)


class Looks:
    """Two at once, of a thousand jobs or more that ask in any order, as often as drivers are polled."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pace = pacing.Pace(5.0, self.clock, places=2)
        self.waiting: dict[int, None] = {}
        self._ends: list[tuple[float, int]] = []
        self._rng = random.Random(1)

    def run(self, jobs: int, for_s: float, takes_s: float) -> None:
        """New ones of this number become due; each asks ten times in ``for_s`` seconds."""
        self.waiting.update(dict.fromkeys(range(len(self.waiting), len(self.waiting) + jobs)))
        for _ in range(10):
            asking = list(self.waiting)
            self._rng.shuffle(asking)
            for key in asking:
                self.clock.now_s += for_s / 10 / len(asking)
                while self._ends and self._ends[0][0] <= self.clock.now_s:
                    self.pace.end(heapq.heappop(self._ends)[1])
                if self.pace.take(key):
                    del self.waiting[key]
                    heapq.heappush(self._ends, (self.clock.now_s + takes_s, key))


def test_those_that_came_while_the_server_was_slow_pass_at_full_rate_when_it_no_longer_is() -> None:
    looks = Looks()
    looks.run(100, for_s=300.0, takes_s=10.0)
    looks.run(3000, for_s=600.0, takes_s=10.0)
    assert 2800 < len(looks.waiting) < 3000, "ten seconds each, two at once"
    began_s = looks.clock.now_s
    while looks.waiting and looks.clock.now_s < began_s + 20_000:
        looks.run(0, for_s=100.0, takes_s=0.1)
    assert looks.clock.now_s - began_s <= 3000 / 5 + 100


def test_of_5000_jobs_that_are_due_at_once_each_is_looked_at_within_two_rounds() -> None:
    """As after a watch that had to list anew: every job was looked at then. Each asks again every 50 s."""
    clock, rng = Clock(), random.Random(1)
    config = Config()
    pace = pacing.Pace(config.looks_per_s, clock, config.looks_at_once)
    round_s, ask_s = pacing.resync_s(config, 5000), pacing.listen_s(config, 5000)
    asks = [(clock.now_s + rng.uniform(0, ask_s), key) for key in range(5000)]
    heapq.heapify(asks)
    due_s, longest_s = dict.fromkeys(range(5000), clock.now_s), 0.0
    end_s = clock.now_s + 3 * round_s
    while asks[0][0] < end_s:
        clock.now_s, key = heapq.heappop(asks)
        if clock.now_s >= due_s[key] and pace.take(key):
            pace.end(key)
            longest_s = max(longest_s, clock.now_s - due_s[key])
            due_s[key] = clock.now_s + round_s
        heapq.heappush(asks, (clock.now_s + ask_s * rng.uniform(1, 1.1), key))
    waits_s = max(longest_s, clock.now_s - min(due_s.values()))
    assert waits_s <= round_s + 2 * ask_s


class Comparisons:
    """Each of 5,000 jobs is looked at once in a round, and all of them in one second after a list anew."""

    def __init__(self) -> None:
        self.clock, self.config, rng = Clock(), Config(), random.Random(1)
        self.pace = pacing.comparisons(self.config, self.clock)
        self.round_s = pacing.resync_s(self.config, 5000)
        self.compared_s = dict.fromkeys(range(5000), -math.inf)
        self.longest_s = 0.0
        self._looks = [(self.clock.now_s + rng.uniform(0, self.round_s), key) for key in range(5000)]
        heapq.heapify(self._looks)

    def run(self, rounds: int) -> None:
        end_s = self.clock.now_s + rounds * self.round_s
        while self._looks[0][0] < end_s:
            self.clock.now_s, key = self._looks[0]
            self.look(key)
            heapq.heapreplace(self._looks, (self.clock.now_s + self.round_s, key))

    def look(self, key: int) -> bool:
        since_s = self.clock.now_s - self.compared_s[key]
        if since_s <= self.config.deep_resync_s or not self.pace.take(key):
            return False
        self.pace.end(key)
        self.compared_s[key] = self.clock.now_s
        self.longest_s = max(self.longest_s, 0.0 if math.isinf(since_s) else since_s)
        return True

    def list_anew(self) -> int:
        return sum(self.look(key) for key in range(5000))


def test_a_list_anew_does_not_compare_all_that_hold_a_turn_at_once() -> None:
    jobs = Comparisons()
    jobs.run(10)
    assert jobs.list_anew() <= 10
    jobs.clock.now_s += 60
    assert jobs.list_anew() <= 10


def test_all_are_compared_within_an_hour_and_within_two_after_a_list_anew() -> None:
    jobs = Comparisons()
    jobs.run(11)
    assert min(jobs.compared_s.values()) > 0
    assert jobs.longest_s <= 3600 + jobs.round_s
    for _ in range(5):
        jobs.clock.now_s += 1
        jobs.list_anew()
    jobs.run(10)
    assert jobs.longest_s <= 7200
    assert jobs.clock.now_s - min(jobs.compared_s.values()) <= 3600 + jobs.round_s


def test_a_driver_is_asked_until_a_look_is_due_and_no_longer() -> None:
    dues = pacing.Dues()
    dues.after_look(100.0, 25.0, 180.0)
    assert dues.within_s(100.0, 10.0) == 10.0
    assert dues.within_s(118.0, 10.0) == 7.0
    dues.after_look(100.0, None, 4.0)
    assert dues.within_s(100.0, 10.0) == 4.0
    assert dues.within_s(104.0, 10.0) == 10.0, "the pace is waited for"
    dues.no_later(104.0, 0.0)
    assert dues.within_s(104.0, 10.0) == 0.2


def test_while_what_cannot_wait_waits_few_pass_and_at_full_rate_after_it() -> None:
    now_s, behind = 100.0, True
    pace = pacing.Pace(20.0, lambda: now_s, 4, lambda: behind)

    def passed(seconds: int) -> int:
        nonlocal now_s
        count = 0
        for _ in range(seconds * 20):
            now_s += 0.05
            for key in range(1000):
                if pace.take(key):
                    pace.end(key)
                    count += 1
        return count

    assert 10 <= passed(10) <= 12
    behind = False
    assert 195 <= passed(10) <= 202
