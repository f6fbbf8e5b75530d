"""How far long work is, and how much time is left of it."""

from __future__ import annotations

import pytest
from support.storage.stores import ManualClock

from sparkstate.control.documents import LongWorkKind
from sparkstate.driver.long_work import LongWork, left_ms


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "left"),
    [
        (0, 100, 60.0, None),
        (50, 100, 0.5, None),
        (50, 100, 10.0, 10_000),
        (75, 100, 30.0, 10_000),
        (100, 100, 30.0, None),
        (0, 0, 30.0, None),
        (1, 10**13, 60.0, None),
    ],
    ids=["nothing", "a-moment", "half", "three-quarters", "all-of-an-estimate", "no-state", "nearly-no-pace"],
)
def test_the_time_left_follows_from_the_pace_so_far(
    done: int, total: int, elapsed_s: float, left: int | None
) -> None:
    assert left_ms(done, total, elapsed_s) == left


def test_work_goes_on_only_forward_and_its_total_grows_when_it_was_too_small() -> None:
    clock = ManualClock()
    work = LongWork(clock)
    work.note(LongWorkKind.SAVEPOINT, 0, 100, "t-1")
    clock.sleep(10)
    work.note(LongWorkKind.SAVEPOINT, 40, 100, "t-1")
    work.note(LongWorkKind.SAVEPOINT, 30, 100, "t-1")
    (told,) = work.documents()
    assert (told.name, told.done_bytes, told.total_bytes, told.left_ms) == ("t-1", 40, 100, 15_000)
    work.note(LongWorkKind.SAVEPOINT, 130, 100, "t-1")
    (told,) = work.documents()
    assert (told.done_bytes, told.total_bytes, told.left_ms) == (130, 130, None)


def test_each_work_ends_by_itself() -> None:
    work = LongWork(ManualClock())
    work.note(LongWorkKind.RESTORE, 0, 5)
    work.note(LongWorkKind.SAVEPOINT, 0, 5, "t-1")
    work.end(LongWorkKind.RESTORE)
    work.end(LongWorkKind.RESTORE)
    work.end(LongWorkKind.SAVEPOINT, "another")
    assert [told.name for told in work.documents()] == ["t-1"]


def test_a_rescale_keeps_its_numbers_of_slots_until_it_ends() -> None:
    work = LongWork(ManualClock())
    work.note(LongWorkKind.RESTORE, 0, 5, rescale=(2, 3))
    work.note(LongWorkKind.RESTORE, 4, 5)
    work.note(LongWorkKind.SAVEPOINT, 0, 5, "t-1")
    restore, savepoint = work.documents()
    assert (restore.done_bytes, restore.slots_before, restore.slots_after) == (4, 2, 3)
    assert (savepoint.slots_before, savepoint.slots_after) == (None, None)
