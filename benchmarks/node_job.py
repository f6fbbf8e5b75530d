"""One job of ``scale_on_nodes.py`` on a node: its objects, its way to a steady pace, its readings."""

from __future__ import annotations

import math
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from made_rows import ANSWERED
from scaling import Cost, Reading, difference, newest_epoch, told

from sparkstate_tools import images
from sparkstate_tools.kubernetes import pod_usage
from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.operating.cluster_jobs import STUCK, Bucket

NAME = "scale"
HERE = Path(__file__).parent
CODE = ("made_rows.py", "keyed_sums.py")
ROLES = "sparkstate.io/role in (driver, executor)"
METRICS_PORT = 9090
START_S, RUN_S, END_S = 300.0, 900.0, 240.0
"""No start, no run and no end of a job may take longer: then its number of slots counts as not measured."""
ASK_S = 2.0
_LOOK_S = 0.05
T = TypeVar("T")


class NotMeasured(RuntimeError):
    """The node did not hold the job, or the job failed; the message says what stood in the way."""


@dataclass(frozen=True)
class Load:
    """The same for each slot: ``rows`` of an epoch and ``keys``."""

    backend: str
    function: str
    slots: int
    rows: int
    keys: int
    warm_up_rows: int
    """That each slot processes before it counts: the JVM of each executor compiles by the rows of its own."""
    epochs: int
    """That count."""
    interval: str
    executor_memory: str

    @property
    def rows_per_epoch(self) -> int:
        """Of all slots."""
        return self.rows * self.slots

    @property
    def warm_up(self) -> int:
        """Epochs that do not count."""
        return max(2, math.ceil(self.warm_up_rows / self.rows))


def objects(namespace: str, load: Load, bucket: Bucket, image: str) -> list[dict[str, Any]]:
    """Secret, code and job; what the job's spec does not say has its default."""
    storage = f"s3://{bucket.name}/{namespace}"
    s3 = {"endpoint": bucket.endpoint, "region": "us-east-1", "pathStyle": True}
    # The node reserves what is asked for, and it has fewer cores than the job has pods. Nothing limits their use.
    asks = {"resources": {"requests": {"cpu": "100m"}}}
    spec = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "configMapRef": {"name": "code", "key": CODE[0]},
        "params": {
            "rows": str(load.rows_per_epoch),
            "tasks": str(load.slots),
            "keys": str(load.keys * load.slots),
            "function": load.function,
        },
        "deployment": "cluster",
        "slots": load.slots,
        "slotsPerExecutor": 1,
        "stateBackend": {"type": load.backend},
        "checkpointing": {"storage": f"{storage}/state", "interval": load.interval},
        "s3": {**s3, "secretRef": {"name": "bucket"}},
        "metricsPort": METRICS_PORT,
        "driver": {"cores": 1, "memory": "1Gi"},
        "executor": {"cores": 1, "memory": load.executor_memory},
        "sparkConf": {"spark.kubernetes.executor.request.cores": "100m"},
        "driverTemplate": {"spec": {"containers": [{"name": "driver", **asks}]}},
    }
    code = {name: (HERE / name).read_text() for name in CODE}
    return [
        _object("v1", "Secret", namespace, "bucket", stringData=dict(bucket.credentials)),
        _object("v1", "ConfigMap", namespace, "code", data=code),
        _object("sparkstate.io/v1alpha1", "StatefulSparkJob", namespace, NAME, spec=spec),
    ]


def _object(version: str, kind: str, namespace: str, name: str, **rest: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        **rest,
    }


