"""The command of an uninstall: it lets jobs and snapshots go, so that none of them waits for ever for an operator
that is gone.

Their pods, data and definitions stay. An operator that is installed again holds them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    looks after. Returns how many objects had it. Raises ``Forbidden`` if the Lease may not be taken, and ``ApiError``
    if something could not be let go.

    ``namespaces``: none means all. ``operator_class``: of the operator.
    """
    own = managing.Manager(lease.namespace, lease.name, operator_class)
    leases = await k.Kube.connect(kubeconfig)
    leadership = Leadership(leases, lease, clock.SystemClock(), tell=_give_up)
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


def _give_up(why: str) -> None:
    """Waiting would not help: nobody grants rights while an uninstall runs."""
    if why:
        raise errors.Forbidden(403, why)


async def _let_go(kube: k.Kube, namespaces: Sequence[str], own: managing.Manager) -> int:
    """Many at once, because the Job has to release tens of thousands within its deadline. One object that cannot be let
    go, or one namespace that cannot be read, holds up no other."""
    tally = _Tally()
    places = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for kind in (k.SNAPSHOTS, k.JOBS):
            for namespace in namespaces or (None,):
                try:
                    async for meta in _held(kube, kind, namespace, own):
                        await places.acquire()  # before the next page is read
                        group.create_task(_one(kube, kind, meta, places, tally))
                except errors.ApiError as error:
                    tally.miss(kind, namespace, error)
    tally.require_all()
    return tally.count


async def _held(
    kube: k.Kube, kind: k.Kind, namespace: str | None, own: managing.Manager
) -> AsyncIterator[Mapping[str, Any]]:
    """The metadata of all that has our finalizer. Page by page and without the rest, because tens of thousands would
    not fit into the memory of the Job."""
    async for body in kube.each(kind, namespace, meta=True):
        if labels.FINALIZER in body["metadata"].get("finalizers", ()) and _is_ours(body, own):
            yield body["metadata"]


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
    missed: list[str] = field(default_factory=list)
    """Kinds and namespaces that could not be read to their end."""

    def miss(self, kind: k.Kind, namespace: str | None, error: errors.ApiError) -> None:
        """Note a list that broke off. The API server says ``Forbidden`` of a namespace that was deleted too, because
        the Role in it went with it."""
        place = f"{kind.plural} of {f'namespace {namespace}' if namespace else 'all namespaces'}"
        self.missed.append(place)
        hint = ""
        if isinstance(error, errors.Forbidden):
            hint = "; the rights `release` of the chart's files/rules.yaml are missing there, or the namespace is gone"
        _log.warning("%s could not be read: %s%s", place, error, hint)

    def require_all(self) -> None:
        """Raise ``ApiError`` if anything is left."""
        left = [f"{self.failed} objects could not be let go"] if self.failed else []
        if self.missed:
            left.append(f"{', '.join(self.missed)} could not be read")
        if left:
            raise errors.ApiError(
                0, f"{' and '.join(left)}, {self.count} objects were let go; run the command again"
            )


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
