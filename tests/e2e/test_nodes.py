"""The nodes themselves: what the other tests of this folder rely on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkstate_tools import images
from sparkstate_tools.kubernetes import netns, nodes
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.kubernetes.node import CGROUPS
from sparkstate_tools.kubernetes.nodes import NodeCluster

COUNTING = "import time\nfor i in range(10000):\n    print(i, flush=True); time.sleep(0.2)"


@pytest.fixture(scope="module")
def image(machine: NodeCluster) -> str:
    """The operator's image; here only for the Python in it."""
    operator = images.image("operator")
    machine.import_image(operator.archive)
    return operator.tag


@pytest.fixture
def namespace(machine: NodeCluster) -> Iterator[str]:
    with machine.cluster.namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        yield name


def pod(name: str, namespace: str, image: str, code: str, **spec: Any) -> dict[str, Any]:
    """A pod under the restricted profile that runs some Python."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/python3", "-c", code],
        "securityContext": security,
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    found = cluster.get("pod", name, namespace)
    return str(found["status"]["phase"]) if found else "gone"


def test_a_pod_runs_tells_its_output_and_is_killed_at_its_memory_limit(
    machine: NodeCluster, image: str, namespace: str
) -> None:
    cluster = machine.cluster
    before = set(Path("/run/netns").iterdir())
    greedy = {"resources": {"limits": {"memory": "64Mi"}}}
    cluster.apply(
        pod("calm", namespace, image, COUNTING),
        pod(
            "greedy",
            namespace,
            image,
            "held = [bytearray(8 << 20) for _ in range(64)]",
            restartPolicy="Never",
            container=greedy,
        ),
    )
    cluster.until(lambda: phase(cluster, namespace, "calm") == "Running", "the pod runs")
    cluster.until(lambda: "3" in cluster.kubectl("logs", "calm", "-n", namespace), "its output is told")
    said = cluster.kubectl("exec", "calm", "-n", namespace, "--", "python3", "-c", "print(6 * 7)")
    assert said.strip() == "42"
    cluster.until(lambda: phase(cluster, namespace, "greedy") == "Failed", "the other one is killed")
    assert "OOMKilled" in json.dumps(cluster.get("pod", "greedy", namespace))
    # The host sees nothing of the pods' network namespaces.
    assert set(Path("/run/netns").iterdir()) == before


def test_a_cut_node_keeps_its_process_alive_and_loses_its_pod(
    machine: NodeCluster, image: str, namespace: str
) -> None:
    cluster = machine.cluster
    second = machine.nodes[1] if len(machine.nodes) > 1 else machine.add_node()
    unreachable = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 2,
    }
    cluster.apply(
        pod("far", namespace, image, COUNTING, nodeName=second.names.node, tolerations=[unreachable])
    )
    cluster.until(lambda: phase(cluster, namespace, "far") == "Running", "the pod runs")
    log = next((second.folder / "pod-logs").glob(f"{namespace}_far_*/main/0.log"))
    second.cut()
    try:
        cluster.until(
            lambda: "deletionTimestamp" in json.dumps(cluster.get("pod", "far", namespace)),
            "it is given up",
            60,
        )
        before = log.stat().st_size
        cluster.until(lambda: log.stat().st_size > before, "its process goes on writing")
    finally:
        second.heal()
    cluster.until_gone("pod", "far", namespace, timeout_s=60)


def test_a_pod_reaches_a_server_of_the_tests_and_pods_of_another_node_by_their_service(
    machine: NodeCluster, image: str, namespace: str
) -> None:
    cluster = machine.cluster
    second = machine.nodes[1] if len(machine.nodes) > 1 else machine.add_node()
    serving = "import http.server as h; h.ThreadingHTTPServer(('', 8080), h.SimpleHTTPRequestHandler).serve_forever()"
    cluster.apply(
        pod("server", namespace, image, serving, nodeName=second.names.node),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "server", "namespace": namespace},
            "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    )
    cluster.until(lambda: phase(cluster, namespace, "server") == "Running", "the server runs")
    service = cluster.get("service", "server", namespace)
    assert service is not None
    asking = textwrap.dedent(
        f"""
        import time, urllib.request
        for _ in range(50):
            try:
                print(urllib.request.urlopen("http://{service["spec"]["clusterIP"]}/", timeout=2).status)
                break
            except OSError:
                time.sleep(0.2)
        """
    )
    first = machine.nodes[0].names.node
    cluster.apply(pod("client", namespace, image, asking, nodeName=first, restartPolicy="Never"))
    cluster.until(lambda: phase(cluster, namespace, "client") == "Succeeded", "the client has its answer", 40)
    assert cluster.kubectl("logs", "client", "-n", namespace).strip() == "200"


def test_what_a_killed_run_leaves_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    program = tmp_path / "start.py"
    program.write_text(
        "from sparkstate_tools.kubernetes import nodes\nimport time\n"
        "with nodes.running() as started:\n    print(started.run, flush=True)\n    time.sleep(600)\n"
    )
    command = [sys.executable, str(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        run = one.stdout.readline().strip()
        one.send_signal(signal.SIGKILL)
    assert netns.file_of(f"{run}-n1").exists()
    assert list(CGROUPS.glob(f"*/{run}-n1")) + list(CGROUPS.glob(f"{run}-n1")) != []

    nodes.clear_leftovers()

    assert not netns.file_of(f"{run}-n1").exists()
    assert not netns.file_of(f"{run}-cp").exists()
    assert list(CGROUPS.glob(f"*/{run}*")) + list(CGROUPS.glob(f"{run}*")) == []
    assert run not in Path("/proc/self/mountinfo").read_text()
    assert list(Path("/var/tmp").glob(f"{run}*")) + list(Path("/run").glob(f"{run}*")) == []
    living = [path for path in Path("/proc").glob("[0-9]*/cmdline") if run.encode() in _read(path)]
    assert living == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
