"""Rebuilds a status that was wiped or restored from a backup, as far as the job's children know its fields.

The ConfigMap of the newest attempt that may have lived is kept until a newer one exists. So no two drivers have one
number, whatever happens to the status. If no driver is left that could be asked about the state, the engine
asks the storage for it (:mod:`recovering`).
"""

from __future__ import annotations

import json
from typing import Any

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.core import job_life, naming
from sparkstate_operator.decide import recovering, unconfirmed
from sparkstate_operator.decide.draft import Draft


def fill(draft: Draft) -> None:
    """Fill in each field that the status lacks.

    This is a sequence and no choice: each step fills a field of its own, and none excludes another. The attempt comes
    first, because the phase depends on it, and the selector last, because a job without a phase gets none.
    """
    _fill_attempt(draft)
    if not draft.status.get("cluster"):
        draft.put("cluster", _cluster(draft))
    if not draft.phase:
        _fill_phase(draft)
    if draft.phase and not draft.status.get("selector"):
        draft.status["selector"] = labels.pods_of(draft.seen.job.uid)


def _fill_attempt(draft: Draft) -> None:
    """Raise ``attempt`` to the newest that left a trace; fill in revision and start instruction from there."""
    newest = draft.seen.newest_config_map
    traces = [*(pod.attempt for pod in draft.seen.drivers), newest.attempt if newest else 0]
    highest = max((trace for trace in traces if trace), default=0)
    if highest > draft.attempt:
        draft.status["attempt"] = highest
        draft.end_act()
        pod = draft.pod
        draft.put("revision", pod.revision if pod is not None else revision_of(newest))
        told = start_of(newest) if newest and newest.attempt == highest else actions.Start()
        draft.put("start", told.document() or None)


def _fill_phase(draft: Draft) -> None:
    """An attempt that left a trace comes first: its phase stays while the storage is asked. Nobody asks the storage for
    a new job, nor while a driver is left that can be asked about the state."""
    if draft.attempt:
        draft.happened(job_life.TRACED)
    if not _is_lost(draft):
        return
    unconfirmed.recover(draft)
    if _accepted_for(draft) == draft.seen.job.generation:
        draft.status["observedGeneration"] = draft.seen.job.generation
    if not draft.seen.drivers:
        recovering.begin(draft)


def _is_lost(draft: Draft) -> bool:
    """A job with our finalizer was seen before: its status is lost, whatever is left of its children."""
    return labels.FINALIZER in draft.seen.job.finalizers and not draft.seen.unwritten


def _accepted_for(draft: Draft) -> int | None:
    """The generation that the revision that runs was made for."""
    name = draft.status.get("revision")
    found = (child.body.get("revision") for child in draft.seen.revisions if child.name == name)
    return next(found, None)


def _cluster(draft: Draft) -> str:
    """The name in storage that the newest attempt was given, of those that say it; empty if none does.

    ConfigMaps of older operators do not say it. One that was made for a command after the status was lost
    (:data:`naming.TRACE`) knows no more than we do.
    """
    told = [(pod.attempt, pod.cluster) for pod in draft.seen.drivers]
    told += [(child.attempt or naming.TRACE, _noted(child)) for child in draft.seen.config_maps]
    return max(
        ((attempt, name) for attempt, name in told if attempt > naming.TRACE and name), default=(0, "")
    )[1]


def _noted(child: observed.Child) -> str:
    return str((child.body["metadata"].get("annotations") or {}).get(labels.CLUSTER, ""))


def revision_of(child: observed.Child | None) -> str | None:
    """The name of the revision that the attempt with this ConfigMap is of."""
    return child.body["metadata"]["labels"].get(labels.REVISION) if child else None


def start_of(child: observed.Child) -> actions.Start:
    """The instruction that the attempt with this ConfigMap was given. Anybody may edit the annotation, so an unreadable
    one gives way to the manifest, which is immutable."""
    found = _document((child.body["metadata"].get("annotations") or {}).get(labels.START))
    if found is None:
        manifest = _document((child.body.get("data") or {}).get("job.yaml")) or {}
        found = _document((manifest.get("metadata") or {}).get("annotations", {}).get(labels.START))
    return actions.Start.of(found)


def _document(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
