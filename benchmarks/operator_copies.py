"""Copies of a job that runs, with all that belongs to it: for `benchmarks/operator_drivers.py`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from sparkstate_operator import labels
from sparkstate_operator.edges import kube as k

CHILDREN = (k.SERVICES, k.SERVICE_ACCOUNTS, k.REVISIONS, k.CONFIG_MAPS, k.PODS)
"""What the operator reads of a job; its Secret is never read."""
AT_ONCE = 24
_SERVERS_OWN = (
    "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "ownerReferences",
)  # fmt: skip


async def make(kubeconfig: Path, namespace: str, first: str, names: list[str]) -> None:
    """One job of each name, as ``first`` is, with its savepoints."""
    kube = await k.Kube.connect(str(kubeconfig))
    try:
        job = await kube.get(k.JOBS, namespace, first)
        assert job is not None
        listed = [(kind, await kube.list(kind, namespace, f"{labels.JOB}={first}")) for kind in CHILDREN]
        children = [(kind, body) for kind, bodies in listed for body in bodies]
        snapshots = await kube.list(k.SNAPSHOTS, namespace, f"{labels.JOB}={first}")
        places = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with places:
                await _copy(kube, namespace, job, children, snapshots, name)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name))
    finally:
        await kube.close()


async def _copy(
    kube: k.Kube,
    namespace: str,
    job: k.Object,
    children: list[tuple[k.Kind, k.Object]],
    snapshots: list[k.Object],
    name: str,
) -> None:
    old, uid = job["metadata"]["name"], job["metadata"]["uid"]
    made = await kube.create(k.JOBS, namespace, _renamed(job, {old: name}))

    def fresh(body: k.Object) -> k.Object:
        return _renamed(body, {old: name, uid: made["metadata"]["uid"]})

    async def put(kind: k.Kind, body: k.Object, into: k.Object) -> None:
        await kube.replace(kind, namespace, {**into, "status": fresh(body)["status"]}, subresource="status")

    await put(k.JOBS, job, made)
    for body in snapshots:
        document = {"apiVersion": k.SNAPSHOTS.api_version, "kind": k.SNAPSHOTS.kind, **fresh(body)}
        await put(k.SNAPSHOTS, body, await kube.create(k.SNAPSHOTS, namespace, document))
    for kind, body in children:
        copy = {"apiVersion": kind.api_version, "kind": kind.kind, **fresh(body)}
        copy.pop("status", None)
        if kind is k.SERVICES:
            copy["spec"] = {
                key: value for key, value in copy["spec"].items() if not key.startswith("clusterIP")
            }
            copy["spec"]["clusterIP"] = "None"
        if kind is k.PODS:
            copy["spec"].pop("nodeName", None)
        await kube.create(kind, namespace, copy)


def _renamed(body: k.Object, words: dict[str, str]) -> k.Object:
    """Without what the server gives, and with other names in all of it."""
    meta = {key: value for key, value in body["metadata"].items() if key not in _SERVERS_OWN}
    text = json.dumps({**body, "metadata": meta})
    for old, new in words.items():
        text = text.replace(old, new)
    found: dict[str, Any] = json.loads(text)
    return found
