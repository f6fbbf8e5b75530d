"""Runs over bounded input that follow one another on one state, as a job that runs once a day."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.dataset
import pytest

from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

LATER_S = 25
"""How long before c's alarm its row is read. Its run ends sooner, also on a busy machine."""
DAYS = (
    [[("a", 1, 1, 1_000)], [("b", 2, 1, 9_000), ("c", 8, LATER_S * 1000, 9_000)]],
    [[("a", 3, 1, 12_000), ("b", 4, 1, 8_000)], [("a", 5, 1, 13_000)]],
    [[("b", 6, 1, 12_400), ("b", 7, 1, 12_600)]],
)
"""The files of each run: key, id, milliseconds to the row's alarm, time. The allowed delay is 500 ms."""
Rows = list[tuple[object, ...]]


def published(folder: Path) -> Rows:
    rows = pyarrow.dataset.dataset(sorted(folder.glob("part-*"))).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Rows]]:
    """The output of all runs, and the alarms after each. The last run begins when every alarm is due."""
    folder = tmp_path_factory.mktemp("days")
    (folder / "in").mkdir()
    alarms, number, due = [], 0, 0.0
    for attempt, files in enumerate(DAYS, 1):
        for rows in files:
            totals.write(folder / "in" / f"{number:05d}.parquet", rows, number)
            number += 1
        if attempt == len(DAYS):
            time.sleep(max(0.0, due - time.time()))
        document = driving.manifest(folder, "days.py")
        with driving.Driver(folder, document, attempt=attempt) as driver:
            driver.finish()
        due = due or time.time() + LATER_S
        alarms.append(published(folder / "out" / "alarms"))
    return folder / "out", alarms


def test_the_next_run_goes_on_with_the_watermark_of_before_the_end(days: tuple[Path, list[Rows]]) -> None:
    out, _ = days
    late = [("b", 4, 1, 8_000), ("b", 6, 1, 12_400)]
    assert published(out / "late") == late
    assert published(out / "in-time") == [("a", 1), ("a", 3), ("a", 5), ("b", 2), ("b", 7), ("c", 8)]
    counted = [("a", 10_000, 1), ("a", 20_000, 2), ("b", 10_000, 1), ("b", 20_000, 1), ("c", 10_000, 1)]
    assert published(out / "counted") == counted


def test_the_end_of_a_run_fires_the_processing_time_timers_that_are_due_and_keeps_the_others_for_later_runs(
    days: tuple[Path, list[Rows]],
) -> None:
    _, (first, *_, last) = days
    assert first == [("a",), ("b",)], "no epoch follows that of b's row; the end of the run does"
    assert last.count(("c",)) == 1
