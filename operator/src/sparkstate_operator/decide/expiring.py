"""A job that has finished goes after the time that its spec gives, as a Kubernetes Job does.

A job that runs again by a schedule stays. So does one that has failed, because a person has to look at it: with
``deletion.policy: purge`` its state would go before anybody has. And so does one whose newest spec has not run.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sparkstate_operator import actions, clock
from sparkstate_operator.core import revisions
from sparkstate_operator.decide import redirecting, scheduling
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision


def expire(draft: Draft, revision: Revision) -> None:
    """Write down when the run ended, and delete a job that has finished once its time is over. Last of all steps,
    because it goes by the phase that they lead to."""
    if draft.phase not in scheduling.RESTS:
        draft.put("completionTime", None)
        return
    ended = _ended(draft)
    seconds = revision.get("ttlSecondsAfterFinished")
    if seconds is None or draft.phase != "Finished" or scheduling.plan(draft, revision) is not None:
        return
    if _is_outdated(draft):
        return
    due = ended + timedelta(seconds=seconds)
    if draft.now < due:
        draft.wait_until(due)
        return
    draft.note(
        "Expired",
        f"the job finished at {clock.text(ended)}; ttlSecondsAfterFinished is {seconds}: it is deleted",
    )
    draft.acts.append(actions.DeleteJob())


def _ended(draft: Draft) -> datetime:
    """When the run ended: now, if the status does not say it, or says it by a clock that was ahead."""
    known = clock.parse(draft.status.get("completionTime"))
    if known is None or clock.is_ahead(known, draft.now):
        draft.put("completionTime", clock.text(draft.now))
        return draft.now
    return known


def _is_outdated(draft: Draft) -> bool:
    """Whether its user has asked for something that has not run: the newest spec cannot run, or is not judged yet, or
    is refused, or waits because the job is suspended. The object would go with that spec, and with ``purge`` the state
    that the spec goes on from."""
    unjudged = draft.status.get("observedGeneration") != draft.seen.job.generation
    refused = (draft.status.get("refused") or {}).get("revision")
    return (
        bool(draft.invalid)
        or unjudged
        or refused not in (None, draft.status.get("revision"))
        or _waits(draft)
    )


def _waits(draft: Draft) -> bool:
    """Whether the newest spec needs an attempt that a suspended job does not get."""
    ran, newest = draft.revision, draft.newest
    if draft.job.spec.get("state") != "suspended" or ran is None or newest is None:
        return False
    changed = revisions.change(ran.resolved, newest.resolved)
    return revisions.strongest(changed.paths) not in redirecting.KEEPS_RUNNING
