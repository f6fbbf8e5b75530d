"""The identity of a driver in a cluster, read from the environment that the operator gives its container.

The names are part of the contract between operator and engine (docs/formats.md, "In the cluster").
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparkstate import errors
from sparkstate.settings import CLUSTER_VARIABLE, PodSettings

GRACE = "SPARKSTATE_GRACE_PERIOD_S"
PREDECESSOR = "SPARKSTATE_PREDECESSOR_S"
UID = "SPARKSTATE_POD_UID"
START = "sparkstate.io/start"
"""Annotation of the manifest: the start instruction as JSON."""
REQUIRED = {
    "name": "SPARKSTATE_POD_NAME",
    "namespace": "SPARKSTATE_POD_NAMESPACE",
    "ip": "SPARKSTATE_POD_IP",
    "job_uid": "SPARKSTATE_JOB_UID",
}


def read(environ: Mapping[str, str], attempt: int, annotations: Mapping[str, str]) -> PodSettings:
    """The pod of this process. ``annotations``: the manifest's own. Raises ``SpecInvalid`` with the missing names."""
    found = {field: environ.get(name, "") for field, name in REQUIRED.items()}
    missing = [REQUIRED[field] for field, value in found.items() if not value]
    if missing:
        raise errors.SpecInvalid(
            f"--in-cluster needs {', '.join(missing)} in the environment; the operator sets them by the downward API"
        )
    start = _start(annotations)
    return PodSettings(
        **found,
        uid=environ.get(UID, ""),
        attempt=attempt,
        start_since=start.since,
        start_fresh=start.fresh,
        cluster=environ.get(CLUSTER_VARIABLE) or PodSettings.cluster,
        grace_s=_seconds(environ, GRACE, PodSettings.grace_s, "the pod's terminationGracePeriodSeconds"),
        predecessor_s=_seconds(
            environ,
            PREDECESSOR,
            PodSettings.predecessor_s,
            "how long an earlier driver may do harm, in seconds",
        ),
    )


class _Start(msgspec.Struct, frozen=True):
    """The parts of the operator's start instruction that a spec has no field for."""

    since: int = 0
    fresh: bool = False


def _start(annotations: Mapping[str, str]) -> _Start:
    told = annotations.get(START)
    try:
        return msgspec.json.decode(told, type=_Start) if told else _Start()
    except msgspec.MsgspecError as error:
        raise errors.SpecInvalid(f"the annotation {START} is {told!r}: {error}") from error


def _seconds(environ: Mapping[str, str], name: str, default: float, meaning: str) -> float:
    told = environ.get(name)
    try:
        return float(told) if told else default
    except ValueError:
        raise errors.SpecInvalid(f"{name} is {told!r}; it must be {meaning}") from None
