"""The operator as a user installs it: ``helm install`` of the chart with our images."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.nodes.pod_logs import PodLogs, complaints

from sparkstate_operator.config import DriverRole
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import chart
from sparkstate_tools.operating.chart import NAMESPACE

ROLE_OPTION = "--driver-role="


@dataclass
class Operator:
    """An installed operator."""

    cluster: Cluster
    logs: PodLogs

    @property
    def deployment(self) -> str:
        """Name of its Deployment."""
        return str(self._deployment["metadata"]["name"])

    @property
    def _deployment(self) -> dict[str, Any]:
        return self.cluster.items("deployment", NAMESPACE)[0]

    @property
    def driver_role(self) -> DriverRole:
        """The one that it binds drivers to."""
        arguments = self._deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        return DriverRole.of(
            next(one for one in arguments if one.startswith(ROLE_OPTION)).removeprefix(ROLE_OPTION)
        )

    def scale(self, replicas: int) -> None:
        """Returns when so many pods of it are there and ready."""
        name = self.deployment
        self.cluster.kubectl("scale", "deployment", name, "-n", NAMESPACE, f"--replicas={replicas}")
        if replicas:
            self.cluster.kubectl("rollout", "status", f"deployment/{name}", "-n", NAMESPACE, "--timeout=300s")
            return
        self.cluster.until(
            lambda: not self.cluster.items("pod", NAMESPACE), "the operator's pod is gone", 120
        )

    def move_to(self, node: str) -> None:
        """Returns when it runs on that node, ready; the scheduler chose another, or a drain did."""
        pods = self.cluster.items("pod", NAMESPACE)
        if {pod["spec"].get("nodeName") for pod in pods} == {node}:
            return
        others = [one["metadata"]["name"] for one in self.cluster.items("node")]
        others.remove(node)
        try:
            self.cluster.kubectl("cordon", *others)
            self.scale(0)
            self.scale(1)
        finally:
            self.cluster.kubectl("uncordon", *others)

    def complaints(self) -> list[str]:
        """Errors, tracebacks and unstructured lines in all it ever printed."""
        return complaints(self.logs.lines(NAMESPACE, "operator"))


@contextlib.contextmanager
def running(
    cluster: Cluster, logs: PodLogs, folder: Path, *, beside: Sequence[dict[str, Any]] = (), **more: Any
) -> Iterator[Operator]:
    """Installs it into a namespace with Pod Security "restricted", and uninstalls it afterwards. ``beside``: objects
    that are in that namespace first; ``more``: values of the chart beside those of all tests."""
    with chart.installed(cluster, folder, beside, **more):
        yield Operator(cluster, logs)
