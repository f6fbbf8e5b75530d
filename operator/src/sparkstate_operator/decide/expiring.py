"""A job that has finished goes after the time that its spec gives, as a Kubernetes Job does.

A job that runs again by a schedule stays. So does one that has failed, because a person has to look at it: with
``deletion.policy: purge`` its state would go before anybody has.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sparkstate_operator import actions, clock
from sparkstate_operator.decide import scheduling
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision


def expire(draft: Draft, revision: Revision) -> None:
    """Write down when the job finished, and delete it once its time is over. Last of all steps, because it goes by the
    phase that they lead to."""
    if draft.phase != "Finished":
        draft.put("completionTime", None)
        return
    finished = _finished(draft)
    seconds = revision.get("ttlSecondsAfterFinished")
    if seconds is None or scheduling.plan(draft, revision) is not None:
        return
    due = finished + timedelta(seconds=seconds)
    if draft.now < due:
        draft.wait_until(due)
        return
    draft.note(
        "Expired",
        f"the job finished at {clock.text(finished)}; ttlSecondsAfterFinished is {seconds}: it is deleted",
    )
    draft.acts.append(actions.DeleteJob())


def _finished(draft: Draft) -> datetime:
    """When it finished: now, if the status does not say it, or says it by a clock that was ahead."""
    known = clock.parse(draft.status.get("completionTime"))
    if known is None or known > draft.now:
        draft.put("completionTime", clock.text(draft.now))
        return draft.now
    return known
