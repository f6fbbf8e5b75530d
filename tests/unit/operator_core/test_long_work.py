"""How far a driver's long work is, in the status of its job."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.scene.decisions import NOW, job, look, pod, running_status

from sparkstate_operator import observed

RESTORE: dict[str, Any] = {
    "kind": "restore",
    "name": "",
    "done_bytes": 120 * 2**20,
    "total_bytes": 1200 * 2**20,
}


def test_long_work_is_in_the_status_while_it_lasts_and_written_no_more_often_than_other_progress() -> None:
    savepoint = {"kind": "savepoint", "name": "t-1", "done_bytes": 5, "total_bytes": 100, "left_ms": None}
    works = [{**RESTORE, "left_ms": 27_400}, savepoint]
    settled = look(observed.ObservedState(job(running_status()), NOW, drivers=(pod(),))).status
    report = observed.Report({"phase": "RUNNING", "progress": works})
    seen = observed.ObservedState(job(settled), NOW, drivers=(pod(),), report=report, progress_due=False)
    assert look(seen).status == settled
    shown = look(dataclasses.replace(seen, progress_due=True)).status
    assert shown["progress"] == "restore 120Mi of 1200Mi, 27s left; savepoint t-1 5 of 100"
    for later in (observed.Report({"phase": "RUNNING", "progress": []}), None):
        after = observed.ObservedState(job(shown), NOW, drivers=(pod(),), report=later, progress_due=True)
        assert "progress" not in look(after).status


@pytest.mark.parametrize(
    "odd",
    [None, [], [{}], [{"kind": None, "name": None, "done_bytes": None, "total_bytes": None}], [RESTORE] * 50],
)
def test_whatever_a_driver_says_of_its_work_the_status_can_be_written(odd: Any) -> None:
    report = observed.Report({"phase": "RUNNING", "progress": odd})
    status = look(
        observed.ObservedState(job(running_status()), NOW, drivers=(pod(),), report=report, progress_due=True)
    ).status
    assert len(status.get("progress", "")) < 500
    assert report.news.progress is not None
