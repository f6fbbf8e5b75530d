"""The soak's arithmetic: what counts as growth, and what does not."""

from __future__ import annotations

import random

import pytest

from sparkstate_tools.soak import faults, sampling, slopes

QUANTITY = slopes.Quantity("objects", "objects", "", 1, floor=5, tolerance=0.1)
OF_A_PROCESS = slopes.Quantity("rss", "memory", "MiB", 1, floor=5, tolerance=0.1, life="pid")


def points(value, *, epochs: int = 20_000, step: int = 50) -> list[slopes.Point]:
    return [slopes.Point(epoch, value(epoch)) for epoch in range(0, epochs, step)]


def judged(quantity: slopes.Quantity, series: list[slopes.Point]) -> slopes.Trend:
    trend = slopes.trend(quantity, series)
    assert trend is not None
    return trend


def test_noise_and_a_saw_tooth_are_flat() -> None:
    rng = random.Random(1)
    assert judged(QUANTITY, points(lambda epoch: 100 + epoch % 700 / 100 + rng.gauss(0, 3))).flat


def test_a_slow_leak_is_found_under_noise_and_outliers() -> None:
    rng = random.Random(2)

    def leak(epoch: int) -> float:
        return 100 + epoch * 0.002 + rng.gauss(0, 5) + (400 if rng.random() < 0.05 else 0)

    trend = judged(QUANTITY, points(leak))
    assert not trend.flat
    assert trend.per_thousand == pytest.approx(2, rel=0.2)
    assert trend.growth == pytest.approx(36, rel=0.2)


def test_growth_before_the_warm_up_is_over_does_not_count() -> None:
    assert judged(QUANTITY, points(lambda epoch: min(epoch, 1500))).flat


def lives(leak: float) -> list[slopes.Point]:
    """Each process lives for 1,500 epochs and begins anew with 100."""
    return [
        slopes.Point(epoch, 100 + leak * (epoch % 1500), life=epoch // 1500) for epoch in range(0, 20_000, 50)
    ]


def test_a_leak_that_ends_with_each_process_is_found_all_the_same() -> None:
    assert judged(QUANTITY, lives(0.01)).flat
    trend = judged(OF_A_PROCESS, lives(0.01))
    assert not trend.flat
    assert trend.per_thousand == pytest.approx(10)


def test_processes_of_different_size_are_no_leak() -> None:
    series = [
        slopes.Point(epoch, 100 + 50 * (epoch // 1500), life=epoch // 1500) for epoch in range(0, 20_000, 50)
    ]
    assert judged(OF_A_PROCESS, series).flat


def test_shrinking_is_flat_and_few_points_say_nothing() -> None:
    assert judged(QUANTITY, points(lambda epoch: 1000 - epoch / 100)).flat
    assert slopes.trend(QUANTITY, [slopes.Point(1, 1.0), slopes.Point(2, 2.0)]) is None
    assert slopes.trend(QUANTITY, []) is None


def test_the_schedule_follows_from_the_seed_and_kills_only_in_the_first_fifth_of_a_block() -> None:
    planned = faults.schedule(7, 20_000)
    assert planned == faults.schedule(7, 20_000) != faults.schedule(8, 20_000)
    assert planned[: len(faults.schedule(7, 3_000))] == faults.schedule(7, 3_000)
    assert {fault for _, fault in planned} == set(faults.Fault)
    kills = (faults.Fault.KILL_DRIVER, faults.Fault.KILL_SLOT)
    assert all(epoch % faults.BLOCK < faults.BUSY for epoch, fault in planned if fault in kills)


def test_rocksdb_memory_is_counted_and_what_is_above_its_budget_is_named() -> None:
    within = {"memory": {"budget": 100, "cache": 60, "tables": 10, "write_buffers": 5}}
    above = {"memory": {"budget": 100, "cache": 90, "tables": 30, "write_buffers": 5}}
    unmanaged = {"memory": {"budget": None, "cache": 0, "tables": 0, "write_buffers": 0}}
    assert sampling.managed([within, above, unmanaged]) == (190, 20)
