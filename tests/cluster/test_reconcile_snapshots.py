"""Savepoints as objects, and the deletion of jobs, on a real API server with the kubelet and the driver played."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.storage import held_deletions, stored_job

from sparkstate import errors
from sparkstate.storage import naming
from sparkstate_tools.operating.operated_namespace import OperatedNamespace
from sparkstate_tools.operating.played_driver import PlayedDriver

URI = "s3://bucket/state/savepoints/savepoint-1"


pytestmark = pytest.mark.usefixtures("running_operator")


def complete_next(operated: OperatedNamespace, driver: PlayedDriver, known: int, location: str) -> None:
    operated.cluster.until(lambda: len(driver.requests()) > known, "the next one is asked for")
    driver.complete(driver.requests()[-1], location)


def look_now(operated: OperatedNamespace, name: str) -> None:
    """A change of the object is looked at, and not only after half a minute."""
    patch = ("--type=merge", "-p", '{"spec": {"deadline": "1m"}}')
    operated.cluster.kubectl("patch", "snap", name, "-n", operated.namespace, *patch)


def finish_command(operated: OperatedNamespace) -> dict[str, Any]:
    """The engine command that is there ends well."""
    command = operated.cluster.until(
        lambda: next(iter(operated.cluster.items("jobs", operated.namespace)), None), "an engine command runs"
    )
    name = command["metadata"]["name"]
    operated.finish_command(name)
    return command


def test_a_snapshot_is_triggered_once_and_completes(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        operated.snapshot("before-upgrade")
        request = driver.until_asked()
        assert not request.stop
        driver.complete(request, URI)
        status = operated.until_snapshot("before-upgrade", "Completed")
        assert len(driver.requests()) == 1
    assert (status["uri"], status["epoch"], status["triggerId"]) == (URI, 7, request.trigger_id)
    assert status["access"]["serviceAccountName"] == "orders-spark"


def test_a_snapshot_survives_a_restart_of_the_operator_between_trigger_and_answer(
    operated: OperatedNamespace,
) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        operated.snapshot("one")
        request = driver.until_asked()
        assert operated.operator
        operated.operator.kill()
        operated.start()
        driver.complete(request, URI)
        operated.until_snapshot("one", "Completed")
        assert len(driver.requests()) == 1


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a savepoint fails",
    when="its StateSnapshot has a backoffLimit",
    expected="it is taken again after a pause, under another trigger id, and completes",
)
def test_a_savepoint_that_failed_is_taken_again(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        operated.snapshot("one", backoffLimit=1)
        first = driver.until_asked()
        driver.fail(first, "disk full")
        waits = operated.until_snapshot("one", "Pending")
        assert (waits["failures"], waits["reason"]) == (1, "SavepointFailed")
        assert "disk full" in waits["message"]
        complete_next(operated, driver, 1, URI)
        status = operated.until_snapshot("one", "Completed")
        second = driver.requests()[-1]
    assert (status["uri"], status["triggerId"]) == (URI, second.trigger_id)
    assert second.trigger_id != first.trigger_id
    assert "SnapshotRetried" in operated.reasons()


def test_a_savepoint_that_its_driver_refuses_says_why_and_fails_at_once_if_that_lasts(
    operated: OperatedNamespace,
) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        driver.refuses = errors.StorageRefused("s3://saved: the keys are not accepted")
        operated.snapshot("one", formatType="native", timeout="2m")
        operated.until_shown("snap", "one", "the keys are not accepted; repair the credentials")
        waits = operated.until_snapshot("one", "Triggered")
        assert waits["reason"] == "SavepointRefused"
        driver.refuses = None
        look_now(operated, "one")
        complete_next(operated, driver, 0, URI)
        status = operated.until_snapshot("one", "Completed")
        assert "reason" not in status and "message" not in status
        assert driver.requests()[0].format_type == "native"

        driver.refuses = errors.SpecInvalid("target_directory is 's3://b/x'")
        operated.snapshot("two", storage="s3://b/x")
        status = operated.until_snapshot("two", "Failed")
        assert status["reason"] == "SavepointRefused"
        assert status["message"] == (
            "target_directory is 's3://b/x'; correct the value that the message names"
        )


def test_a_snapshot_of_a_job_that_does_not_run_waits_and_then_fails(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.snapshot("early", timeout="8s")
    operated.until_snapshot("early", "Pending")
    status = operated.until_snapshot("early", "Failed")
    assert status["reason"] == "JobNotRunning"


def test_periodic_savepoints_come_by_themselves_and_old_ones_go(operated: OperatedNamespace) -> None:
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
        command = finish_command(operated)
    arguments = command["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[:3] == ["savepoints", "delete", "--json"]
    assert arguments[3].startswith(URI)


@pytest.mark.extra
def test_two_savepoints_of_a_job_are_never_in_flight(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        operated.snapshot("one")
        first = driver.until_asked()
        operated.snapshot("two")
        operated.snapshot("three")
        operated.apply(savepoints={"interval": "1s"})
        assert operated.until_snapshot("two", "Pending")
        time.sleep(8)
        assert driver.requests() == [first]
        assert len(operated.cluster.items("snap", operated.namespace)) == 3, "a periodic one was made"
        driver.complete(first, URI)
        operated.until_snapshot("one", "Completed")
        operated.cluster.until(lambda: len(driver.requests()) > 1, "the next one is asked for")
        time.sleep(5)
        assert len(driver.requests()) == 2
    uid = operated.job()["metadata"]["uid"]
    marks = operated.cluster.get("snap", "one", operated.namespace)["metadata"]["labels"]
    assert marks["sparkstate.io/job-uid"] == uid


def stored(operated: OperatedNamespace) -> tuple[str, str]:
    """A job's state in a folder, with two savepoints of it, the older one first."""
    job = stored_job.StoredJob((operated.folder / "state").as_uri(), "elsewhere", 1)
    return job.take_savepoint("a", 5, content=b"rows"), job.take_savepoint("b", 6)


