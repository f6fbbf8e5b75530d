"""What is done when the chart is uninstalled: jobs and snapshots are let go, so that none of them waits for ever for
an operator that is gone.

Their pods, data and definitions stay. An operator that is installed again holds them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from sparkstate_operator import clock, errors, labels
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import Leadership, LeaseSettings

_log = logging.getLogger(__name__)
TRIES = 5
"""Somebody else may write an object between our look and our patch."""


async def release(lease: LeaseSettings, namespaces: Sequence[str], kubeconfig: str | None = None) -> int:
    """Take the Lease, so that no operator is at work, and take the finalizer from everything; how many had it.

    ``namespaces``: none means all.
    """
    kube = await k.Kube.connect(kubeconfig)
    leadership = Leadership(kube, lease, clock.SystemClock())
    kube.before_write = leadership.require
    try:
        await leadership.acquire()
        keeping = asyncio.create_task(leadership.keep())
        try:
            return await _let_go(kube, namespaces)
        finally:
            keeping.cancel()
    finally:
        await leadership.release()
        await kube.close()


async def _let_go(kube: k.Kube, namespaces: Sequence[str]) -> int:
    count = 0
    for kind in (k.SNAPSHOTS, k.JOBS):
        for namespace in namespaces or (None,):
            for body in await kube.list(kind, namespace):
                meta = body["metadata"]
                if labels.FINALIZER in meta.get("finalizers", ()):
                    await _take_finalizer(kube, kind, meta["namespace"], meta["name"])
                    _log.info("let go", extra={"object": f"{kind.kind} {meta['namespace']}/{meta['name']}"})
                    count += 1
    return count


async def _take_finalizer(kube: k.Kube, kind: k.Kind, namespace: str, name: str) -> None:
    for left in reversed(range(TRIES)):
        body = await kube.get(kind, namespace, name)
        if body is None or labels.FINALIZER not in body["metadata"].get("finalizers", ()):
            return
        kept = [each for each in body["metadata"]["finalizers"] if each != labels.FINALIZER]
        version = body["metadata"]["resourceVersion"]
        try:
            await kube.merge(
                kind, namespace, name, {"metadata": {"finalizers": kept, "resourceVersion": version}}
            )
            return
        except errors.NotFound:
            return
        except errors.Conflict:
            if left == 0:
                raise
