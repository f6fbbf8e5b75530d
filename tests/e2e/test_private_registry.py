"""Engine commands whose image a registry gives to nobody without a login: refused, told, and carried out with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nodes import private
from support.nodes.flights import FlightsJob, Prepared
from support.nodes.private import PrivateCluster

from sparkstate_tools.operating import chart
from sparkstate_tools.servers.registry import Login

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
NO_LOGIN = "no basic auth credentials"
"""What containerd makes of the registry's 401 where it has nothing to answer with."""
WRONG_LOGIN = "401 Unauthorized"
REFUSED = ("ErrImagePull", "ImagePullBackOff")


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivateCluster]:
    with private.running() as one:
        yield one


@pytest.fixture
def job(cluster: PrivateCluster, data: Prepared) -> Iterator[FlightsJob]:
    """It runs, and its image came with the login."""
    with cluster.machine.cluster.namespace("private", chart.RESTRICTED) as namespace:
        cluster.give_login(namespace)
        made = cluster.job(namespace, data, deletion={"policy": "purge", "deadline": "10m"})
        made.apply()
        made.feed(interval_s=5.0)
        try:
            made.until_checkpoint_after(0, 300)
            yield made
        finally:
            made.stop_feeding()
        assert cluster.operator.complaints() == []


def test_purge_and_deletion_of_a_savepoint_wait_for_the_login_of_their_image_and_say_so(
    cluster: PrivateCluster, job: FlightsJob
) -> None:
    kubernetes, here = job.cluster, ("-n", job.namespace)
    save(job, "kept")
    assert files(job, "state") != []
    assert files(job, "savepoints") != []
    asked = f"/v2/{cluster.engine.partition(':')[0]}/"
    assert not [answer for answer in cluster.registry.answers if asked in answer], "no command has run yet"

    cluster.take_login(job.namespace)
    kubernetes.kubectl("delete", "snap", "kept", *here, "--wait=false")
    kubernetes.kubectl("delete", "ssj", job.name, *here, "--wait=false")
    until_refused(job, NO_LOGIN)
    cluster.give_login(job.namespace, Login(private.LOGIN.user, "wrong"))
    until_refused(job, WRONG_LOGIN)
    assert {answer[:3] for answer in cluster.registry.answers if asked in answer} == {"401"}
    assert files(job, "state") != []
    assert files(job, "savepoints") != []

    cluster.forget(private.FLIGHTS)
    cluster.give_login(job.namespace)
    kubernetes.until_gone("snap", "kept", job.namespace, 240)
    kubernetes.until_gone("ssj", job.name, job.namespace, 240)
    assert files(job, "state") == []
    assert files(job, "savepoints") == []
    sent = {answer.rpartition("/")[2] for answer in cluster.registry.answers if f"200 GET {asked}" in answer}
    assert cluster.only_in_engine <= sent, "the node had nothing of the image and was given all of it"


def save(job: FlightsJob, name: str) -> None:
    """A savepoint whose data goes with its object."""
    meta = {"name": name, "namespace": job.namespace}
    spec = {"jobRef": {"name": job.name}, "deletionPolicy": "Delete"}
    version = "sparkstate.io/v1alpha1"
    job.cluster.apply({"apiVersion": version, "kind": "StateSnapshot", "metadata": meta, "spec": spec})
    ready = ("wait", "--for=condition=Ready", "--timeout=120s", "-n", job.namespace, f"snap/{name}")
    job.cluster.kubectl(*ready)


def files(job: FlightsJob, folder: str) -> list[Path]:
    """Files of state: not the log and the pointers, which stay."""
    found = [path for path in (job.folder / folder).rglob("*") if path.is_file()]
    return [path for path in found if path.parent.name != "log" and "by-name" not in path.parts]


def until_refused(job: FlightsJob, why: str) -> None:
    """Both commands' pods wait for their image for that reason, and job and snapshot say it."""
    kubernetes = job.cluster

    def pods() -> bool:
        found = kubernetes.items("pod", job.namespace, "sparkstate.io/role=command")
        waits = [waiting(pod) for pod in found]
        return len(waits) == 2 and all(
            one.get("reason") in REFUSED and why in one["message"] for one in waits
        )

    def told() -> bool:
        degraded = condition(job.status, "Degraded")
        snapshot = kubernetes.get("snap", "kept", job.namespace) or {}
        said = degraded.get("reason") in REFUSED and why in degraded["message"]
        return said and why in str(snapshot.get("status", {}).get("message"))

    kubernetes.until(pods, f"both commands' pods are refused: {why}", 120)
    kubernetes.until(told, f"job and snapshot say: {why}", 30)


def waiting(pod: dict[str, Any]) -> dict[str, Any]:
    """Reason and message of its container, if it waits."""
    (one,) = pod["status"].get("containerStatuses") or [{}]
    return dict(one.get("state", {}).get("waiting") or {})


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """That condition, empty while there is none."""
    return next((dict(one) for one in status.get("conditions") or () if one["type"] == kind), {})
