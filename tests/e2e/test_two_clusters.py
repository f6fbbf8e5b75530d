"""Two clusters on one bucket, with a job of one name in both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.nodes import installed
from support.nodes.flights import FlightsJob, Prepared
from support.nodes.installed import Operator
from support.nodes.pod_logs import PodLogs

from sparkstate_tools import images
from sparkstate_tools.kubernetes import nodes
from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.operating import chart
from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers.s3server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
OVER = ("Failed", "RestoreBlocked")


@dataclass
class Other:
    """The second cluster, with a way to the same bucket. No operator is installed yet."""

    machine: NodeCluster
    bucket: Bucket
    logs: PodLogs

    def job(self, namespace: str, folder: Path, image: str, data: Prepared, **changes: Any) -> FlightsJob:
        """A job there, in a namespace of the same name, prepared."""
        meta = {"name": namespace, "labels": dict(chart.RESTRICTED)}
        cluster = self.machine.cluster
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        account = ("serviceaccount", "default", namespace)
        cluster.until(lambda: cluster.get(*account), "the namespace has its ServiceAccount")
        job = FlightsJob(cluster, namespace, folder, image, self.bucket, "flights", data, changes=changes)
        job.prepare()
        return job


@pytest.fixture(scope="module")
def other(job_image: str, storage: S3Server) -> Iterator[Other]:
    with nodes.running() as machine:
        for target in images.TARGETS:
            machine.import_image(images.image(target).archive)
        way = machine.offer(0, ("127.0.0.1", storage.reached_by))
        bucket = Bucket(f"http://{way}", "state", storage.environment)
        sources = [machine.folder / "node-1" / "pod-logs"]
        with PodLogs(sources, machine.folder / "kept-logs").keeping() as logs:
            yield Other(machine, bucket, logs)


def test_clusters_without_a_name_of_their_users_leave_each_other_s_jobs_alone(
    make_job: Any, other: Other, operator: Operator, job_image: str, data: Prepared
) -> None:
    first = make_job()
    second = other.job(first.namespace, other.machine.folder / "data", job_image, data)
    with installed.running(other.machine.cluster, other.logs, other.machine.folder):
        for job in (first, second):
            job.apply()
            job.feed(interval_s=5.0)
        try:
            for job in (first, second):
                job.until_checkpoint_after(0, 300)
                job.finish()
                job.check()
                assert job.status["attempt"] == 1
                assert not job.status.get("restarts", {}).get("fenced")
            names = {job.status["cluster"] for job in (first, second)}
            assert len(names) == 2
        finally:
            second.stop_feeding()
            second.cluster.kubectl("delete", "ssj", second.name, "-n", second.namespace, "--timeout=120s")


def test_two_clusters_of_one_name_end_with_one_job_that_runs_and_one_that_says_why_it_stopped(
    make_job: Any, other: Other, operator: Operator, job_image: str, data: Prepared
) -> None:
    first = make_job()
    first.apply()
    # Longer than the two contend: a job without new data makes no checkpoint that would show it running.
    first.feed(interval_s=60.0)
    name = first.until_checkpoint_after(0, 300)["cluster"]
    # One folder for the output too, as it is with a bucket.
    second = other.job(first.namespace, first.folder, job_image, data)
    values = {"clusterName": name}
    with installed.running(other.machine.cluster, other.logs, other.machine.folder, **values):
        second.apply()
        began = time.monotonic()
        try:
            stopped, runs = contested(first, second)
            print(f"{time.monotonic() - began:6.1f} s until one of them stopped", flush=True)
            told = next(one for one in stopped.status["conditions"] if one["type"] == "Ready")
            assert "LineageContested" in {e["reason"] for e in events(stopped)}, told
            assert "clusterName" in stopped.status["message"]
            # Of the data, the first job releases what there is, whoever reads it.
            runs.until_checkpoint_after(int((runs.status.get("lastCheckpoint") or {}).get("id", 0)), 300)
            first.finish(600)
            first.check()
            assert runs.status["phase"] == "Running"
        finally:
            second.cluster.kubectl("delete", "ssj", second.name, "-n", second.namespace, "--timeout=120s")


def contested(first: FlightsJob, second: FlightsJob) -> tuple[FlightsJob, FlightsJob]:
    """The one that has stopped, and the other, as soon as one has."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        for one, another in ((first, second), (second, first)):
            if one.status.get("phase") in OVER:
                return one, another
        time.sleep(1)
    raise AssertionError(f"neither has stopped: {first.status}, {second.status}")


def events(job: FlightsJob) -> list[dict[str, Any]]:
    return job.cluster.items("events", job.namespace)
