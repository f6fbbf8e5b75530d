"""Waits until the API server serves our two kinds. kopf looks for them once, when it starts: without them it would
watch pods and commands alone. Another API server may answer kopf than answered here, so the watches begin anew if kopf
has not found all kinds (see ``handlers.watch``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sparkstate_operator import errors
from sparkstate_operator.edges import kube as k

_log = logging.getLogger(__name__)
AGAIN_S = 5.0
KINDS = (k.JOBS, k.SNAPSHOTS)
REMEDY = (
    "install the resource definitions, with `crds.install: true` in the chart's values or with "
    "`kubectl apply --server-side -f crds/`"
)


async def wait(kube: k.Kube, tell: Callable[[str], None]) -> None:
    """Return as soon as both are served. ``tell`` is told why they are not, each time that the answer is no."""
    told = ""
    while why := await _missing(kube):
        tell(why)
        if why != told:
            _log.warning("nothing is watched: %s", why)
        told = why
        await asyncio.sleep(AGAIN_S)


async def _missing(kube: k.Kube) -> str:
    """Why our kinds cannot be watched; empty if they can."""
    try:
        served = await kube.served(k.JOBS.api)
    except errors.ApiError as error:
        return f"the API server cannot be asked for its resources: {error}"
    names = [kind.plural for kind in KINDS if kind.plural not in served]
    return f"the API server does not serve {' and '.join(names)}; {REMEDY}" if names else ""
