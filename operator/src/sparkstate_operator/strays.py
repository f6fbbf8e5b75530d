"""Objects with a job's name whose job is another one, or gone: they are deleted, and a new job waits for their pods."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from sparkstate_operator import job_pods, observed, plan
from sparkstate_operator.apply import Applier
from sparkstate_operator.edges import kube as k

_log = logging.getLogger(__name__)
Stray = tuple[k.Kind, observed.Child]


async def delete(applier: Applier, strays: Iterable[Stray], namespace: str) -> Exception | None:
    """Delete each of them; the first error, None if there was none. One that cannot be deleted, because of a webhook or
    a missing right, must not keep the others."""
    first: Exception | None = None
    for kind, child in strays:
        try:
            await applier.delete_stray(kind, child, namespace)
        except Exception as error:
            first = first or error
            fields = {"object": child.name, "namespace": namespace}
            _log.warning("a %s of an earlier job stays: %s", child.kind, error, extra=fields)
    return first


def may_run(strays: Iterable[Stray], now: datetime) -> bool:
    """Whether a pod of an earlier job of this name may still run: the new job waits for it as for a pod of its own."""
    patience = timedelta(seconds=plan.DEFAULT_DEATH_S)
    pods = (job_pods.read(child.body) for kind, child in strays if kind is k.PODS)
    return any(pod.deleting_at is None or now < pod.deleting_at + patience for pod in pods)
