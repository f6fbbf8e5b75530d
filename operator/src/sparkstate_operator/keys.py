"""The operator's key, from which drivers' tokens derive, where nobody has given it one.

The first process that leads makes the key and keeps it in a Secret of the operator's own namespace, the only Secret
that the operator may read. The chart cannot make it: rendered without a cluster (Argo CD),
it would make another key each time.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable

from sparkstate_operator import errors
from sparkstate_operator.edges import kube as k

_log = logging.getLogger(__name__)
LEAST = 16
"""Bytes of a key."""
FIELD = "key"
RETRY_S = 3.0


async def wait(
    kube: k.Kube, namespace: str, name: str, new_key: Callable[[], str], tell: Callable[[str], None]
) -> bytes:
    """The key, as soon as the API server answers and the operator may read it. ``tell`` is told why there is no key
    yet, and an empty text once there is one. Raises ``BadKey``.

    It waits and keeps the Lease. One refused or failed request used to end the process,
    and nobody was told which right was missing.
    """
    while True:
        try:
            found = await obtain(kube, namespace, name, new_key)
        except errors.ApiError as error:
            why = f"the operator has no key yet: {error}{_remedy(error, namespace, name)}"
            _log.warning("%s", why, extra={"object": name, "namespace": namespace})
            tell(why)
            await asyncio.sleep(RETRY_S)
        else:
            tell("")
            return found


def _remedy(error: errors.ApiError, namespace: str, name: str) -> str:
    if not isinstance(error, errors.Forbidden):
        return ""
    return (
        f"; in the namespace {namespace} the operator needs the rights to get the Secret {name} and to create Secrets "
        "(`key` in the chart's files/rules.yaml); or name a Secret of your own in operatorKey.existingSecret"
    )


async def obtain(kube: k.Kube, namespace: str, name: str, new_key: Callable[[], str]) -> bytes:
    """The key in the Secret; where there is none it is made. Raises ``BadKey`` if it cannot be a key."""
    found = await kube.get(k.SECRETS, namespace, name)
    if found is None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "type": "Opaque",
            "data": {FIELD: base64.b64encode(new_key().encode()).decode()},
        }
        try:
            found = await kube.create(k.SECRETS, namespace, body)
            _log.info("made a new key for the operator", extra={"object": name, "namespace": namespace})
        except errors.AlreadyExists:
            found = await kube.get(k.SECRETS, namespace, name)
    data = (found or {}).get("data") or {}
    return require(base64.b64decode(data.get(FIELD, "")), f"Secret {namespace}/{name}")


def require(key: bytes, where: str) -> bytes:
    """The key without white space around it. Raises ``BadKey``."""
    key = key.strip()
    if len(key) < LEAST:
        raise errors.BadKey(f"{where} holds {len(key)} bytes as {FIELD!r}; it must hold at least {LEAST}")
    return key
