"""Functions on Arrow batches in whole jobs: exactly once through kills, and over savepoints to functions per record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sparkstate.phases import ProcessPhase
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark


def quiet(folder: Path) -> Counter[tuple[object, ...]]:
    """Rows of the side output that timers write."""
    return Counter(tuple(row.values()) for row in totals.read(folder / "out" / "quiet"))


def run(folder: Path, per: str, attempt: int, backend: str = "hashmap") -> None:
    """The job to the end of its input."""
    document = driving.manifest(folder, "batches.py", params={"per": per}, stateBackend={"type": backend})
    with driving.Driver(folder, document, attempt=attempt) as driver:
        driver.finish()


@pytest.mark.parametrize(
    ("backend", "changes"), [pytest.param("hashmap", 3, marks=pytest.mark.extra), ("rocksdb", 2)]
)
def test_a_job_changes_from_rows_to_batches_and_back(tmp_path: Path, backend: str, changes: int) -> None:
    """Each run goes on from the state of the one before; a third job, with functions per record alone, is the judge."""
    rows: list[totals.Row] = []
    for attempt, per in enumerate(("row", "batch", "row", "batch")[: changes + 1], start=1):
        for folder in (tmp_path, tmp_path / "judge"):
            made = totals.make_input(folder / "in", files=4, seed=attempt, first=len(rows) // 200)
        rows += made
        run(tmp_path, per, attempt, backend)
        run(tmp_path / "judge", "row", attempt, backend)
    totals.check(tmp_path / "out", rows)
    assert quiet(tmp_path) == quiet(tmp_path / "judge")
    assert quiet(tmp_path)


def test_slots_that_are_killed_lose_and_repeat_nothing(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=12)
    document = driving.manifest(tmp_path, "batches.py")
    with driving.Driver(tmp_path, document) as driver:
        for phase in (ProcessPhase.FEED, ProcessPhase.FINISH, ProcessPhase.COMMIT):
            driver.kill_in("slot-0", phase)
        driver.finish()
    totals.check(tmp_path / "out", rows)
