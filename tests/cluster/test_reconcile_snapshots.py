"""Savepoints as objects, and the deletion of jobs, on a real API server with the kubelet and the driver played."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.operated import Operated
from support.played_driver import PlayedDriver

URI = "s3://bucket/state/savepoints/savepoint-1"


pytestmark = pytest.mark.usefixtures("running_operator")


def snapshot(operated: Operated, name: str, **spec: Any) -> None:
    operated.cluster.apply(
        {
            "apiVersion": "sparkstate.io/v1alpha1",
            "kind": "StateSnapshot",
            "metadata": {"name": name, "namespace": operated.namespace},
            "spec": {"jobRef": {"name": "orders"}, **spec},
        }
    )


def until_snapshot(operated: Operated, name: str, phase: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        found = (operated.cluster.get("snap", name, operated.namespace) or {}).get("status") or {}
        return found if found.get("phase") == phase else None

    return operated.cluster.until(reached, f"snapshot {name} is {phase}")


def complete_next(operated: Operated, driver: PlayedDriver, known: int, location: str) -> None:
    operated.cluster.until(lambda: len(driver.requests()) > known, "the next one is asked for")
    driver.complete(driver.requests()[-1], location)


def finish_task(operated: Operated) -> dict[str, Any]:
    """The engine command that is there ends well."""
    task = operated.cluster.until(
        lambda: next(iter(operated.cluster.items("jobs", operated.namespace)), None), "an engine command runs"
    )
    name = task["metadata"]["name"]
    operated.finish_task(name)
    return task


def test_a_snapshot_is_triggered_once_and_completes(operated: Operated) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        snapshot(operated, "before-upgrade")
        request = driver.until_asked()
        assert not request.stop
        driver.complete(request, URI)
        status = until_snapshot(operated, "before-upgrade", "Completed")
        assert len(driver.requests()) == 1
    assert (status["uri"], status["epoch"], status["triggerId"]) == (URI, 7, request.trigger_id)
    assert status["access"]["serviceAccountName"] == "orders-spark"


def test_a_snapshot_survives_a_restart_of_the_operator_between_trigger_and_answer(operated: Operated) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        snapshot(operated, "one")
        request = driver.until_asked()
        assert operated.operator
        operated.operator.kill()
        operated.start()
        driver.complete(request, URI)
        until_snapshot(operated, "one", "Completed")
        assert len(driver.requests()) == 1


def test_a_snapshot_of_a_job_that_does_not_run_waits_and_then_fails(operated: Operated) -> None:
    operated.apply()
    snapshot(operated, "early", timeout="8s")
    until_snapshot(operated, "early", "Pending")
    status = until_snapshot(operated, "early", "Failed")
    assert status["reason"] == "JobNotRunning"


def test_periodic_savepoints_come_by_themselves_and_old_ones_go(operated: Operated) -> None:
    operated.apply(savepoints={"interval": "3s", "maxCount": 1})
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        for number in range(3):
            complete_next(operated, driver, number, f"{URI}-{number}")

        def deleting() -> bool:
            found = operated.cluster.items("snap", operated.namespace)
            return any("deletionTimestamp" in one["metadata"] for one in found)

        operated.cluster.until(deleting, "the oldest one is let go")
        task = finish_task(operated)
    arguments = task["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[:3] == ["savepoints", "delete", "--json"]
    assert arguments[3].startswith(URI)


def test_two_savepoints_of_a_job_are_never_in_flight(operated: Operated) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        snapshot(operated, "one")
        first = driver.until_asked()
        snapshot(operated, "two")
        snapshot(operated, "three")
        operated.apply(savepoints={"interval": "1s"})
        assert until_snapshot(operated, "two", "Pending")
        time.sleep(8)
        assert driver.requests() == [first]
        assert len(operated.cluster.items("snap", operated.namespace)) == 3, "a periodic one was made"
        driver.complete(first, URI)
        until_snapshot(operated, "one", "Completed")
        operated.cluster.until(lambda: len(driver.requests()) > 1, "the next one is asked for")
        time.sleep(5)
        assert len(driver.requests()) == 2
    uid = operated.job()["metadata"]["uid"]
    marks = operated.cluster.get("snap", "one", operated.namespace)["metadata"]["labels"]
    assert marks["sparkstate.io/job-uid"] == uid


def test_data_goes_with_its_snapshot_also_when_the_job_is_gone(operated: Operated) -> None:
    operated.cluster.apply(
        {
            "apiVersion": "sparkstate.io/v1alpha1",
            "kind": "StateSnapshot",
            "metadata": {"name": "old", "namespace": operated.namespace},
            "spec": {"uri": URI, "deletionPolicy": "Delete"},
        }
    )
    until_snapshot(operated, "old", "Completed")
    operated.cluster.kubectl("delete", "snap", "old", "-n", operated.namespace, "--wait=false")
    finish_task(operated)
    operated.cluster.until_gone("snap", "old", operated.namespace)
    assert "DataDeleted" in operated.reasons()


def test_a_snapshot_goes_by_its_deadline_though_its_data_cannot_be_deleted(operated: Operated) -> None:
    operated.cluster.apply(
        {
            "apiVersion": "sparkstate.io/v1alpha1",
            "kind": "StateSnapshot",
            "metadata": {"name": "old", "namespace": operated.namespace},
            "spec": {"uri": URI, "deletionPolicy": "Delete", "deadline": "3s"},
        }
    )
    until_snapshot(operated, "old", "Completed")
    operated.cluster.kubectl("delete", "snap", "old", "-n", operated.namespace, "--wait=false")
    operated.cluster.until_gone("snap", "old", operated.namespace)
    assert "DataKept" in operated.reasons()