def register_old(operated: OperatedNamespace, url: str, **spec: Any) -> None:
    """The StateSnapshot ``old`` of a savepoint that is there; the engine's own command reads it."""
    operated.register("old", url, **spec)
    operated.run_next_command("savepoints verify")
    operated.until_snapshot("old", "Completed")


def is_there(url: str) -> bool:
    return (naming.local_path(url) / "_metadata").exists()


def test_data_goes_with_its_snapshot_also_when_the_job_is_gone(operated: OperatedNamespace) -> None:
    """The engine's own commands read the savepoint, and delete its files."""
    url, newest = stored(operated)
    register_old(operated, url, deletionPolicy="Delete")
    operated.cluster.kubectl("delete", "snap", "old", "-n", operated.namespace, "--wait=false")
    assert operated.run_next_command("savepoints delete")["deleted"] == [url]
    operated.cluster.until_gone("snap", "old", operated.namespace)
    assert "DataDeleted" in operated.reasons()
    assert (is_there(url), is_there(newest)) == (False, True)
    assert not naming.local_path(url).exists()


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a StateSnapshot is deleted with its data",
    when="a job has to start from it, and has no checkpoint of its own yet",
    expected="object and data stay, also beyond the deadline, until the job has one; the status names the job",
)
def test_data_that_a_job_has_to_start_from_stays_until_the_job_has_its_own(
    operated: OperatedNamespace,
) -> None:
    url, _newest = stored(operated)
    register_old(operated, url, deletionPolicy="Delete", deadline="2s")
    operated.apply(restoreFrom={"snapshotRef": {"name": "old"}})
    operated.until_pod(1)
    operated.cluster.kubectl("delete", "snap", "old", "-n", operated.namespace, "--wait=false")
    operated.until_shown("snap", "old", "the job orders has to start from it")
    time.sleep(3)  # the deadline is over
    with operated.driver() as driver:
        operated.running()
        assert operated.until_snapshot("old", "Deleting")["reason"] == "InUse" and is_there(url)
        driver.checkpoints_done(1)
        operated.until_checkpoint(1)
        look_now(operated, "old")
        assert operated.run_next_command("savepoints delete")["deleted"] == [url]
    operated.cluster.until_gone("snap", "old", operated.namespace)
    assert not is_there(url)
    assert "DataInUse" in operated.reasons()


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the engine refuses to delete what a restart needs",
    when="a StateSnapshot is deleted with its data",
    expected="it is tried again until the deadline; the Event says where the data lies",
)
def test_a_snapshot_goes_by_its_deadline_though_its_data_cannot_be_deleted(
    operated: OperatedNamespace,
) -> None:
    """What the job would restore from is refused, again and again."""
    _old, newest = stored(operated)
    register_old(operated, newest, deletionPolicy="Delete", deadline="15s")
    operated.cluster.kubectl("delete", "snap", "old", "-n", operated.namespace, "--wait=false")
    assert operated.run_next_command("savepoints delete")["ok"] is False

    def told() -> bool:
        found = operated.cluster.get("snap", "old", operated.namespace) or {}
        return "a restart needs it" in str((found.get("status") or {}).get("message"))

    operated.cluster.until(told, "the status says why the data is still there")
    operated.cluster.until_gone("snap", "old", operated.namespace)
    assert "DataKept" in operated.reasons()
    assert is_there(newest)


