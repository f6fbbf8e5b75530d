"""Finds jobs that bear our own mark but have left our class, which none of our watches shows.

Jobs are watched by their class. A job whose label changes leaves the watch with an event. Nobody hears that event if no
operator leads at the time, or if the operator itself is given another class. So a process that begins to lead looks
once for jobs that it still holds; the look at each of them lets it go, or ends its deletion. Snapshots are all watched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sparkstate_operator import errors, managing
from sparkstate_operator.edges import kube as k
from sparkstate_operator.memories import Key

_log = logging.getLogger(__name__)
AGAIN_S = 30.0
"""Until the API server is asked again that did not answer."""


async def find(
    kube: k.Kube, own: managing.Manager, namespaces: tuple[str, ...], found: Callable[[Key], None]
) -> None:
    """Tell ``found`` of each, once. ``namespaces``: none means all; one that cannot be read holds up no other."""
    await asyncio.gather(*(_in(kube, own, place, found) for place in namespaces or (None,)))


async def _in(kube: k.Kube, own: managing.Manager, place: str | None, found: Callable[[Key], None]) -> None:
    while True:
        try:
            others = managing.selector_of_others(own.operator_class)
            async for body in kube.each(k.JOBS, place, others, meta=True):
                if managing.holds(own, body["metadata"]):
                    found(Key("job", str(body["metadata"]["namespace"]), str(body["metadata"]["name"])))
            return
        except errors.ApiError as error:
            _log.warning("jobs of other classes cannot be listed yet: %s", error)
            await asyncio.sleep(AGAIN_S)
