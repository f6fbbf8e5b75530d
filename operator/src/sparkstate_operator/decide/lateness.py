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


def of(draft: Draft, old: Sequence[Condition]) -> conditions.Trouble | None:
    """The trouble of a job that is late; with the Event when that begins."""
    revision = draft.wanted or draft.revision
    seconds = revision.get("progressDeadlineSeconds") if revision is not None else None
    if seconds is None or not phases.JOB[draft.status["phase"]].progressing or draft.phase in _ENDS:
        return None
    began = _began(old)
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
