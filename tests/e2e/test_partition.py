"""Two nodes, and the network of one of them cut: its driver lives on, and must not be heard."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.installed import Operator
from support.nodes.node_job import merged

from sparkstate_tools.kubernetes.nodes import NodeCluster

AWAY_S = 30
"""How long a driver tolerates a node that does not answer (the operator's own toleration)."""
HARMLESS_S = 30 + 60 + 10 - AWAY_S
"""From the request to end on: fenceTimeout, sinkTimeout and a margin, less the time for which the node was silent."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def preferring(node: str) -> dict[str, object]:
    """A pod's affinity to a node, as long as that is there."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def near(job: FlightsJob, node: str) -> None:
    """The job's driver goes to that node, as long as it is there."""
    template = job.manifest()["spec"]["driverTemplate"]
    job.changes["driverTemplate"] = merged(template, {"spec": {"affinity": preferring(node)}})


def test_a_driver_behind_a_cut_network_is_replaced_and_changes_nothing_when_it_is_back(
    make_job: Callable[..., FlightsJob], machine: NodeCluster, operator: Operator
) -> None:
    far = machine.nodes[1] if len(machine.nodes) > 1 else machine.add_node()
    operator.move_to(machine.nodes[0].names.node)
    job = make_job(fenceTimeout="20s", sinkTimeout="5s")
    near(job, far.names.node)
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


def test_a_lost_node_is_answered_in_the_time_that_the_documents_name(
    make_job: Callable[..., FlightsJob], machine: NodeCluster, operator: Operator
) -> None:
    """With the times that a job has by itself. A cluster's own default waits 50 s, not 20, for a silent node."""
    far = machine.nodes[1] if len(machine.nodes) > 1 else machine.add_node()
    operator.move_to(machine.nodes[0].names.node)
    job = make_job()
    near(job, far.names.node)
    job.apply()
    job.feed(interval_s=10.0)
    newest = int(job.until_checkpoint_after(0, 240)["lastCheckpoint"]["id"])
    assert job.driver()["spec"]["nodeName"] == far.names.node
    far.cut()
    began = time.monotonic()

    def passed(what: str) -> float:
        print(f"{time.monotonic() - began:6.1f} s after the node was lost {what}", flush=True)
        return time.monotonic() - began

    try:
        job.cluster.until(lambda: not answers(machine, far.names.node), "the node counts as lost", 90)
        silent_s = passed("it counts as that")
        job.cluster.until(lambda: not job.pods(), "the driver's pod is asked to end", 120)
        asked_s = passed("its pod was asked to end")
        job.cluster.until(job.pods, "there is another driver's pod", 400)
        next_s = passed("the next attempt had a pod")
        job.until_checkpoint_after(newest + 2)
        passed("it had completed a checkpoint")
    finally:
        far.heal()
    job.cluster.until_gone("pod", f"{job.name}-driver-1", job.namespace, timeout_s=180)
    job.finish()
    job.check()
    assert asked_s - silent_s < AWAY_S + 20
    assert next_s - asked_s < HARMLESS_S + 20


def answers(machine: NodeCluster, node: str) -> bool:
    """Whether the node is ready, as the control plane sees it."""
    found = machine.cluster.get("node", node) or {}
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    return conditions.get("Ready") == "True"
