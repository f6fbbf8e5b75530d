"""The steps that a look at a job may take, and the rules that choose one of them."""

from __future__ import annotations

from collections.abc import Callable

from sparkstate_operator.core import job_life
from sparkstate_operator.decide import (
    failover,
    history,
    instructing,
    precedence,
    recovering,
    redirecting,
    removing,
    scheduling,
    starting,
    stopping,
    upgrading,
)
from sparkstate_operator.decide.draft import TERMINAL, Draft
from sparkstate_operator.plan import Revision
from sparkstate_spec import built_in

STOPS = ("upgrade", "suspend", "restart")
"""Intents that end an attempt."""
Step = Callable[[Draft, Revision], None]


def take(draft: Draft, wanted: Revision) -> None:
    """One step towards what is wanted."""
    step = precedence.first(STEPS, draft, wanted) or _watch
    step(draft, wanted)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _storage_is_asked(draft: Draft, _: Revision) -> Step | None:
    """First, because nothing else is known of the job: nothing may be decided before the storage has answered."""
    return recovering.go_on if draft.intent.get("action") == job_life.RECOVER else None


def _attempt_is_made(draft: Draft, _: Revision) -> Step | None:
    """Its number is taken, and a part of it may exist. A newer spec has to wait until it is there."""
    return _start if draft.intent.get("action") == "start" else None


def _attempt_is_stopped(draft: Draft, _: Revision) -> Step | None:
    """The driver has been asked to end, which cannot be taken back. The look after its end decides what follows."""
    return _stop if draft.intent.get("action") in STOPS else None


def _is_suspended(draft: Draft, _: Revision) -> Step | None:
    """Before every rule that would begin an attempt: a change to a suspended job waits until the job goes on."""
    return _suspend if _suspended(draft) else None


def _is_to_begin(draft: Draft, wanted: Revision) -> Step | None:
    """Before a change: if nothing runs, nothing has to be stopped for the change, and no dry run is needed."""
    rests = draft.attempt == 0 or draft.phase == "Suspended" or _waits_no_more(draft, wanted)
    return _first if rests else None


def _is_to_change(draft: Draft, wanted: Revision) -> Step | None:
    """Before the attempt's fate is looked at: if it has ended, the next one is of the new revision anyway. It is also
    the only way out of a phase in which the job waits for a person."""
    return upgrading.go_on if draft.revision is None or draft.revision.name != wanted.name else None


def _is_due_again(draft: Draft, wanted: Revision) -> Step | None:
    """Before the job rests: a time of its schedule has come."""
    return scheduling.run if scheduling.is_due(draft, wanted) else None


def _is_done(draft: Draft, _: Revision) -> Step | None:
    """A pod that may be left needs no care any more. The job's snapshots are still kept and let go."""
    return history.keep if draft.phase in TERMINAL else None


STEPS = (
    _storage_is_asked,
    _attempt_is_made,
    _attempt_is_stopped,
    _is_suspended,
    _is_to_begin,
    _is_to_change,
    _is_due_again,
    _is_done,
)
"""None of them: an attempt runs, and the operator watches it."""


def _suspended(draft: Draft) -> bool:
    """Whether the job is to rest. A spec that does not count resumes nothing: the old version would start, which was
    perhaps suspended for the damage that it did. One that cannot run stops nothing either."""
    asked = draft.is_asked_to_rest
    if draft.accepted:
        return asked
    return _rests(draft) or (asked and not (draft.invalid and _is_under_way(draft)))


def _waits_no_more(draft: Draft, wanted: Revision) -> bool:
    """Whether a job that waited for state (``instructing.wait_for``) is asked to start from it no more: the newest spec
    names the same state as the attempt before. No change may be left that would end the wait. A spec that does not
    count ends it no more than it resumes a suspended job."""
    job, old = draft.seen.job, draft.revision
    waits = draft.phase == "RestoreBlocked" and bool(draft.status.get("restorePending"))
    asked = draft.accepted and job.status.get("observedGeneration") != job.generation
    return waits and asked and old is not None and not instructing.is_changed(old, wanted)


def _rests(draft: Draft) -> bool:
    """Whether the job is suspended, or becomes so, by the last spec that counts."""
    aim = draft.revisions.get(str(draft.intent.get("revision") or ""))
    if aim is not None:
        return bool(aim.get("state") == "suspended")
    return draft.phase == "Suspended" or draft.intent.get("action") == "suspend"


def _is_under_way(draft: Draft) -> bool:
    """Whether an attempt runs, or is to. A job that starts without pod and intent has lost its status: nobody knows
    whether it was suspended."""
    lost = draft.phase == "Starting" and draft.pod is None and not draft.intent
    return draft.phase in ("Upgrading", *job_life.ATTEMPT) and not lost


# -- the steps ---------------------------------------------------------------------------------------------------------


def _watch(draft: Draft, wanted: Revision) -> None:
    failover.watch(draft, wanted)
    history.keep(draft, wanted)


def _start(draft: Draft, _: Revision) -> None:
    if _suspended(draft) and draft.pod is None:
        redirecting.go_back(draft)
        draft.end_act()
        draft.begin("suspend", attempt=draft.attempt)
        draft.happened(job_life.SUSPENDED)
        return
    starting.go_on(draft)
    if draft.wanted is not None and draft.status.get("revision") != draft.wanted.name:
        # The spec has changed again, and the attempt that is being made can no longer be changed. The generation counts
        # as not yet judged, so that the change becomes an upgrade once the attempt exists.
        draft.put("observedGeneration", draft.seen.job.status.get("observedGeneration"))


def _first(draft: Draft, wanted: Revision) -> None:
    """Nothing runs, and something is to."""
    first = draft.attempt == 0
    start = (
        instructing.instruction(draft, wanted)
        if first
        else instructing.changed(draft, draft.revision, wanted)
    )
    if isinstance(start, instructing.MissingState):
        instructing.wait_for(draft, start)
        return
    if draft.phase == "Suspended":
        draft.note("Resumed", "the job goes on")
    starting.begin_where_none_runs(draft, wanted, start)


def _stop(draft: Draft, wanted: Revision) -> None:
    """An attempt is being stopped: once it is over, start the next one, or leave the job suspended."""
    running = draft.revision or wanted
    if not stopping.stopped(draft, running, running.savepoint_s):
        return
    removing.give_up_number(draft)
    if _suspended(draft):
        redirecting.go_back(draft)
        draft.end_act()
        draft.happened(job_life.SUSPENDED)  # an upgrade or a restart gives way to it
        draft.happened(job_life.STOPPED)
        draft.say("")
        draft.note("Suspended", "the job is suspended, and its state is kept")
        return
    draft.end_act()
    starting.begin(draft, wanted, draft.start)


def _suspend(draft: Draft, _: Revision) -> None:
    if draft.phase in ("Suspended", "Finished"):
        return
    if draft.pod is None and (draft.attempt == 0 or draft.phase in TERMINAL):
        draft.happened(job_life.NOTHING_TO_STOP)
        return
    mode = draft.seen.job.spec.get("upgradeMode", built_in.value("upgradeMode"))
    draft.note("Suspending", f"the job is being suspended; upgrade mode {mode}")
    stopping.begin(draft, "suspend", savepoint=mode == "savepoint")
