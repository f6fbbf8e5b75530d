"""A kubelet that is played for ``operator_drivers.py``, because no machine runs 5,000 pods on two cores."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import operator_figures as figures
from kubernetes import client
from operator_standins import StandIns

from sparkstate_tools.kubernetes.cluster import Cluster

NODE = "played-node"
DRIVER = "sparkstate.io/role=driver"
STARTED = "2026-01-01T00:00:00Z"


class Kubelet:
    """Binds every driver's pod as it appears, says that it runs, and lets pods fail."""

    def __init__(self, cluster: Cluster, drivers: StandIns) -> None:
        self.core = cluster.core()
        self._coordination = client.CoordinationV1Api(cluster.api())
        self._drivers = drivers
        self.does: dict[str, str] = {}
        self.uids: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self._stop = threading.Event()
        self._seen: set[str] = set()
        self.core.create_node({"metadata": {"name": NODE, "labels": {"kubernetes.io/os": "linux"}}})
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._beat, self._serve)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    @staticmethod
    def address(job: str) -> str:
        number = int(job.rpartition("-")[2])
        return f"127.{1 + number // 40000}.{number // 200 % 200}.{number % 200 + 1}"

    def behave(self, job: str, does: str) -> None:
        """From now on its driver does this."""
        self.does[job] = does
        seed = random.Random(job).uniform(0, 60)
        line = {
            "ip": self.address(job),
            "uid": self.uids[job],
            "attempt": self.attempts[job],
            "phase_s": seed,
        }
        self._drivers.tell(does=does, **line)

    def fail(self, job: str) -> None:
        """Its driver's container ends with an error that may pass."""
        word = json.dumps({"reason": "SlotLost", "message": "gone", "exit_code": 1})
        ended = {
            "exitCode": 1,
            "reason": "Error",
            "message": word,
            "startedAt": STARTED,
            "finishedAt": STARTED,
        }
        self._status(f"{job}-driver-{self.attempts[job]}", "Failed", {"terminated": ended}, False, "")

    def _beat(self) -> None:
        while not self._stop.is_set():
            now = datetime.now(UTC)
            spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": now}
            body = {"metadata": {"name": NODE, "namespace": "kube-node-lease"}, "spec": spec}
            stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": stamp}
            try:
                self._coordination.patch_namespaced_lease(NODE, "kube-node-lease", body)
            except client.ApiException:
                self._coordination.create_namespaced_lease("kube-node-lease", body)
            status = {"status": {"conditions": [{**ready, "lastTransitionTime": stamp}]}}
            self.core.patch_node_status(NODE, status)
            self._stop.wait(10)

    def _serve(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            while not self._stop.is_set():
                answer = self.core.list_namespaced_pod(
                    figures.NAMESPACE,
                    label_selector=DRIVER,
                    field_selector="spec.nodeName=",
                    _preload_content=False,
                )
                pods = [
                    one
                    for one in json.loads(answer.data)["items"]
                    if one["metadata"]["uid"] not in self._seen
                ]
                list(pool.map(self._start, pods))
                self._stop.wait(0.5)

    def _start(self, pod: dict[str, Any]) -> None:
        name, marks = pod["metadata"]["name"], pod["metadata"]["labels"]
        self._seen.add(pod["metadata"]["uid"])
        job = marks["sparkstate.io/job"]
        self.uids[job], self.attempts[job] = (
            marks["sparkstate.io/job-uid"],
            int(marks["sparkstate.io/attempt"]),
        )
        self.behave(job, self.does.get(job, "runs"))
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE, "apiVersion": "v1"}}
        self.core.create_namespaced_binding(figures.NAMESPACE, binding, _preload_content=False)
        self._status(name, "Running", {"running": {"startedAt": STARTED}}, True, self.address(job))

    def _status(self, pod: str, phase: str, state: dict[str, Any], ready: bool, ip: str) -> None:
        told = {
            "name": "driver",
            "image": "i",
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": state,
        }
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status: dict[str, Any] = {"phase": phase, "conditions": [condition], "containerStatuses": [told]}
        if ip:
            status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
        self.core.patch_namespaced_pod_status(
            pod, figures.NAMESPACE, {"status": status}, _preload_content=False
        )
