"""A job that is not ready for longer than its ``progressDeadlineSeconds``. The field is that of a Deployment
(https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds) and means the same.

It is told and nothing else: what the operator does about a driver that does not start, or has failed, goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sparkstate_operator.core import conditions, phases
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.model.status import Condition
from sparkstate_spec import units

REASON = "ProgressDeadlineExceeded"
_ENDS = ("Suspending", "Deleting")
"""Phases of a job that is not to become ready."""


def of(draft: Draft, old: Sequence[Condition], *, begins_anew: bool) -> conditions.Trouble | None:
    """The trouble of a job that is late; with the Event when that begins. ``begins_anew``: see there."""
    seconds = _allowed_s(draft)
    if seconds is None:
        return None
    began = None if begins_anew else _began(old)
    late_s = (draft.now - began).total_seconds() if began is not None else 0.0
    if late_s < seconds:
        draft.wait(seconds - late_s)
        return None
    after = units.format_duration(int(seconds) * 1000)
    told = f"not ready for more than {after} (progressDeadlineSeconds); the job is {draft.phase}"
    message = str(draft.status.get("message") or "")
    found = conditions.Trouble(REASON, f"{told}: {message}" if message else told)
    if not any(one.reason == REASON for one in old):
        draft.note("ProgressDeadlineExceeded", found.message, warning=True)
    return found


def begins_anew(draft: Draft, old: Sequence[Condition]) -> bool:
    """Whether the time counts from this look: the job sets out for a new spec, and its conditions are still those of an
    older one. A job that was late with the old spec failed the rollout of the one that mends it from the first look on.
    """
    known = next((one for one in old if one.type == "Progressing"), None)
    if draft.wanted is None or known is None or not known.observed_generation or _allowed_s(draft) is None:
        return False
    is_newer = known.observed_generation < int(draft.status.get("observedGeneration") or 0)
    return is_newer and draft.wanted.name != draft.seen.job.status.get("revision")


def _allowed_s(draft: Draft) -> float | None:
    """The deadline; None where there is none, or the job is not to become ready."""
    revision = draft.wanted or draft.revision
    is_on_its_way = phases.JOB[draft.status["phase"]].progressing and draft.phase not in _ENDS
    seconds = revision.get("progressDeadlineSeconds") if revision is not None else None
    return float(seconds) if seconds is not None and is_on_its_way else None


def _began(old: Sequence[Condition]) -> datetime | None:
    """Since when it is on its way and not ready; None: since now. A job that had failed, or waited for state, made no
    progress then because nobody was to make any."""
    known = {one.type: one for one in old}
    ready, progressing = known.get("Ready"), known.get("Progressing")
    if ready is None or progressing is None or ready.status == "True":
        return None
    if progressing.status == "True":
        return max(ready.last_transition_time, progressing.last_transition_time)
    return ready.last_transition_time if progressing.reason == REASON else None
