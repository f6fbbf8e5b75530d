"""Clusters with real nodes, and on them the operator as a user installs it, with an S3 server beside them.

Each test gets a job of example 01 in a namespace of its own. Whatever a test does, it fails also when the operator's
log holds an error that the test did not announce. What is needed to find a reason stays under ``build/e2e/``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.nodes import flights, installed, large
from support.nodes.flights import FlightsJob, Prepared
from support.nodes.installed import Operator
from support.nodes.large import LargeJob
from support.nodes.node_job import NodeJob
from support.nodes.pod_logs import PodLogs

from sparkstate_tools import images
from sparkstate_tools.kubernetes import addresses, nodes
from sparkstate_tools.kubernetes.control_plane import ADDRESS
from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.operating import chart
from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers import s3server
from sparkstate_tools.servers.fault_proxy import FaultProxy
from sparkstate_tools.servers.s3server import S3Server

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "e2e"
MakeJob = Callable[..., FlightsJob]
MakeLarge = Callable[..., LargeJob]
Job = TypeVar("Job", bound=NodeJob)

# The default waits longer than a test wants to: 50 s until a silent node counts as gone.
MANAGER = ("--node-monitor-grace-period=20s",)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Tells the fixtures at their end whether the test has failed."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "call":
        item.stash[FAILED] = report.failed


FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def machine() -> Iterator[NodeCluster]:
    """A cluster of our own with one node; two-node tests add another."""
    with nodes.running(MANAGER) as started:
        yield started


@pytest.fixture(scope="session")
def job_image(machine: NodeCluster) -> str:
    """The images of the Dockerfile are on the nodes; the tag of ``job``."""
    for target in images.TARGETS:
        one = images.image(target)
        if not one.archive.exists():
            raise RuntimeError(f"{one.archive} is missing: make images")
        machine.import_image(one.archive)
    return images.image("job").tag


@pytest.fixture(scope="session")
def storage(machine: NodeCluster) -> Iterator[S3Server]:
    """The S3 server, where pods reach it without a detour through this process."""
    place = s3server.Place(ADDRESS, machine.inside, machine.door.connect)
    with s3server.running(place) as server:
        server.reached_by = machine.reach((ADDRESS, server.port))
        yield server


@pytest.fixture(scope="session")
def bucket(storage: S3Server) -> Bucket:
    """Its bucket as pods reach it."""
    return Bucket(f"http://{addresses.at(ADDRESS, storage.port)}", "state", storage.environment)


@pytest.fixture
def proxy(storage: S3Server) -> Iterator[FaultProxy]:
    """A way to the S3 server that breaks what it is told to break."""
    with FaultProxy(storage.reached_by) as standing:
        yield standing


@pytest.fixture
def proxied(machine: NodeCluster, storage: S3Server, proxy: FaultProxy) -> Bucket:
    """The bucket, reached that way."""
    address = machine.offer(0, ("127.0.0.1", proxy.port))
    return Bucket(f"http://{address}", "state", storage.environment)


@pytest.fixture(scope="session")
def logs(machine: NodeCluster) -> Iterator[PodLogs]:
    """What every container printed, on three nodes at most."""
    sources = [machine.folder / f"node-{number + 1}" / "pod-logs" for number in range(nodes.MOST_NODES)]
    with PodLogs(sources, machine.folder / "kept-logs").keeping() as kept:
        yield kept


@pytest.fixture(scope="session")
def operator(machine: NodeCluster, job_image: str, logs: PodLogs) -> Iterator[Operator]:
    """The operator, installed by helm."""
    with installed.running(machine.cluster, logs, machine.folder) as one:
        yield one


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The first eight days of real flights, and what must come of them."""
    return flights.prepared(tmp_path_factory.mktemp("prepared"))


@dataclass
class Place:
    """A namespace for the jobs of a test."""

    namespace: str
    folder: Path
    jobs: list[NodeJob] = field(default_factory=list)

    def add(self, job: Job, code: str | None = None) -> Job:
        """Prepares a job, which is deleted at the end; ``code`` is another script than its own."""
        job.prepare(code)
        self.jobs.append(job)
        return job


@pytest.fixture
def place(
    request: pytest.FixtureRequest, machine: NodeCluster, operator: Operator, logs: PodLogs
) -> Iterator[Place]:
    """What its jobs leave is deleted; the operator must not have complained meanwhile."""
    cluster = machine.cluster
    before = len(operator.complaints())
    with cluster.namespace("e2e", chart.RESTRICTED) as namespace:
        here = Place(namespace, machine.folder / "data" / namespace)
        yield here
        if request.node.stash.get(FAILED, True):
            _keep(request.node.name, machine, namespace, logs)
        for job in here.jobs:
            job.stop_feeding()
            cluster.kubectl(
                "delete", "ssj", job.name, "-n", namespace, "--ignore-not-found", "--timeout=120s"
            )
        assert operator.complaints()[before:] == []


@pytest.fixture
def make_job(place: Place, machine: NodeCluster, job_image: str, bucket: Bucket, data: Prepared) -> MakeJob:
    """``make_job(slots=3, …)``: a job of example 01 that is prepared and not applied; fields go into its spec.
    ``through`` is another way to the bucket, ``code`` another script."""

    def make(
        name: str = "flights", *, through: Bucket = bucket, code: str | None = None, **changes: Any
    ) -> FlightsJob:
        there = (machine.cluster, place.namespace, place.folder / name, job_image, through, name)
        return place.add(FlightsJob(*there, data, changes=changes), code)

    return make


@pytest.fixture
def make_large(place: Place, machine: NodeCluster, job_image: str, bucket: Bucket) -> MakeLarge:
    """``make_large(prepared, slots=3, …)``: a job with large state that is prepared and not applied. ``cpu``: as in
    :class:`NodeJob`."""

    def make(data: large.Prepared, cpu: str = "", **changes: Any) -> LargeJob:
        there = (machine.cluster, place.namespace, place.folder / "large", job_image, bucket, "large")
        return place.add(LargeJob(*there, data, changes=changes, cpu=cpu))

    return make


def _keep(test: str, machine: NodeCluster, namespace: str, logs: PodLogs) -> None:
    target = KEPT / re.sub(r"\W+", "-", test)
    shutil.rmtree(target, ignore_errors=True)
    logs.copy(target, namespace)
    logs.copy(target, installed.NAMESPACE)
    kinds = "ssj,snap,pods,jobs,configmaps,services,controllerrevisions"
    for name, words in {
        "objects.yaml": ("get", kinds, "-o", "yaml"),
        "objects.txt": ("get", kinds, "-o", "wide"),
        "events.txt": ("get", "events", "--sort-by=.lastTimestamp"),
    }.items():
        (target / name).write_text(machine.cluster.kubectl(*words, "-n", namespace))
