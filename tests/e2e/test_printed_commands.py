"""What docs/kubernetes.md prints under "The first job", typed as printed on nodes that have the Dockerfile's images.

Only what the page leaves to its reader is here: the input in the claim ``flights``, the keys in place of the dots, and
a server of S3 at the address that the manifest names. ``--watch`` is left out, which would watch for ever.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.commands.printed import commands
from support.nodes import flights
from support.nodes.flights import Prepared, oracle, pacer
from support.repository import tree

from sparkstate_tools import images
from sparkstate_tools.kubernetes import nodes
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.kubernetes.control_plane import ADDRESS
from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.servers import s3server
from sparkstate_tools.servers.s3server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
PAGE, SECTION = "docs/kubernetes.md", "The first job"
JOB, NAMESPACE = "flight-rotations", "flights"
HOURS = 168
"""The manifest's parameter."""
AFTER_START = "kubectl delete pod"
"""Begins the commands that are for a job that runs."""


@pytest.fixture(scope="module")
def machine() -> Iterator[NodeCluster]:
    """Three nodes, with the images imported: the manifest asks for a processor for each of its pods."""
    with nodes.running() as started:
        for target in images.TARGETS:
            started.import_image(images.image(target).archive)
        while len(started.nodes) < nodes.MOST_NODES:
            started.add_node()
        yield started


@pytest.fixture
def storage(machine: NodeCluster) -> Iterator[S3Server]:
    """What the manifest calls ``http://minio.minio.svc:9000``, with the bucket that it names."""
    with s3server.running() as server:
        server.make_bucket("flights")
        machine.offer(9000, ("127.0.0.1", server.port))
        machine.names.add("minio.minio.svc", ADDRESS)
        yield server


def test_the_first_job_runs_recovers_and_is_rescaled_by_the_commands_as_printed(
    machine: NodeCluster, storage: S3Server, tmp_path: Path
) -> None:
    cluster = machine.cluster
    data = flights.prepared(tmp_path / "prepared")
    lines = [line.replace(" --watch", "") for line in commands(PAGE, SECTION)]
    begin = next(number for number, line in enumerate(lines) if line.startswith(AFTER_START))
    assert [line.split()[0] for line in lines] == ["helm", *["kubectl"] * (len(lines) - 1)]

    for line in lines[:begin]:
        print(f"$ {line}", flush=True)
        run(
            cluster,
            line.replace("KEY_ID=…", f"KEY_ID={storage.access_key}").replace("=…", f"={storage.secret_key}"),
        )
        if line.startswith("kubectl create namespace"):
            offer_input(machine, data)
    until(cluster, "it runs", lambda now: now.runs(attempt=1) and now.checkpoint > 0, 400)

    for line in lines[begin:]:
        print(f"$ {line}", flush=True)
        run(cluster, line)
        if line.startswith(AFTER_START):
            until(cluster, "it is back", lambda now: now.runs(attempt=2), 300)
    until(cluster, "it is rescaled", lambda now: now.runs(attempt=3) and now.slots == 3, 400)
    assert sum(published(storage, data).values()) > 100


def run(cluster: Cluster, line: str) -> None:
    """As typed at the top of the checkout."""
    program, *words = shlex.split(line)
    words = [str(tree.ROOT / word) if word.startswith(("charts/", "examples/")) else word for word in words]
    words = [word.replace("from-file=", f"from-file={tree.ROOT}/") for word in words]
    print({"helm": cluster.helm, "kubectl": cluster.kubectl}[program](*words), flush=True)


def offer_input(machine: NodeCluster, data: Prepared) -> None:
    """The claim ``flights``, with all of the input in it."""
    folder = machine.folder / "data" / "flights"
    folder.mkdir(parents=True)
    for path in data.files:
        pacer.release(path, folder)
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    volume = {
        **common,
        "capacity": size,
        "hostPath": {"path": str(folder)},
        "claimRef": {"namespace": NAMESPACE, "name": "flights"},
    }
    claim = {**common, "volumeName": "flights", "resources": {"requests": size}}
    meta = {"name": "flights"}
    machine.cluster.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {**meta, "namespace": NAMESPACE},
            "spec": claim,
        },
    )


@dataclass(frozen=True)
class Seen:
    """What the job's status says."""

    phase: str
    attempt: int
    checkpoint: int
    slots: int

    def runs(self, attempt: int) -> bool:
        """Whether it runs, in that attempt."""
        return self.phase == "Running" and self.attempt == attempt


def seen(cluster: Cluster) -> Seen:
    """Its status now."""
    status = (cluster.get("ssj", JOB, NAMESPACE) or {}).get("status", {})
    checkpoint = (status.get("lastCheckpoint") or {}).get("id", 0)
    return Seen(status.get("phase", ""), status.get("attempt", 0), checkpoint, status.get("slots", 0))


def until(cluster: Cluster, what: str, wish: Callable[[Seen], bool], timeout_s: float) -> Seen:
    """Waits for what is wished of the job."""
    try:
        cluster.until(lambda: wish(seen(cluster)), what, timeout_s, 1.0)
    except AssertionError as error:
        raise AssertionError(f"{error}: {cluster.get('ssj', JOB, NAMESPACE)}") from error
    return seen(cluster)


def published(storage: S3Server, data: Prepared) -> Counter[str]:
    """Records of each output in the bucket; none is there that the batch calculation has not, and none twice."""
    expected = oracle.expected(data.files, HOURS)
    counts: Counter[str] = Counter()
    for output, columns in oracle.COLUMNS.items():
        folder = storage.folder / "data" / "flights" / "output" / output
        found = oracle.written(oracle.committed_files(folder), columns)
        assert found - expected[output] == Counter(), f"{output} has records that nobody expects"
        counts[output] = found.total()
    return counts
