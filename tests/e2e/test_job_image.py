"""The job's image on a real node: driver and executors in pods under the restricted profile, without an operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import flights
from support.nodes.driver_pods import DriverPods
from support.nodes.flights import FlightsJob
from support.nodes.installed import Operator
from support.nodes.node_job import IN_THE_CLUSTER

from sparkstate_tools import images
from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers import s3server

pytestmark = pytest.mark.slow
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module", autouse=True)
def _no_operator(operator: Operator) -> Iterator[None]:
    """One that other tests have installed would take these pods for those of a job that is gone."""
    operator.scale(0)
    yield
    operator.scale(1)


@pytest.fixture(scope="module")
def image(machine: NodeCluster) -> str:
    job = images.image("job")
    machine.import_image(job.archive)
    return job.tag


@pytest.fixture(scope="module")
def bucket(machine: NodeCluster) -> Iterator[Bucket]:
    with s3server.running() as server:
        port = int(server.endpoint.rpartition(":")[2])
        reached = machine.offer(9000, ("127.0.0.1", port))
        keys = {name: value for name, value in server.environment.items() if name.startswith("AWS_")}
        yield Bucket(f"http://{reached}", "state", keys)


@pytest.fixture
def job(machine: NodeCluster, image: str, bucket: Bucket, tmp_path: Path) -> Iterator[FlightsJob]:
    data = flights.prepared(tmp_path / "prepared", rows=3_000, files=24)
    with machine.cluster.namespace("image", RESTRICTED) as namespace:
        folder = machine.folder / namespace
        made = FlightsJob(machine.cluster, namespace, folder, image, bucket, "flights", data)
        made.prepare()
        yield made


def test_a_driver_with_executors_in_pods_of_their_own_is_exact_when_an_executor_and_then_the_driver_goes(
    job: FlightsJob, operator: Operator
) -> None:
    manifest = job.manifest(
        {
            "deployment": "cluster",
            "slotsPerExecutor": 1,
            "executor": {"cores": 1, "memory": "512Mi"},
            # The node of the tests has two cores, and three pods want one each.
            "sparkConf": {"spark.kubernetes.executor.request.cores": "100m"},
            "driverTemplate": {
                "spec": {
                    **job.manifest()["spec"]["driverTemplate"]["spec"],
                    "terminationGracePeriodSeconds": 40,
                }
            },
        }
    )
    container = manifest["spec"]["driverTemplate"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "100m"}}
    pods = DriverPods(job.cluster, job.namespace, manifest, operator.driver_role)
    first = pods.start(1)
    job.feed(1.0)
    status = pods.until(first, lambda seen: seen["checkpoints_completed"] >= 1, "a checkpoint completes", 240)
    assert (status["job_uid"], status["attempt"]) == (pods.uid, 1)
    hosts = {slot["host"] for slot in status["slots"]}
    assert hosts == {"flights-1-exec-1", "flights-1-exec-2"}

    job.cluster.kubectl("delete", "pod", "flights-1-exec-1", "-n", job.namespace, "--wait=false")
    status = pods.until(
        first, lambda seen: seen["incarnation"] == 2 and len(seen["slots"]) == 2, "it comes back", 240
    )
    assert {slot["host"] for slot in status["slots"]} <= {"flights-1-exec-2", "flights-1-exec-3"}
    before = status["epoch"]
    pods.until(first, lambda seen: seen["epoch"] > before, "epochs go on", 120)

    job.cluster.kubectl("delete", "pod", first, "-n", job.namespace)
    second = pods.start(2)
    status = pods.until(second, lambda seen: seen["phase"] == "RUNNING", "the second attempt runs", 240)
    assert status["restored_from"]
    assert all(pod["metadata"]["name"].startswith("flights-2-") for pod in pods.executors())
    job.finish(300)
    job.check()


def test_a_driver_makes_no_pods_before_it_has_claimed_its_job(job: FlightsJob, operator: Operator) -> None:
    """Spark starts meanwhile: without executors, for another driver may have the job."""
    manifest = job.manifest(IN_THE_CLUSTER)
    manifest["spec"]["s3"] = {**manifest["spec"]["s3"], "endpoint": "http://127.0.0.1:9"}
    pods = DriverPods(job.cluster, job.namespace, manifest, operator.driver_role)
    pod = pods.start(1)
    pods.until(pod, lambda seen: seen["phase"] == "PAUSED", "it waits for the storage")
    folders = ("exec", pod, "-n", job.namespace, "--", "ls", "/var/lib/sparkstate/spark")
    job.cluster.until(lambda: "blockmgr" in job.cluster.kubectl(*folders), "Spark has started", 120)
    assert pods.status(pod)["phase"] == "PAUSED"
    assert pods.executors() == []
