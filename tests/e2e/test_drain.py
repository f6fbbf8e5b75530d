"""``kubectl drain`` as an administrator types it: without ``--force``, with drivers and executors on the node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.node_job import IN_THE_CLUSTER

from sparkstate_tools.kubernetes.nodes import NodeCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("kind", [pytest.param({}, id="local"), pytest.param(IN_THE_CLUSTER, id="cluster")])
def test_a_drained_node_hands_its_job_over_without_force(
    make_job: Callable[..., FlightsJob], machine: NodeCluster, kind: dict[str, Any]
) -> None:
    if len(machine.nodes) < 2:
        machine.add_node()
    cluster = machine.cluster
    job = make_job(**kind)
    job.apply()
    job.feed(interval_s=5.0)
    job.until_checkpoint_after(0, 300)
    node = job.driver()["spec"]["nodeName"]
    began = time.monotonic()
    try:
        drained = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=240s")
        cluster.kubectl(*drained)
        print(f"{time.monotonic() - began:6.1f} s until {node} was drained", flush=True)
        back = job.until(
            lambda status: status["attempt"] > 1 and status["phase"] == "Running", "another attempt runs", 240
        )
        print(f"{time.monotonic() - began:6.1f} s from the drain's begin until then", flush=True)
        assert back["restarts"].get("recent", []) == [], "a drain counts as a failure"
        homes = {pod["spec"]["nodeName"] for pod in (*job.pods("driver"), *job.pods("executor"))}
        assert node not in homes
    finally:
        cluster.kubectl("uncordon", node)
    job.until_checkpoint_after(back["lastCheckpoint"]["id"])
    job.finish()
    job.check()
