"""The command of an uninstall: it lets jobs and snapshots go, so that none of them waits for ever for an operator
that is gone.

Their pods, data and definitions stay. An operator that is installed again holds them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkstate_operator import clock, errors, holding, labels, managing
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import Leadership, LeaseSettings

_log = logging.getLogger(__name__)
TRIES = 5
"""Somebody else may write an object between our look and our patch."""
AT_ONCE = 32
"""Requests under way."""


async def release(
    lease: LeaseSettings, namespaces: Sequence[str], kubeconfig: str | None = None, operator_class: str = ""
) -> int:
    """Take the Lease, so that no operator is at work, then remove the finalizer from everything that this operator
    looks after. Returns how many objects had it.

    ``namespaces``: none means all. ``operator_class``: of the operator.
    """
    own = managing.Manager(lease.namespace, lease.name, operator_class)
    leases = await k.Kube.connect(kubeconfig)
    leadership = Leadership(leases, lease, clock.SystemClock())
    kube = await k.Kube.connect(kubeconfig, leadership.require)
    try:
        await leadership.acquire()
        keeping = asyncio.create_task(leadership.keep())
        try:
            return await _let_go(kube, namespaces, own)
        finally:
            keeping.cancel()
    finally:
        await leadership.release()
        await kube.close()
        await leases.close()


async def _let_go(kube: k.Kube, namespaces: Sequence[str], own: managing.Manager) -> int:
    """Many at once, because the Job has to release tens of thousands within its deadline. Page by page and with their
    metadata alone, because all of them would not fit into its memory. One that cannot be let go holds up no other."""
    tally = _Tally()
    places = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for kind in (k.SNAPSHOTS, k.JOBS):
            for namespace in namespaces or (None,):
                async for body in kube.each(kind, namespace, meta=True):
                    if labels.FINALIZER in body["metadata"].get("finalizers", ()) and _is_ours(body, own):
                        await places.acquire()  # before the next page is read
                        group.create_task(_one(kube, kind, body["metadata"], places, tally))
    if tally.failed:
        raise errors.ApiError(
            0, f"{tally.failed} objects could not be let go, {tally.count} others were; run the command again"
        )
    return tally.count


def _is_ours(body: Mapping[str, Any], own: managing.Manager) -> bool:
    """By the mark. An object of an older operator, which wrote no marks, goes by its class."""
    meta = body["metadata"]
    marked = managing.Manager.of((meta.get("annotations") or {}).get(labels.MANAGER, ""))
    if marked is not None:
        return marked.is_same(own)
    return bool((meta.get("labels") or {}).get(labels.OPERATOR_CLASS, "") == own.operator_class)


@dataclass
class _Tally:
    count: int = 0
    failed: int = 0


async def _one(
    kube: k.Kube, kind: k.Kind, meta: Mapping[str, Any], places: asyncio.Semaphore, tally: _Tally
) -> None:
    about = f"{kind.kind} {meta['namespace']}/{meta['name']}"
    try:
        await _take_finalizer(kube, kind, meta)
        tally.count += 1
        _log.info("let go", extra={"object": about})
    except errors.ApiError as error:
        tally.failed += 1
        _log.warning("could not be let go: %s", error, extra={"object": about})
    finally:
        places.release()


async def _take_finalizer(kube: k.Kube, kind: k.Kind, meta: Mapping[str, Any]) -> None:
    """Patches the object as it was listed, and reads it again only if somebody else has written it since."""
    namespace, name = str(meta["namespace"]), str(meta["name"])
    for left in reversed(range(TRIES)):
        try:
            await _patch(kube, kind, meta)
            return
        except errors.NotFound:
            return
        except errors.Conflict:
            if left == 0:
                raise
        body = await kube.get(kind, namespace, name)
        if body is None or labels.FINALIZER not in body["metadata"].get("finalizers", ()):
            return
        meta = body["metadata"]


async def _patch(kube: k.Kube, kind: k.Kind, meta: Mapping[str, Any]) -> None:
    async def patch(change: holding.Document) -> None:
        found = {"metadata": {"resourceVersion": meta["resourceVersion"], **change}}
        await kube.merge(kind, str(meta["namespace"]), str(meta["name"]), found)

    await holding.let_go(
        meta.get("finalizers", ()),
        meta.get("annotations") or {},
        patch,
        deleting="deletionTimestamp" in meta,
    )
