"""Which phases of a job nobody waits on."""

from __future__ import annotations

from sparkstate_tools.operating import cluster_jobs


def test_nobody_waits_on_a_job_that_only_a_person_can_help() -> None:
    assert sorted(cluster_jobs.STUCK) == ["Failed", "RestoreBlocked"]
