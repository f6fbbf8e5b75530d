"""A cluster of which no node has an image: all of them come from a registry that asks for user and password."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.nodes import installed
from support.nodes.flights import FlightsJob, Prepared
from support.nodes.installed import Operator
from support.nodes.node_job import MOUNT
from support.nodes.pod_logs import PodLogs

from sparkstate_tools import images
from sparkstate_tools.kubernetes import addresses, nodes
from sparkstate_tools.kubernetes.control_plane import ADDRESS
from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers import registry
from sparkstate_tools.servers.registry import Login, Registry

SECRET = "registry-login"
LOGIN = Login("puller", "correct horse")
FLIGHTS = "team/flights:1"
"""The job's own image. It has the content of the engine's, and a name of its own: the engine's is pulled for the first
command, and not for the driver."""
NO_BUCKET = Bucket("", "", {"unused": ""})


@dataclass
class PrivateCluster:
    """The cluster, with an operator whose image and whose engine's image are in the registry."""

    machine: NodeCluster
    operator: Operator
    registry: Registry
    host: str
    """Of the registry, with its port, as it stands in images' names."""

    def give_login(self, namespace: str, login: Login = LOGIN) -> None:
        """The Secret with the login; one that is there is changed."""
        self.machine.cluster.apply(secret(namespace, self.host, login))

    def take_login(self, namespace: str) -> None:
        """Deletes it."""
        self.machine.cluster.kubectl("delete", "secret", SECRET, "-n", namespace)

    @property
    def engine(self) -> str:
        """Name and tag of the image in which the operator runs engine commands, in the registry."""
        return images.image("job").tag

    @property
    def only_in_engine(self) -> set[str]:
        """Digests of that image's parts that the operator's own image has not."""
        parts = self.registry.images[self.engine].parts
        return set(parts) - set(self.registry.images[images.image("operator").tag].parts)

    def forget(self, tag: str) -> None:
        """Removes an image of the registry from the nodes, with all content that no other image needs. Its containers
        must be gone."""
        name, config = f"{self.host}/{tag.partition(':')[0]}", next(iter(self.registry.images[tag].parts))
        for node in self.machine.nodes:
            listed = (node.ctr("-n", "k8s.io", "images", "ls", "-q") or "").split()
            mine = [one for one in listed if one.startswith(name) or one == config]
            node.ctr("-n", "k8s.io", "images", "rm", "--sync", *mine)

    def job(self, namespace: str, data: Prepared, **changes: Any) -> FlightsJob:
        """A job whose image is in the registry and whose state is on its claim, prepared."""
        here = f"file://{MOUNT}"
        changes = {
            "s3": None,
            "checkpointing": {"storage": f"{here}/state", "interval": "4s"},
            "savepoints": {"storage": f"{here}/savepoints"},
            "imagePullSecrets": [{"name": SECRET}],
            **changes,
        }
        image, folder = f"{self.host}/{FLIGHTS}", self.machine.folder / "data" / namespace
        there = (self.machine.cluster, namespace, folder, image, NO_BUCKET, "flights")
        made = FlightsJob(*there, data, changes=changes)
        made.prepare()
        return made


def secret(namespace: str, host: str, login: Login) -> dict[str, Any]:
    """A pull secret, as ``kubectl create secret docker-registry`` makes it."""
    known = {"auths": {host: {"username": login.user, "password": login.password}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(json.dumps(known).encode()).decode()},
    }


@contextlib.contextmanager
def running() -> Iterator[PrivateCluster]:
    """Such a cluster, gone afterwards."""
    operator, job = (images.image(target) for target in ("operator", "job"))
    archives: dict[str, Path] = {operator.tag: operator.archive, job.tag: job.archive, FLIGHTS: job.archive}
    with nodes.running() as machine:
        listener = machine.door.listen((ADDRESS, 0))
        host = addresses.at(ADDRESS, int(listener.getsockname()[1]))
        for node in machine.nodes:
            node.containerd.without_tls(host)
        sources = [machine.folder / "node-1" / "pod-logs"]
        with (
            registry.serving(listener, archives, LOGIN) as server,
            PodLogs(sources, machine.folder / "kept-logs").keeping() as logs,
            installed.running(
                machine.cluster,
                logs,
                machine.folder,
                beside=(secret(installed.NAMESPACE, host, LOGIN),),
                imagePullSecrets=[{"name": SECRET}],
                **{"global": {"imageRegistry": host}},
            ) as one,
        ):
            yield PrivateCluster(machine, one, server, host)
