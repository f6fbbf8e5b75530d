"""The CPU time of a pod on a node of a test cluster, as the kernel counts it: all of its containers, and
the processes that have ended too."""

from __future__ import annotations

from pathlib import Path

from sparkstate_tools.kubernetes.node import CGROUPS


class MissingUsage(RuntimeError):
    """The kernel counts nothing for the pod here; the message says why."""


def cpu_us(node: str, uid: str, groups: Path = CGROUPS) -> int:
    """CPU time in µs that the pod with that uid has used so far. ``node``: the node's group (``Names.namespace``)."""
    second = groups / node
    if second.exists():  # version 2 of control groups, where a group has everything
        stat = dict(line.split() for line in (_of_pod(second, uid) / "cpu.stat").read_text().splitlines())
        return int(stat["usage_usec"])
    for hierarchy in sorted(groups.glob("*cpuacct*")):
        return int((_of_pod(hierarchy / node, uid) / "cpuacct.usage").read_text()) // 1000
    raise MissingUsage(
        f"{groups} has neither {node} nor a hierarchy that counts CPU time (cpuacct): mount it"
    )


def _of_pod(node: Path, uid: str) -> Path:
    """The pod's group, in the folder of its class of service."""
    for name in ("kubepods", "kubepods/burstable", "kubepods/besteffort"):
        group = node / name / f"pod{uid}"
        if group.exists():
            return group
    raise MissingUsage(f"{node} has no group of the pod {uid}: it is gone, or runs on another node")