def ask_for(operated: OperatedNamespace, driver: PlayedDriver, store: str) -> str:
    """A savepoint of the running job is asked for; its trigger."""
    operated.snapshot("one", deletionPolicy="Delete")
    trigger = str(driver.until_asked().trigger_id)
    operated.until_snapshot("one", "InProgress")
    access = operated.cluster.get("snap", "one", operated.namespace)["status"]["access"]
    assert access["storage"] == store
    assert access["job"] == f"default/{operated.namespace}/orders"
    return trigger


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a StateSnapshot is deleted",
    when="its savepoint is being taken",
    expected="the object stays until the savepoint is complete, and goes with its data",
)
def test_a_savepoint_whose_object_is_deleted_in_flight_goes_when_it_is_complete(
    operated: OperatedNamespace,
) -> None:
    store = (operated.folder / "state").as_uri()
    operated.apply(checkpointing={"storage": store, "timeout": "60s"})
    operated.until_pod(1)
    stores = stored_job.StoredJob(store, "orders", 1, cluster="default", namespace=operated.namespace)
    with operated.driver() as driver:
        operated.running()
        trigger = ask_for(operated, driver, store)
        operated.cluster.kubectl("delete", "snap", "one", "-n", operated.namespace, "--wait=false")
        operated.until_snapshot("one", "Deleting")
        time.sleep(5)
        assert operated.cluster.get("snap", "one", operated.namespace), "nobody knows yet what becomes of it"
        url = stores.take_savepoint(trigger, 5)
        stores.take_savepoint("a newer one", 6)
        driver.complete(driver.requests()[-1], url)
        assert operated.run_next_command("savepoints delete")["deleted"] == [url]
        operated.cluster.until_gone("snap", "one", operated.namespace)
    assert not is_there(url)


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the job is deleted while its savepoint is taken, and nobody has heard that it is complete",
    when="its StateSnapshot is deleted",
    expected="the engine finds the savepoint by its trigger, and deletes it",
)
def test_a_savepoint_whose_object_is_deleted_in_flight_goes_though_job_and_driver_are_gone(
    operated: OperatedNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the object's message shows how far the deletion is."""
    with held_deletions.running(monkeypatch) as held:
        operated.apply(**held.spec(deletion={"policy": "retain"}))
        operated.until_pod(1)
        stores = held.stored(operated.namespace)
        with operated.driver() as driver:
            operated.running()
            trigger = ask_for(operated, driver, held_deletions.URL)
            url = stores.take_savepoint(trigger, 5, content=b"rows" * 10_000)
            stores.take_savepoint("a newer one", 6)
        operated.delete()
        operated.until_deleting("orders-driver-1")
        operated.kubelet.finish_deletion("orders-driver-1")
        operated.cluster.until_gone("ssj", "orders", operated.namespace)
        assert operated.until_snapshot("one", "Failed")["reason"] == "JobNotFound"
        operated.cluster.kubectl("delete", "snap", "one", "-n", operated.namespace, "--wait=false")
        with operated.running_command("savepoints delete"):
            operated.until_shown("snap", "one", "deletion 0 %: 0 of ")
            held.let_pass()
        operated.cluster.until_gone("snap", "one", operated.namespace)
        assert not held.is_there(url)


def test_a_savepoint_that_completes_after_its_timeout_is_known(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        operated.snapshot("one", timeout="6s")
        request = driver.until_asked()
        assert operated.until_snapshot("one", "Failed")["reason"] == "Timeout"
        driver.complete(request, URI)
        assert operated.until_snapshot("one", "Completed", timeout_s=90)["uri"] == URI
