"""The pods of a job as they were observed, and whether their processes are dead."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import clock, containers, labels
from sparkstate_operator.core import pod_usage

Document = Mapping[str, Any]
Termination = containers.Termination
TAINT_EVICTION = "DeletionByTaintManager"
"""Reason of the condition DisruptionTarget: a taint of its node, as those of a node that does not answer."""


class Death(enum.Enum):
    """Whether a driver's process is known to be dead."""

    ALIVE = "alive"
    CONFIRMED = "confirmed"
    """The kubelet said so, or it was never placed on a node."""
    UNCONFIRMED = "unconfirmed"
    """Nobody who would know has said so: its node may be cut off while it works on."""


@dataclass(frozen=True)
class Pod:
    """A driver's or an executor's pod."""

    name: str
    uid: str
    resource_version: str
    attempt: int
    revision: str
    phase: str
    reason: str = ""
    node: str = ""
    ip: str = ""
    ready: bool = False
    """The driver's container (not those beside it) answers its probe, and its node has not been given up."""
    deleting_at: datetime | None = None
    """When its grace period ends; None while it is not being deleted."""
    grace_s: float = 0.0
    """That grace period."""
    life: int = 0
    """Of an executor: which life of its attempt made it, from 1; 0: it does not say. A killed driver is followed by
    another in the same pod, so the executors of both have one attempt, and those of the earlier life stayed."""
    restarts: int = 0
    waiting: str = ""
    """Why the container waits, e.g. ``CrashLoopBackOff``, ``ImagePullBackOff``."""
    waiting_message: str = ""
    ended: Termination | None = None
    """The container's end, where it does not run now."""
    last_ended: Termination | None = None
    """The end of the life before, where the kubelet started it again."""
    stays_ended: bool = False
    """The container has ended and the kubelet will not start it again, whatever else runs in the pod."""
    trouble: tuple[str, str] | None = None
    """Reason and message of a container beside it, or of one before it (init), that waits or has failed."""
    preparing: str = ""
    """The init container that runs, for whose end the driver waits."""
    unschedulable: str = ""
    node_lost: bool = False
    node_silent: bool = False
    """Whether its node has been given up, or has never said anything of it."""
    cluster: str = ""
    """The cluster's name in storage, as the pod was told; empty where it does not say."""
    usage: pod_usage.PodUsage = pod_usage.NOTHING
    """Its share of a ResourceQuota."""
    disrupted: str = ""
    """Why the pod is a disruption's target (drain, preemption, eviction), if it is."""

    @property
    def death(self) -> Death:
        """Whether its process is dead, as far as its node or the API server knows."""
        if not self.node:
            return (
                Death.CONFIRMED if self.phase in ("Failed", "Succeeded") or self.deleting_at else Death.ALIVE
            )
        if self.over:
            # A phase alone is no word of the kubelet. Kubernetes also sets it for pods of nodes that are gone, and
            # such a pod may have no container statuses (apache/spark-kubernetes-operator#863).
            return Death.CONFIRMED if self.ended is not None else Death.UNCONFIRMED
        return Death.ALIVE

    @property
    def over(self) -> bool:
        """Whether its process will not run again in this pod."""
        return self.phase in ("Failed", "Succeeded") or self.stays_ended

    @property
    def lingers(self) -> bool:
        """Whether other containers keep the pod although its process is over, and nobody has asked it to end."""
        return self.stays_ended and self.phase not in ("Failed", "Succeeded") and self.deleting_at is None

    @property
    def answers(self) -> bool:
        """Whether its endpoint may answer."""
        return bool(self.ip) and self.phase == "Running" and self.ended is None and not self.waiting

    @property
    def terminating_gracefully(self) -> bool:
        """Whether its driver was asked to end and is about to: its node answers for it, and it ran."""
        return self.deleting_at is not None and self.ready and self.answers and not self.node_lost

    @property
    def abandoned(self) -> bool:
        """Whether it is deleted because its node does not answer: nobody there has heard of the grace period. When the
        operator waited for that period all the same, a job on a lost node was away twice as long: five minutes."""
        return self.deleting_at is not None and self.disrupted == TAINT_EVICTION and self.node_silent

    def is_stuck(self, now: datetime) -> bool:
        """Whether it should have ended a whole grace period ago. Quotas do not count it any more."""
        return self.deleting_at is not None and now > self.deleting_at + timedelta(seconds=self.grace_s)

    @property
    def crash(self) -> Termination | None:
        """The newest end of its container."""
        return self.ended or self.last_ended


def read(body: Document) -> Pod:
    """From the API server's document. The container that counts is called like the pod's role."""
    meta, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    found = containers.read(body, (meta.get("labels") or {}).get(labels.ROLE, "driver"))
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    ready = conditions.get("Ready", {})
    scheduled = conditions.get("PodScheduled", {})
    disruption = conditions.get("DisruptionTarget", {})
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        attempt=labels.number(meta, labels.ATTEMPT) or 0,
        life=labels.number(meta, labels.LIFE) or 0,
        revision=(meta.get("labels") or {}).get(labels.REVISION, ""),
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        node=spec.get("nodeName", ""),
        ip=status.get("podIP", ""),
        deleting_at=clock.parse(meta.get("deletionTimestamp")),
        grace_s=float(meta.get("deletionGracePeriodSeconds") or 0),
        # Of the pod's condition only the node's part counts. A sidecar that has ended or hangs makes the condition
        # false as well, and once held the next attempt of a deleted driver.
        **{**vars(found), "ready": found.ready and _node_answers(ready)},
        node_silent=not _node_answers(ready),
        cluster=_variable(spec, labels.CLUSTER_VARIABLE),
        usage=pod_usage.read(body),
        unschedulable=scheduled.get("message", "") if scheduled.get("status") == "False" else "",
        node_lost=status.get("reason") == "NodeLost" or ready.get("reason") == "NodeLost",
        disrupted=disruption.get("reason", "") if disruption.get("status") == "True" else "",
    )


def _variable(spec: Document, name: str) -> str:
    """The value of an environment variable, in whichever container of the pod; empty if none has it."""
    given = (each for one in spec.get("containers") or () for each in one.get("env") or ())
    return str(next((each.get("value") for each in given if each.get("name") == name), None) or "")


def _node_answers(ready: Document) -> bool:
    """By the pod's condition ``Ready``: the kubelet gives a reason where it denies it (another container is not ready),
    the node controller gives none when it does so for a node that is silent."""
    return ready.get("status") == "True" or ready.get("reason", "") not in ("", "NodeLost")
