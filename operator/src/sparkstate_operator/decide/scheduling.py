"""A job that works through what there is (``trigger.availableNow``) runs again at the times of ``trigger.schedule``.

A time that passes while the job runs is left out, and several that pass while nobody looks count once. A run is over
when its end is first seen: nothing in the status tells by the operator's clock when the run began, so the word of a
node whose clock is wrong could not be held within the time of the run.
"""

from __future__ import annotations

from sparkstate_operator import clock
from sparkstate_operator.core import schedule
from sparkstate_operator.decide import progress, starting
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision

RESTS = ("Finished", "Failed")
"""Phases in which a run is over. A run that failed does not stop the next one. State that is missing does: that run
would fail as well."""


def plan(draft: Draft, revision: Revision) -> schedule.Plan | None:
    """The times of the runs; None: the job runs once."""
    line = revision.get("trigger.schedule")
    job = draft.seen.job
    return None if line is None else schedule.Plan(job.uid, job.created, cron=str(line))


def is_due(draft: Draft, revision: Revision) -> bool:
    """Whether a time has come since the last run ended. The operator's clock tells both. ``lastFailure`` has the time
    of a node: by one that was behind, a run that fails at once would be repeated for as long as that."""
    times = plan(draft, revision)
    ended = clock.parse(draft.status.get("completionTime")) if draft.phase in RESTS else None
    return times is not None and ended is not None and schedule.passed(times, draft.now) > ended


def run(draft: Draft, revision: Revision) -> None:
    """The next run, from the state of the last one. It has all restarts: failures of earlier runs say nothing of it."""
    line = revision.get("trigger.schedule")
    draft.note("RunDue", f"trigger.schedule ({line}): the job runs again")
    progress.put_restarts(draft, {**(draft.status.get("restarts") or {}), "recent": []})
    starting.begin(draft, revision, draft.start)


def rest(draft: Draft, revision: Revision) -> None:
    """Look again when the next time comes."""
    times = plan(draft, revision)
    if times is not None and draft.phase in RESTS:
        draft.wait(schedule.wait_s(times, draft.now))
