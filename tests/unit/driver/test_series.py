"""An hour of points: how values become one, what a gap is, and what is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.storage.stores import ManualClock

from sparkstate.driver.series import FOLDS, PERIOD_S, POINTS, SIZE_BYTES, SeriesRing


def test_values_of_one_point_are_summed_up_by_their_kind() -> None:
    clock = ManualClock()
    ring = SeriesRing(clock)
    ring.note(rows_per_s=100, epoch_ms=40, lag_ms=7, state_bytes=10, checkpoint_bytes=3, checkpoint_ms=9)
    ring.note(rows_per_s=150, epoch_ms=30, lag_ms=9, state_bytes=8, checkpoint_bytes=4, checkpoint_ms=5)
    assert ring.document().last == 0  # a point is told when it is whole
    clock.sleep(PERIOD_S)
    told = ring.document()
    assert (told.rows_per_s, told.epoch_ms, told.lag_ms) == ((50.0,), (40.0,), (9.0,))
    assert (told.state_bytes, told.checkpoint_bytes, told.checkpoint_ms) == ((8.0,), (7.0,), (9.0,))
    assert told.memory_bytes == (None,)


def test_time_without_a_note_is_a_gap_and_zero_is_none() -> None:
    clock = ManualClock()
    ring = SeriesRing(clock)
    ring.note(rows_per_s=5)
    clock.sleep(3 * PERIOD_S)
    ring.note(rows_per_s=0, lag_ms=None, state_bytes=float("nan"))
    clock.sleep(PERIOD_S)
    told = ring.document()
    assert told.rows_per_s == (1.0, None, None, 0.0)
    assert told.lag_ms == told.state_bytes == (None,) * 4


def test_the_newest_hour_is_kept_and_earlier_points_are_forgotten() -> None:
    clock = ManualClock()
    ring = SeriesRing(clock)
    for number in range(1, POINTS + 4):
        ring.note(state_bytes=number)
        clock.sleep(PERIOD_S)
    told = ring.document()
    assert told.last == POINTS + 3
    assert told.state_bytes == tuple(float(number) for number in range(4, POINTS + 4))
    assert ring.document(after=POINTS + 1).state_bytes == (POINTS + 2, POINTS + 3)
    assert ring.document(after=POINTS + 3).state_bytes == ring.document(after=10**9).state_bytes == ()


def test_a_silence_of_days_leaves_gaps_alone_and_costs_no_more_than_the_ring() -> None:
    clock = ManualClock()
    ring = SeriesRing(clock)
    ring.note(state_bytes=1)
    clock.sleep(10 * 24 * 3600)
    told = ring.document()
    assert len(told.state_bytes) == POINTS
    assert set(told.state_bytes) == {None}


def test_points_have_times_by_the_wall_clock_of_the_reading() -> None:
    clock = ManualClock()
    began_ms = clock.now_ms()
    ring = SeriesRing(clock)
    clock.sleep(2.5 * PERIOD_S)
    told = ring.document()
    assert (told.started_ms, told.period_ms, told.capacity) == (began_ms, 5000, POINTS)
    assert told.until_ms == began_ms + 2 * told.period_ms


def test_the_ring_has_the_size_that_is_told() -> None:
    ring = SeriesRing(ManualClock())
    assert sum(len(each) * each.itemsize for each in ring._ring.values()) == SIZE_BYTES == 46_080


@pytest.mark.parametrize("name", FOLDS)
@given(steps=st.lists(st.tuples(st.floats(0, 40), st.floats(0, 1e9)), max_size=60), after=st.integers(0, 100))
def test_a_series_is_what_a_list_of_all_notes_tells(
    name: str, steps: list[tuple[float, float]], after: int
) -> None:
    clock = ManualClock()
    ring = SeriesRing(clock)
    began = clock.monotonic()
    noted: dict[int, list[float]] = {}
    for pause, value in steps:
        clock.sleep(pause)
        ring.note(**{name: value})
        noted.setdefault(int((clock.monotonic() - began) // PERIOD_S) + 1, []).append(value)
    last = int((clock.monotonic() - began) // PERIOD_S)
    fold = {"rows_per_s": lambda v: sum(v) / PERIOD_S, "checkpoint_bytes": sum}.get(
        name, (lambda v: v[-1]) if name in ("state_bytes", "memory_bytes", "budget_bytes") else max
    )
    wanted = [
        fold(noted[n]) if n in noted else None for n in range(max(after + 1, last - POINTS + 1), last + 1)
    ]
    found = getattr(ring.document(after), name)
    assert list(found) == [None if value is None else pytest.approx(value) for value in wanted]
