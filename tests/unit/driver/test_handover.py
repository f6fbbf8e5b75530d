"""Whom a new driver waits for before it claims, and until when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.storage.stores import ManualClock

from sparkstate.control import documents
from sparkstate.driver.handover import Handover
from sparkstate.driver.view import JobView
from sparkstate.log.log import LineageLog
from sparkstate.storage.local import LocalStore

PATIENCE_S = 60.0


class Waiting:
    """A driver of attempt 2 before its claim, and the log as an older one sees it."""

    def __init__(self, root: Path, patience_s: float = PATIENCE_S) -> None:
        self.clock = ManualClock()
        self.log = LineageLog(LocalStore(str(root)), self.clock)
        self.older = LineageLog(LocalStore(str(root)), self.clock)
        self.alone = threading.Event()
        self.view = JobView(
            documents.JobIdentity(job_uid="u", attempt=2), "job", "default", "rocksdb", self.clock
        )
        self.prepared = 0
        self.waited_for: list[int | None] = []
        self.handover = Handover(2, patience_s, self.alone, self.clock, self.view, lambda text: None)

    def wait(self, meanwhile: Callable[[], object] = lambda: None) -> float:
        """Seconds that it waited."""

        def prepare() -> None:
            self.prepared += 1
            self.waited_for.append(self.view.status().waits_for_attempt)
            meanwhile()

        begun = self.clock.monotonic()
        self.handover.wait(self.log, prepare)
        self.waited_for.append(self.view.status().waits_for_attempt)
        return self.clock.monotonic() - begun


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path)


def test_nobody_is_waited_for_where_nobody_has_claimed(waiting: Waiting) -> None:
    assert waiting.wait() == 0
    assert waiting.prepared == 0


def test_an_earlier_life_of_the_own_attempt_is_not_waited_for(waiting: Waiting) -> None:
    waiting.older.claim(2, "before the kubelet started it again")
    assert waiting.wait() == 0


def test_a_driver_that_has_released_the_lineage_is_not_waited_for(waiting: Waiting) -> None:
    waiting.older.claim(1, "older").release()
    assert waiting.wait() == 0


def test_who_has_not_been_told_of_anybody_waits_for_nobody(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, 0.0)
    waiting.older.claim(1, "older")
    assert waiting.wait() == 0


def test_a_driver_that_ends_is_waited_for_until_it_releases_the_lineage(waiting: Waiting) -> None:
    older = waiting.older.claim(1, "older")
    waiting.wait(older.release)
    assert waiting.prepared == 1
    assert waiting.waited_for == [1, None], "and the status says so"


def test_one_that_dies_without_a_word_is_waited_for_until_somebody_says_so(waiting: Waiting) -> None:
    waiting.older.claim(1, "older")
    assert waiting.wait(waiting.alone.set) == 0


def test_one_of_which_nobody_hears_is_waited_for_until_it_can_do_no_more_harm(waiting: Waiting) -> None:
    waiting.older.claim(1, "older")
    assert PATIENCE_S <= waiting.wait() < PATIENCE_S + 1
