"""Pods that the cluster does not take for a while: a webhook that refuses or fails, a quota that is full."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.cluster import webhook
from support.cluster.quotas import limit
from support.cluster.webhook import Mood
from support.nodes.flights import FlightsJob

from sparkstate_tools.kubernetes.nodes import NodeCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MINUTE_S = 60.0


def reasons(job: FlightsJob) -> set[str]:
    """Reasons of the namespace's Events."""
    return {event["reason"] for event in job.cluster.items("events", job.namespace)}


@pytest.mark.parametrize("mood", ["refuses", "fails"])
def test_a_webhook_that_takes_no_pods_for_a_minute_costs_the_minute_and_no_attempt(
    make_job: Callable[..., FlightsJob], machine: NodeCluster, mood: Mood
) -> None:
    job = make_job()
    with webhook.judging(
        machine.cluster, job.namespace, reached_by=lambda address: machine.offer(0, address)
    ) as judge:
        job.apply()
        job.feed(interval_s=5.0)
        newest = job.until_checkpoint_after(0, 300)["lastCheckpoint"]["id"]
        judge.mood, before = mood, judge.asked
        job.delete_driver()
        time.sleep(MINUTE_S)
        assert judge.asked - before > 1, "the operator gave up"
        assert job.pods() == []
        status = job.status
        assert status["attempt"] == 2
        assert status["phase"] not in ("Failed", "RestoreBlocked")
        assert "Refused" in reasons(job)
        judge.mood = "passes"
        began = time.monotonic()
        job.cluster.until(job.pods, "the next driver's pod is there", 60)
        print(f"{time.monotonic() - began:6.1f} s until there was a pod again", flush=True)
        job.until_checkpoint_after(newest + 1)
        assert job.status["attempt"] == 2
        job.finish()
        job.check()


def test_a_job_waits_for_a_full_quota_and_runs_when_there_is_room(
    make_job: Callable[..., FlightsJob], machine: NodeCluster
) -> None:
    job = make_job()
    cluster = machine.cluster
    limit(cluster, job.namespace, "one", {"pods": "1"})
    filler = {"name": "filler", "namespace": job.namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": filler, "spec": _waiting(job.image)})
    job.apply()
    cluster.until(lambda: "Forbidden" in reasons(job), "the full quota is told", 60)
    assert job.pods() == []
    cluster.kubectl("delete", "pod", "filler", "-n", job.namespace, "--grace-period=0", "--force")
    began = time.monotonic()
    job.feed(interval_s=5.0)
    status = job.until_checkpoint_after(0, 300)
    print(f"{time.monotonic() - began:6.1f} s from free room until the first checkpoint", flush=True)
    assert status["attempt"] == 1
    # The next driver's pod has no room beside the end of this one, and comes after it.
    job.delete_driver()
    job.until(lambda now: now["attempt"] == 2 and now["phase"] == "Running", "the next attempt runs", 240)
    job.until_checkpoint_after(status["lastCheckpoint"]["id"])
    assert job.status["attempt"] == 2
    job.finish()
    job.check()


def _waiting(image: str) -> dict[str, object]:
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    command = ["python", "-c", "import time; time.sleep(3600)"]
    one = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": command}
    return {
        "containers": [{**one, "securityContext": security}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
    }
