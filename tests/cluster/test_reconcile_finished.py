"""Jobs that have finished rest, go after their time, or run again: on a real API server with the kubelet played."""

from __future__ import annotations

import pytest

from sparkstate_tools.operating.operated_namespace import OperatedNamespace

pytestmark = pytest.mark.usefixtures("running_operator")


def test_a_finished_job_rests(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    operated.kubelet.end("orders-driver-1", 0, {"reason": "Finished", "message": "all is committed"})
    operated.until_phase("Finished")
    assert operated.conditions()["Ready"]["status"] == "True"


def test_a_finished_job_is_deleted_after_the_time_of_its_spec(operated: OperatedNamespace) -> None:
    operated.apply(ttlSecondsAfterFinished=3600)
    operated.running()
    operated.kubelet.end("orders-driver-1", 0, {"reason": "Finished", "message": "all is committed"})
    finished = operated.until_phase("Finished")
    assert finished["completionTime"]
    operated.apply(ttlSecondsAfterFinished=3)
    operated.cluster.until(
        lambda: operated.cluster.get("ssj", operated.name, operated.namespace) is None, "the job is gone"
    )
    assert "Expired" in operated.reasons()
    for kind in ("pods", "configmaps", "secrets", "serviceaccounts", "controllerrevisions"):
        assert operated.cluster.items(kind, operated.namespace, "sparkstate.io/job=orders") == []


@pytest.mark.extra
@pytest.mark.slow
def test_a_job_runs_again_by_its_schedule(operated: OperatedNamespace) -> None:
    """Each minute, and up to a minute later: no schedule is finer."""
    operated.apply(trigger={"availableNow": True, "schedule": "* * * * *"})
    operated.running()
    for attempt in (1, 2):
        operated.kubelet.end(
            f"orders-driver-{attempt}", 0, {"reason": "Finished", "message": "all is committed"}
        )
        operated.until_phase("Finished")
        operated.until_pod(attempt + 1, timeout_s=150)
        operated.running(attempt + 1)
    assert "RunDue" in operated.reasons()
