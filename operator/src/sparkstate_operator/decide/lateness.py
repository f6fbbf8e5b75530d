"""A job that is not ready for longer than its ``progressDeadlineSeconds``, as with a Deployment
(https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds).

It is told and nothing else: what the operator does about a driver that does not start, or has failed, goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    ready = next((one for one in old if one.type == "Ready"), None)
    if ready is None or ready.status == "True":
        draft.wait(float(seconds))
        return None
    late_s = (draft.now - ready.last_transition_time).total_seconds()
    if late_s < seconds:
        draft.wait(seconds - late_s)
        return None
    after = units.format_duration(int(seconds) * 1000)
    told = f"not ready for more than {after} (progressDeadlineSeconds); the job is {draft.phase}"
    message = str(draft.status.get("message") or "")
    found = conditions.Trouble(REASON, f"{told}: {message}" if message else told)
    if not any(one.reason == REASON for one in old):
        draft.note(REASON, found.message, warning=True)
    return found
