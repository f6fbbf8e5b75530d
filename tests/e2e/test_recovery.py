"""What is lost while a job runs, one thing at a time; the output is exact afterwards."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.installed import Operator
from support.nodes.node_job import IN_THE_CLUSTER, KINDS

from sparkstate_tools.servers.s3server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeJob = Callable[..., FlightsJob]
BOTH_KINDS = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def running(job: FlightsJob) -> int:
    """Applies the job, feeds it, and waits for its second checkpoint; the number of the newest one."""
    job.apply()
    job.feed(interval_s=5.0)
    status = job.until_checkpoint_after(1, 240)
    assert status["phase"] == "Running"
    return int(status["lastCheckpoint"]["id"])


def until_recovered(job: FlightsJob, what: str, newest: int, since: datetime) -> None:
    """Waits for a later checkpoint while it runs, and prints how long that took."""
    status = job.until(
        lambda now: now["phase"] == "Running" and now["lastCheckpoint"]["id"] > newest,
        f"it runs and completed a checkpoint after {newest}",
        240,
    )
    done = datetime.fromisoformat(status["lastCheckpoint"]["time"])
    print(f"\n{what}: checkpoint {(done - since).total_seconds():.1f} s later", flush=True)


@BOTH_KINDS
def test_a_killed_driver_process_is_followed_by_another(make_job: MakeJob, kind: dict[str, Any]) -> None:
    job = make_job(**kind)
    newest, since = running(job), datetime.now(UTC)
    job.kill_driver()
    until_recovered(job, "driver process killed", newest, since)
    if kind:  # the executors of the life before are gone
        job.cluster.until(lambda: len(job.pods("executor")) == 2, "there are two executors", 60)
        owners = {one["uid"] for pod in job.pods("executor") for one in pod["metadata"]["ownerReferences"]}
        assert owners == {job.driver()["metadata"]["uid"]}
        assert "Timed out waiting" not in job.driver_log()  # Spark asks for executors at once
    job.finish()
    job.check()


@BOTH_KINDS
def test_a_deleted_driver_pod_is_followed_by_another_attempt(make_job: MakeJob, kind: dict[str, Any]) -> None:
    job = make_job(**kind)
    newest, since = running(job), datetime.now(UTC)
    gone = job.delete_driver()
    job.until(lambda status: status.get("attempt", 0) > 1, "there is another attempt")
    until_recovered(job, "driver pod deleted", newest, since)
    assert job.driver()["metadata"]["uid"] != gone
    job.finish()
    job.check()


def test_a_deleted_executor_is_replaced_and_its_slot_restored(make_job: MakeJob) -> None:
    job = make_job(**IN_THE_CLUSTER)
    newest, since = running(job), datetime.now(UTC)
    before = {pod["metadata"]["name"] for pod in job.pods("executor")}
    assert len(before) == 2
    job.delete_executor()
    until_recovered(job, "executor pod deleted", newest, since)
    job.cluster.until(
        lambda: {pod["metadata"]["name"] for pod in job.pods("executor")} - before, "there is a new executor"
    )
    assert job.status["attempt"] == 1
    job.finish()
    job.check()


@BOTH_KINDS
def test_a_job_outlives_a_crash_of_its_driver_while_there_is_no_operator(
    make_job: MakeJob, operator: Operator, kind: dict[str, Any]
) -> None:
    job = make_job(**kind)
    newest, since = running(job), datetime.now(UTC)
    operator.scale(0)
    try:
        job.delete_driver()
        job.cluster.until(lambda: not job.pods(), "the driver's pod is gone", 60)
    finally:
        operator.scale(1)
    until_recovered(job, "driver pod gone while the operator was away", newest, since)
    job.finish()
    job.check()


@BOTH_KINDS
@pytest.mark.parametrize("how", ["refuses", "hangs"])
def test_a_job_waits_for_storage_that_is_away(
    make_job: MakeJob, storage: S3Server, how: str, kind: dict[str, Any]
) -> None:
    job = make_job(**kind)
    newest, since = running(job), datetime.now(UTC)
    assert storage.process is not None
    if how == "refuses":
        storage.stop()
        time.sleep(15)
        storage.start()
    else:
        storage.process.send_signal(signal.SIGSTOP)
        time.sleep(20)
        storage.process.send_signal(signal.SIGCONT)
    until_recovered(job, f"storage {how}", newest, since)
    job.finish()
    job.check()
