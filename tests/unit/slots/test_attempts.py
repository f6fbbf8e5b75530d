"""A slot takes rows and releases output while user code runs, and gives attempts up without a standstill."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots import slots

from sparkstate.operators.state.known_keys import ObjectKeys
from sparkstate.operators.state.overlay import Overlay
from sparkstate.slots.attempts import Attempts
from sparkstate.slots.incoming import Incoming

PATIENCE_S = 20.0


class Slow(slots.Sum):
    """Says by a file that it is at work on the value 17, and stays there until another file comes."""

    def __init__(self, folder: Path) -> None:
        self.began, self.may_end = folder / "began", folder / "may-end"

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        if row.v == 17:
            self.began.touch()
            until(self.may_end.exists)
        yield from super().process_element(row, ctx)


class Busy1ms(slots.Sum):
    """Takes its time for every row, and says when it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        (self.folder / "began").touch()
        time.sleep(0.001)
        yield from super().process_element(row, ctx)

    def close(self) -> None:
        (self.folder / "closed").touch()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def promptly(work: Callable[[], object]) -> None:
    """Run in a thread of its own, which must come to its end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_S / 4)
    assert not thread.is_alive()


def test_while_user_code_runs_the_next_rows_are_taken_and_the_last_output_is_released(tmp_path: Path) -> None:
    plan = slots.plan(tmp_path)
    slow = dataclasses.replace(plan.operators[0], function=Slow(tmp_path))
    slot = slots.Slot(tmp_path / "slot", dataclasses.replace(plan, operators=(slow,)))
    slot.restore()
    slot.feed(0, 1, slots.rows(("a", 1)))
    slot.finish(0, 1)
    slot.commit(0)
    slot.feed(1, 2, slots.rows(("a", 17)))
    until((tmp_path / "began").exists)
    assert slot.output(0) == [{"k": "a", "total": 1}]
    promptly(lambda: slot.release(0))
    with pytest.raises(AssertionError):
        slot.output(0)
    promptly(lambda: slot.feed(2, 3, slots.rows(("a", 100))))
    (tmp_path / "may-end").touch()
    for epoch, attempt in ((1, 2), (2, 3)):
        slot.finish(epoch, attempt)
        slot.commit(epoch)
    assert slot.value("a") == "118"
    slot.close()


def overlay() -> Overlay:
    return Overlay(0, 0, 0, [], ObjectKeys())


class Busy:
    """An attempt in the middle of a batch: it has its lock, and keeps it for as long as a disk may take."""

    def __init__(self, attempts: Attempts, directory: Path) -> None:
        self.asking, self.may_ask = threading.Event(), threading.Event()
        self.incoming = Incoming(lambda _: None, self, directory, limit_bytes=1)  # type: ignore[arg-type]
        attempts.join(0, "sum", 1, lambda: (overlay(), self.incoming))

    def has_come(self) -> bool:
        """As of its turn."""
        self.asking.set()
        assert self.may_ask.wait(PATIENCE_S)
        return False

    def wait(self) -> None:
        threading.Event().wait()

    def put(self) -> None:
        for _ in range(2):
            self.incoming.put(slots.rows(("a", 1)))


def test_an_attempt_that_is_given_up_in_the_middle_of_a_batch_holds_nobody_up(tmp_path: Path) -> None:
    attempts = Attempts()
    busy = Busy(attempts, tmp_path / "late")
    putting = threading.Thread(target=busy.put, daemon=True)
    putting.start()
    assert busy.asking.wait(PATIENCE_S)
    won = overlay()
    winning = threading.Thread(target=lambda: attempts.set_winner(0, "sum", won), daemon=True)
    winning.start()
    promptly(lambda: until(lambda: attempts.winner(0, "sum") is won))
    busy.may_ask.set()
    for thread in (putting, winning):
        thread.join(PATIENCE_S / 4)
        assert not thread.is_alive()
    assert busy.incoming.failure is not None


def test_of_a_committed_epoch_only_the_output_is_kept_and_of_earlier_ones_nothing() -> None:
    attempts = Attempts()
    earlier, now, later = overlay(), overlay(), overlay()
    for epoch, each in ((0, earlier), (1, now), (2, later)):
        each.known.add(["a"], [0])
        attempts.set_winner(epoch, "sum", each)
    attempts.committed(1)
    assert attempts.winner(0, "sum") is None
    assert (earlier.dropped, now.dropped, later.dropped) == (True, False, False)
    assert (list(now.known.keys), later.known.keys) == ([], ["a"])
    attempts.release(1)
    assert attempts.winner(1, "sum") is None
    assert now.dropped
    assert attempts.winner(2, "sum") is later


def test_a_slot_ends_in_the_middle_of_an_epoch_and_its_function_is_closed(tmp_path: Path) -> None:
    plan = slots.plan(tmp_path, backend="rocksdb")
    busy = dataclasses.replace(plan.operators[0], function=Busy1ms(tmp_path))
    slot = slots.Slot(tmp_path / "slot", dataclasses.replace(plan, operators=(busy,)))
    slot.restore()
    slot.feed(0, 1, *[slots.rows(*[("a", 1)] * 4096) for _ in range(20)])
    until((tmp_path / "began").exists)
    started = time.monotonic()
    slot.server.end()
    assert time.monotonic() - started < PATIENCE_S / 2
    assert (tmp_path / "closed").exists()
    slot.close()
