"""Runs over bounded input that follow one another on one state, as a job that runs once a day."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset
import pytest

from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DAYS = (
    [[("a", 1, 1, 1_000)], [("b", 2, 1, 9_000)]],
    [[("a", 3, 1, 12_000), ("b", 4, 1, 8_000)], [("a", 5, 1, 13_000)]],
    [[("b", 6, 1, 12_400), ("b", 7, 1, 12_600)]],
)
"""The files of each run; the allowed delay is 500 ms."""


def published(folder: Path) -> list[tuple[object, ...]]:
    rows = pyarrow.dataset.dataset(sorted(folder.glob("part-*"))).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_the_next_run_goes_on_with_the_watermark_of_before_the_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    number = 0
    for attempt, files in enumerate(DAYS, 1):
        for rows in files:
            totals.write(tmp_path / "in" / f"{number:05d}.parquet", rows, number)
            number += 1
        document = driving.manifest(tmp_path, "days.py")
        with driving.Driver(tmp_path, document, attempt=attempt) as driver:
            driver.finish()
    out = tmp_path / "out"
    late = [("b", 4, 1, 8_000), ("b", 6, 1, 12_400)]
    assert published(out / "late") == late
    assert published(out / "in-time") == [("a", 1), ("a", 3), ("a", 5), ("b", 2), ("b", 7)]
    counted = [("a", 10_000, 1), ("a", 20_000, 2), ("b", 10_000, 1), ("b", 20_000, 1)]
    assert published(out / "counted") == counted
