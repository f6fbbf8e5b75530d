"""The ResourceQuota that has refused a pod."""

from __future__ import annotations

import logging

from sparkstate_operator import errors
from sparkstate_operator.core import quota
from sparkstate_operator.edges import kube as k

_log = logging.getLogger(__name__)


async def scopes(kube: k.Kube, namespace: str, refusal: str) -> tuple[quota.Scope, ...]:
    """The scopes of the quota that a refusal names; none where it names none, and where that quota is gone.

    Without the right to read quotas, it counts as one of all pods, as most are: an operator whose rights a person
    grants may not have this one yet.
    """
    name = quota.named(refusal)
    if not name:
        return ()
    try:
        found = await kube.get(k.RESOURCE_QUOTAS, namespace, name)
    except errors.Forbidden as error:
        _log.warning("the quota %s counts as one without scopes: %s", name, error)
        return ()
    return quota.scopes(found["spec"]) if found is not None else ()
