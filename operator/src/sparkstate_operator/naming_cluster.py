"""Finds this cluster's name in storage, where nobody has given it one.

A job's name leads to its state by ``by-name/<cluster>/<namespace>/<name>``. So two clusters on one storage need two
names, and a name that changes hides the state of every job. A new installation takes the uid of kube-system, which no
two clusters share. An existing installation keeps its name: the Lease, which outlives the process, has a note of it,
and so has the status of each job. Operators older than the uid called every cluster ``default``.

If somebody gives an installation another name, the new one is meant for its jobs, and hides their state on purpose. It
is not meant for a job that comes from another operator, which keeps its own name (``kept_name``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sparkstate_operator import errors, labels
from sparkstate_operator.config import Config
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import LeaseSettings

_log = logging.getLogger(__name__)
LEGACY = "default"
RETRY_S = 3.0
RIGHTS = (
    "in its own namespace the operator needs the rights `lease`, and in each watched namespace the rights `jobs`, of "
    "the chart's files/rules.yaml"
)


async def find(kube: k.Kube, config: Config, lease: LeaseSettings, tell: Callable[[str], None]) -> str:
    """The name, as soon as the API server answers. ``tell`` is told which request a missing right refuses, and an empty
    text once no request is refused."""
    while not config.cluster:
        try:
            found = await _find(kube, config, lease)
        except errors.ApiError as error:
            why = f"the cluster's name cannot be found yet: {error}"
            if isinstance(error, errors.Forbidden):
                why += f"; {RIGHTS}"
                tell(why)
            _log.warning("%s", why)
            await asyncio.sleep(RETRY_S)
        else:
            tell("")
            return found
    return config.cluster


async def identity(kube: k.Kube, config: Config) -> str:
    """The uid of kube-system, as soon as the API server answers; empty where the operator may not read it."""
    while not config.namespaces:
        try:
            return await _uid(kube, config)
        except (errors.Forbidden, errors.NotFound) as error:
            _log.warning("this cluster cannot be told from others: %s", error)
            break
        except errors.ApiError as error:
            _log.warning("the uid of kube-system cannot be read yet: %s", error)
            await asyncio.sleep(RETRY_S)
    return ""


async def _find(kube: k.Kube, config: Config, lease: LeaseSettings) -> str:
    found = await kube.get(k.LEASES, lease.namespace, lease.name)
    if found is None:
        return await _of_jobs(kube, config) or await _uid(kube, config)
    note = (found["metadata"].get("annotations") or {}).get(labels.CLUSTER)
    # A Lease without the note comes from an operator that knew only one name, or it was lost and the command of an
    # uninstall made it anew. The jobs are asked before ``default`` is taken: under that name each would begin empty.
    return str(note or await _of_jobs(kube, config) or LEGACY)


async def _of_jobs(kube: k.Kube, config: Config) -> str:
    """The name under which jobs that are there have run; empty if none has."""
    ran = False
    for place in config.namespaces or (None,):
        async for body in kube.each(k.JOBS, place):  # a page at a time: there may be thousands
            status = body.get("status") or {}
            if name := status.get("cluster"):
                return str(name)
            ran = ran or bool(status.get("attempt"))
    return LEGACY if ran else ""


async def _uid(kube: k.Kube, config: Config) -> str:
    """The uid of kube-system; of the first watched namespace where the operator may read no others."""
    place = config.namespaces[0] if config.namespaces else "kube-system"
    body = await kube.get(k.NAMESPACES, None, place)
    if body is None:
        raise errors.NotFound(404, f"there is no namespace {place} to name the cluster by")
    return str(body["metadata"]["uid"])
