"""The result of the last look at a job, kept until anything happens to it (RFC 0024).

A job without an event since its last look is as it was. So its driver's progress is written without reading anything:
one request to the API server instead of four. Only progress is decided from a kept look (:func:`is_quiet`). The watches
may be late, so everything that creates, deletes, asks or fences is decided from a fresh read. A write from a kept look
is a compare-and-set on the version that was seen, like every other write.

Kept looks are packed, because thousands of jobs are idle: 2 KiB a job, where the objects themselves take some twenty.
"""

from __future__ import annotations

import dataclasses
import pickle
import zlib

from sparkstate_operator import actions, managing, observed
from sparkstate_operator.config import Config
from sparkstate_operator.model.status import PROGRESS_FIELDS

_LEVEL = 1


def pack(seen: observed.ObservedState) -> bytes:
    """The part of a look that still holds while there is no event: what a look that is not deep would see."""
    lasting = dataclasses.replace(
        seen,
        config_maps=(),
        revisions=(),
        children=None,
        sightings={},
        commands=(),
        report=None,
        unheard="",
        refused="",
        quota_scopes=(),
    )
    return zlib.compress(pickle.dumps(lasting, pickle.HIGHEST_PROTOCOL), _LEVEL)


def unpack(packed: bytes) -> observed.ObservedState:
    """The look that :func:`pack` packed: in this process, and it has never been anywhere else."""
    found: observed.ObservedState = pickle.loads(zlib.decompress(packed))
    return found


def changed(job: observed.Job, status: observed.Document) -> set[str]:
    """The fields of the status that a decision changes."""
    return {name for name in {*job.status, *status} if job.status.get(name) != status.get(name)}


def is_quiet(job: observed.Job, decision: actions.Decision, config: Config) -> bool:
    """Whether a decision writes progress, and does nothing else, about a job that bears the mark of the operator with
    this configuration. Of any other job a look has to find out whose it is."""
    if not managing.is_own(job, config.operator_class, config.mark):
        return False
    acts = (*decision.before, *decision.actions, *decision.notes)
    return not acts and decision.check is None and changed(job, decision.status) <= set(PROGRESS_FIELDS)
