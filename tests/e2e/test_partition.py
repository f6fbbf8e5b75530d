"""Two nodes, and the network of one of them cut: its driver lives on, and must not be heard."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.kubernetes.flights import FlightsJob
from support.kubernetes.node_job import merged
from support.kubernetes.nodes import NodeCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def preferring(node: str) -> dict[str, object]:
    """A pod's affinity to a node, as long as that is there."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def test_a_driver_behind_a_cut_network_is_replaced_and_changes_nothing_when_it_is_back(
    make_job: Callable[..., FlightsJob], machine: NodeCluster
) -> None:
    far = machine.nodes[1] if len(machine.nodes) > 1 else machine.add_node()
    job = make_job(fenceTimeout="20s", sinkTimeout="5s")
    template = merged(
        job.manifest()["spec"]["driverTemplate"], {"spec": {"affinity": preferring(far.names.node)}}
    )
    job.changes["driverTemplate"] = template
    job.apply()
    job.feed(interval_s=10.0)
    newest = int(job.until_checkpoint_after(0, 240)["lastCheckpoint"]["id"])
    assert job.driver()["spec"]["nodeName"] == far.names.node
    far.cut()
    try:
        job.until(lambda status: status.get("attempt", 0) > 1, "there is another attempt", 300)
        job.until(
            lambda status: status["attempt"] > 1 and status["lastCheckpoint"]["id"] > newest + 2,
            "it has completed checkpoints",
            240,
        )
        assert job.driver()["spec"]["nodeName"] == machine.nodes[0].names.node
    finally:
        far.heal()
    job.cluster.until_gone("pod", f"{job.name}-driver-1", job.namespace, timeout_s=180)
    time.sleep(5)
    job.finish()
    job.check()
    assert job.status["attempt"] == 2
