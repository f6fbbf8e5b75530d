"""A kubelet played by hand: on a cluster without nodes the tests write what a kubelet would."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sparkstate_tools.kubernetes.cluster import Cluster, CommandFailed

NODE = "played-node"
LABELS = {"kubernetes.io/os": "linux"}
"""A real kubelet sets it, and the pods of jobs ask for it."""


class Kubelet:
    """Writes the status of pods in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, node: str = NODE) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._on = node

    def bind(self, pod: str) -> None:
        """Place it on a node that nobody runs, and that looks alive for the next forty seconds."""
        self._node()
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": self._namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._on},
        }
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/binding"
        self._cluster.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(body))

    def beat(self) -> None:
        """Its node looks alive for the next forty seconds."""
        self._node()

    def _node(self) -> None:
        """Pods on a node that does not exist are collected as garbage."""
        now = datetime.now(UTC)
        meta = {"name": self._on}
        self._cluster.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {**meta, "labels": LABELS}},
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {**meta, "namespace": "kube-node-lease"},
                "spec": {
                    "holderIdentity": self._on,
                    "leaseDurationSeconds": 40,
                    "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                },
            },
        )
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Played",
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }
        patch = json.dumps({"status": {"conditions": [ready]}})
        self._cluster.kubectl("patch", "node", self._on, "--subresource=status", "--type=merge", "-p", patch)

    def run(
        self,
        pod: str,
        *,
        ready: bool = True,
        ip: str = "127.0.0.1",
        restarts: int = 0,
        container: str = "driver",
    ) -> None:
        """Its container runs."""
        if not (self._cluster.get("pod", pod, self._namespace) or {})["spec"].get("nodeName"):
            self.bind(pod)
        self._status(
            pod,
            "Running",
            {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            ready=ready,
            ip=ip,
            restarts=restarts,
            container=container,
        )

    def end(
        self,
        pod: str,
        code: int,
        word: dict[str, Any] | None = None,
        *,
        reason: str = "",
        container: str = "driver",
        beside: str = "",
    ) -> None:
        """Its container has ended for good, with the engine's last word. ``beside``: a container that runs on."""
        ended = {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "message": json.dumps(word) if word is not None else "",
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:00Z",
        }
        phase = "Running" if beside else "Succeeded" if code == 0 else "Failed"
        self._status(pod, phase, {"terminated": ended}, container=container, beside=beside)

    def unpulled(self, pod: str, message: str, *, container: str = "driver") -> None:
        """Its image cannot be pulled, as the runtime says."""
        waits = {"reason": "ErrImagePull", "message": message}
        self._status(pod, "Pending", {"waiting": waits}, container=container)

    def init_fails(self, pod: str, init: str, code: int) -> None:
        """Its init container has failed, and waits to be started again; the driver waits for it."""
        if not (self._cluster.get("pod", pod, self._namespace) or {})["spec"].get("nodeName"):
            self.bind(pod)
        last = {
            "exitCode": code,
            "reason": "Error",
            "message": "no such bucket",
            "finishedAt": "2026-01-01T00:00:00Z",
        }
        waits = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
        failing = _told(init, {"waiting": waits}, restarts=1, last={"terminated": last})
        driver = _told("driver", {"waiting": {"reason": "PodInitializing"}})
        self._patch(
            pod, {"phase": "Pending", "initContainerStatuses": [failing], "containerStatuses": [driver]}
        )

    def crash_loop(self, pod: str, code: int, restarts: int, word: dict[str, Any] | None = None) -> None:
        """Its container crashed and waits to be started again."""
        ended = {
            "exitCode": code,
            "reason": "Error",
            "message": json.dumps(word or {}),
            "finishedAt": "2026-01-01T00:00:00Z",
        }
        self._status(
            pod,
            "Running",
            {"waiting": {"reason": "CrashLoopBackOff"}},
            restarts=restarts,
            last={"terminated": ended},
        )

    def gone(self, pod: str) -> None:
        """The last act of a kubelet for a pod that is being deleted: its object goes."""
        self._cluster.kubectl(
            "delete",
            "pod",
            pod,
            "-n",
            self._namespace,
            "--force",
            "--grace-period=0",
            "--wait=false",
            "--ignore-not-found",
        )

    def finish_deletion(self, pod: str, word: dict[str, Any] | None = None) -> None:
        """A pod that is being deleted ends in good order: its container, then its object. One that had ended before
        may be gone by now: the API server waits for no kubelet then."""
        try:
            self.end(pod, 0, word or {"reason": "Terminated", "message": "SIGTERM", "exit_code": 0})
        except CommandFailed:
            if self._cluster.get("pod", pod, self._namespace) is not None:
                raise
        self.gone(pod)

    def _status(
        self,
        pod: str,
        phase: str,
        state: dict[str, Any],
        *,
        ready: bool = False,
        ip: str = "",
        restarts: int = 0,
        last: dict[str, Any] | None = None,
        container: str = "driver",
        beside: str = "",
    ) -> None:
        told = [_told(container, state, ready=ready, restarts=restarts, last=last)]
        if beside:
            told.append(_told(beside, {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ready=True))
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": told,
        }
        if ip:
            status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
        self._patch(pod, status)

    def _patch(self, pod: str, status: dict[str, Any]) -> None:
        patch = json.dumps({"status": status})
        self._cluster.kubectl(
            "patch", "pod", pod, "-n", self._namespace, "--subresource=status", "--type=merge", "-p", patch
        )


def _told(
    name: str,
    state: dict[str, Any],
    *,
    ready: bool = False,
    restarts: int = 0,
    last: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A container's status."""
    return {
        "name": name,
        "image": "image",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        **({"lastState": last} if last else {}),
    }
