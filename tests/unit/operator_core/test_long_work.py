"""How far long work is, in the status of its job: that of its driver, of an engine command, and of a rescale."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.scene.decisions import NOW, job, look, pod, revision, running_status, stored

from sparkstate_operator import observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.decide import decide

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


def purging(work: dict[str, Any] | None, before: str | None = None, **how: Any) -> str | None:
    """The progress of a job whose purge says so much of itself."""
    intent = {"action": "delete", "attempt": 1, "since": "2026-01-01T12:00:00Z", "policy": "purge"}
    status = running_status(phase="Deleting", intent=intent, **({"progress": before} if before else {}))
    command = observed.Command(
        naming.command_job("orders", "uid-1", "purge"), "t", "1", "purge", False, False,
        progress={"progress": [work]} if work else {}, **how,
    )  # fmt: skip
    seen = observed.ObservedState(job(status, deleting=True), NOW, commands=(command,), progress_due=False)
    return look(seen).status.get("progress")


def test_a_purge_tells_how_far_it_is_in_steps_of_ten_percent() -> None:
    def at(mebibytes: int) -> dict[str, Any]:
        return {**RESTORE, "kind": "purge", "done_bytes": mebibytes << 20, "left_ms": 27_400}

    first = purging(at(120))
    assert first == "purge 10 %: 120Mi of 1200Mi, 27s left"
    assert purging(at(239), first) == first, "each change is a write"
    assert purging(at(240), first) == "purge 20 %: 240Mi of 1200Mi, 27s left"
    assert purging(None, first) is None, "of a command that says nothing, nothing is told"


def moved(document: dict[str, Any] | None, slots: int = 3, *, due: bool = True, **status: Any) -> str | None:
    """The progress of a job that had two slots, in the middle of an upgrade."""
    report = observed.Report({"phase": "RUNNING", **document}) if document is not None else None
    known = {found.name: found for found in (revision(slots=2), revision(slots=slots))}
    wanted = revision(slots=slots)
    intent = {"action": "upgrade", "since": "2026-01-01T12:00:00Z", "attempt": 1, "revision": wanted.name}
    given = running_status(revision=revision(slots=2).name, slots=2, phase="Upgrading", intent=intent)
    seen = observed.ObservedState(
        job({**given, **status}, slots=slots),
        NOW,
        drivers=(pod(ready=report is not None),),
        report=report,
        progress_due=due,
    )
    found = stored(decide(seen, known, wanted, "", Config())).status.get("progress")
    return None if found is None else str(found)


def test_a_rescale_shows_its_steps_from_the_stop_of_the_old_slots_to_the_report_of_the_new() -> None:
    savepoint = {**RESTORE, "kind": "savepoint", "name": "t-1", "left_ms": 27_400}
    assert moved({}) == "rescale 2 to 3 slots: the old slots stop"
    assert moved({"progress": [savepoint]}) == (
        "rescale 2 to 3 slots: savepoint t-1 120Mi of 1200Mi, 27s left"
    )
    starting: dict[str, Any] = {"phase": "Starting", "intent": None, "revision": revision(slots=3).name}
    assert moved(None, **starting) == "rescale 2 to 3 slots: the new slots start"
    restoring = {"phase": "RESTORING", "progress": [{**RESTORE, "left_ms": None}]}
    assert moved(restoring, **starting) == "rescale 2 to 3 slots: restore 120Mi of 1200Mi"
    there = {"slots": [{"shards": [0]}] * 3, "progress": []}
    assert moved(there, **starting) is None


def test_between_two_times_to_write_progress_a_job_with_an_act_under_way_shows_steps_of_ten_percent() -> None:
    def at(mebibytes: int, before: str | None, kind: str = "savepoint", *, due: bool = False) -> str | None:
        work = {
            **RESTORE,
            "kind": kind,
            "name": "",
            "done_bytes": mebibytes << 20,
            "left_ms": 1_000 * mebibytes,
        }
        shown = {"progress": before} if before else {}
        return moved({"progress": [work]}, due=due, **shown)

    first = at(130, None)
    assert first == "rescale 2 to 3 slots: savepoint 130Mi of 1200Mi, 2m10s left"
    assert at(230, first) == first, "each change is a write"
    assert at(230, first, due=True) == "rescale 2 to 3 slots: savepoint 230Mi of 1200Mi, 3m50s left"
    assert at(240, first) == "rescale 2 to 3 slots: savepoint 240Mi of 1200Mi, 4m left"
    assert at(130, first, "restore") == "rescale 2 to 3 slots: restore 130Mi of 1200Mi, 2m10s left"


def test_an_upgrade_with_as_many_slots_is_no_rescale() -> None:
    assert moved({}, slots=2) is None
