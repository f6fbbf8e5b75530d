"""Argo CD's health check of our objects, run by a real Lua over the conditions that the operator writes."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import lupa
import pytest

from sparkstate_operator.core import conditions
from sparkstate_operator.core.conditions import Facts, Trouble
from sparkstate_operator.model.snapshot import SnapshotPhase
from sparkstate_operator.model.status import JobPhase

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = (ROOT / "charts/sparkstate-operator/files/argocd-health.lua").read_text()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TROUBLE = Trouble("StorageUnavailable", "no bucket")
JOBS: dict[JobPhase, str] = {
    "Pending": "Progressing",
    "Starting": "Progressing",
    "Running": "Healthy",
    "Upgrading": "Progressing",
    "Suspending": "Progressing",
    "Suspended": "Suspended",
    "Failing": "Degraded",
    "RestoreBlocked": "Degraded",
    "Failed": "Degraded",
    "Finished": "Healthy",
    "Deleting": "Progressing",
}
SNAPSHOTS: dict[SnapshotPhase, str] = {
    "Pending": "Progressing",
    "Triggered": "Progressing",
    "InProgress": "Progressing",
    "Completed": "Healthy",
    "Failed": "Degraded",
    "Deleting": "Progressing",
}


def health(document: dict[str, Any]) -> tuple[str, str]:
    """As Argo CD asks: ``obj`` is given, a table with status and message comes back."""
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(document, recursive=True)
    found = lua.execute(SCRIPT)
    return str(found["status"]), str(found["message"])


def document(phase: str, found: tuple[Any, ...]) -> dict[str, Any]:
    shown = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found]
    status = {"phase": phase, "observedGeneration": 2, "conditions": shown}
    return {"metadata": {"generation": 2}, "status": status}


@pytest.mark.parametrize("phase", get_args(JobPhase))
def test_each_phase_of_a_job_has_its_health(phase: JobPhase) -> None:
    failure = TROUBLE if phase in ("Failing", "Failed") else None
    shown = conditions.of_job(Facts(phase, 2, "because", failure=failure), None, NOW)
    assert health(document(phase, shown))[0] == JOBS[phase]


@pytest.mark.parametrize("phase", get_args(SnapshotPhase))
def test_each_phase_of_a_snapshot_has_its_health(phase: SnapshotPhase) -> None:
    shown = conditions.of_snapshot(phase, 2, None, NOW, "because")
    assert health(document(phase, shown))[0] == SNAPSHOTS[phase]


def test_what_is_wrong_with_a_running_job_is_said() -> None:
    degraded = conditions.of_job(Facts("Running", 2, degraded=TROUBLE), None, NOW)
    assert health(document("Running", degraded)) == ("Degraded", "StorageUnavailable: no bucket")
    invalid = conditions.of_job(Facts("Running", 2, invalid=Trouble("SpecInvalid", "slots is 0")), None, NOW)
    assert health(document("Running", invalid)) == ("Degraded", "SpecInvalid: slots is 0")


@pytest.mark.parametrize("status", [None, {"phase": "Running", "observedGeneration": 1}])
def test_an_object_that_nobody_has_judged_yet_is_waited_for(status: dict[str, Any] | None) -> None:
    given = {"metadata": {"generation": 2}, **({"status": status} if status else {})}
    assert health(given) == ("Progressing", "not yet seen by the operator")


def test_a_status_without_conditions_or_phase_is_no_error() -> None:
    assert health({"metadata": {"generation": 1}, "status": {"observedGeneration": 1}}) == ("Progressing", "")


def test_the_page_shows_the_chart_s_script() -> None:
    assert textwrap.indent(SCRIPT, "    ") in (ROOT / "docs/helm.md").read_text()