class NodeJob:
    """The job in a namespace of its own, on the first node. Made when all of its pods run; ``measure``, ``end``."""

    def __init__(self, there: NodeCluster, namespace: str, load: Load, bucket: Bucket) -> None:
        self._there = there
        self._namespace = namespace
        self._load = load
        there.cluster.apply(*objects(namespace, load, bucket, images.image("job").tag))
        pods = self._until(self._running, f"{1 + load.slots} pods run", START_S)
        self._uids = {pod["metadata"]["name"]: str(pod["metadata"]["uid"]) for pod in pods}
        (driver,) = (pod for pod in pods if pod["metadata"]["labels"]["sparkstate.io/role"] == "driver")
        self._driver = str(driver["metadata"]["name"])
        folder = f"{namespace}_{self._driver}_{self._uids[self._driver]}"
        self._logs = there.nodes[0].folder / "pod-logs" / folder / "driver"
        self._port = there.reach((driver["status"]["podIP"], METRICS_PORT))

    def measure(self) -> Cost:
        """The cost of the epochs that count."""
        first = self._reading(self._load.warm_up)
        last = self._reading(first.epoch + self._load.epochs)
        return difference(first, last, self._driver, self._load.rows_per_epoch)

    def _reading(self, epoch: int) -> Reading:
        """As soon as that epoch has been answered, or a later one."""

        def answered() -> int | None:
            newest = newest_epoch(self._log(), ANSWERED)
            return newest if newest is not None and newest >= epoch else None

        newest = self._until(answered, f"epoch {epoch} is answered", RUN_S)
        node = self._there.nodes[0].names.namespace
        at_s = time.monotonic()
        used = {name: pod_usage.cpu_us(node, uid) for name, uid in self._uids.items()}
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            return Reading(at_s, newest, used, told(answer.read().decode()))

    def _log(self) -> str:
        """What the driver's newest container has printed."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._logs.glob("*.log"))[-1:])

    def _running(self) -> list[dict[str, Any]] | None:
        pods = self._there.cluster.items("pod", self._namespace, f"sparkstate.io/job={NAME},{ROLES}")
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return running if len(running) == 1 + self._load.slots else None

    def _until(self, probe: Callable[[], T | None], what: str, timeout_s: float) -> T:
        """What ``probe`` returns as soon as that is not None; a job that has failed, or lost
        its driver, is not waited for. The API server
        is asked seldom: it runs on the same processors."""
        deadline = time.monotonic() + timeout_s
        asked = 0.0
        while (found := probe()) is None:
            now = time.monotonic()
            if now - asked > ASK_S:
                asked = now
                lost = lost_by(self._status())
                if lost or now > deadline:
                    after = lost or f"after {timeout_s:.0f} s"
                    raise NotMeasured(f"{after}, and not so that {what}; {self._told()}")
            time.sleep(_LOOK_S)
        return found

    def _status(self) -> dict[str, Any]:
        return dict((self._there.cluster.get("ssj", NAME, self._namespace) or {}).get("status") or {})

    def _told(self) -> str:
        """What the job says of itself, and the pods that do not run with their reason."""
        status = self._status()
        waiting = [
            f"{pod['metadata']['name']} is {pod['status'].get('phase')}: {reason(pod)}"
            for pod in self._there.cluster.items("pod", self._namespace)
            if pod["status"].get("phase") != "Running"
        ]
        said = {"phase": status.get("phase"), "message": status.get("message"), "pods": waiting}
        return yaml.safe_dump(said, sort_keys=False, width=1000).strip()


def end(there: NodeCluster, namespace: str) -> None:
    """Deletes the job of a namespace, and returns when its pods are gone: they would take CPU time from the next."""
    there.cluster.kubectl("delete", "ssj", NAME, "-n", namespace, "--ignore-not-found", "--timeout=180s")
    there.cluster.until(lambda: not there.cluster.items("pod", namespace), "its pods are gone", END_S)


def lost_by(status: Mapping[str, Any]) -> str:
    """Why no figures of the first attempt will come; empty while they may."""
    if status.get("phase") in STUCK:
        return f"it is {status['phase']}"
    attempt = status.get("attempt", 1)
    return f"its first driver is gone, and attempt {attempt} runs" if attempt > 1 else ""


def reason(pod: Mapping[str, Any]) -> str:
    """Why a pod does not run: what the scheduler says, or the container."""
    status = pod["status"]
    said = [one["message"] for one in status.get("conditions", ()) if one.get("message")]
    for container in status.get("containerStatuses", ()):
        for state in container.get("state", {}).values():
            said += [str(state[name]) for name in ("reason", "message") if state.get(name)]
    return "; ".join(said) or "no reason given"
