"""The decision about a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkstate_operator import actions, errors, kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import job_life, memory
from sparkstate_operator.decide import (
    checking,
    dating,
    deletion,
    expiring,
    instructing,
    job_steps,
    precedence,
    predecessors,
    progress,
    rebuilding,
    redirecting,
    refusing,
    reporting,
    scheduling,
    sweeping,
)
from sparkstate_operator.decide.draft import IDLE, Draft
from sparkstate_operator.plan import Revision

Step = Callable[[Draft], None]


def decide(
    seen: observed.ObservedState,
    revisions_: Mapping[str, Revision],
    wanted: Revision | None,
    invalid: str,
    config: Config,
) -> actions.Decision:
    """The next step for a job.

    ``revisions_``: those that the status names, by name. ``wanted``: what the spec comes to now, None with
    ``invalid`` saying why it cannot run.
    """
    draft = Draft(seen, {**revisions_, **({wanted.name: wanted} if wanted else {})}, wanted)
    draft.invalid = invalid
    rebuilding.fill(draft)
    dating.mend(draft)
    if seen.job.deleting_at is not None:
        deletion.go_on(draft, config)
        predecessors.remember(draft)
        # A job that we never held has no phase to report, and waits for its other holders alone. Reporting it ended
        # each look with a KeyError.
        return reporting.finished(draft) if draft.phase else draft.decision(seen.job.status)
    if (
        labels.FINALIZER not in seen.job.finalizers
        or seen.job.annotations.get(labels.MANAGER, "") != config.mark
    ):
        try:
            draft.before.append(actions.AddFinalizer(notes=kept_name.pin(config, draft.job)))
        except errors.SpecInvalid as error:
            draft.note(error.reason, str(error), warning=True)
            return draft.decision(seen.job.status)
    if not draft.phase:
        draft.happened(job_life.CREATED)
    progress.count_restarts(draft)
    step = precedence.first(SPECS, draft) or _accept
    step(draft)
    _step(draft)
    _leave_crash(draft)
    instructing.note_pending(draft, wanted)
    predecessors.remember(draft)
    sweeping.sweep(draft, config.driver_role)
    _name_attempt(draft, config)
    draft.wait(config.resync_s)
    return reporting.finished(draft)


def _leave_crash(draft: Draft) -> None:
    """A restart that the strategy did not allow ends the job in the look that counts it, unless that look has something
    else to do: a new version is being checked, or its pod was refused. Then the next look counts it."""
    before, pod = draft.seen.job.status, draft.pod
    goes_on = draft.attempt == before.get("attempt") and draft.phase not in IDLE
    stays = pod is not None and pod.deleting_at is None and draft.intent.get("action") not in job_steps.STOPS
    if draft.exhausted and goes_on and stays:
        told: Mapping[str, Any] = before.get("restarts") or {}
        counted = {name: told.get(name) for name in ("kubelet", "attemptKubelet", "recent")}
        progress.put_restarts(draft, {**(draft.status.get("restarts") or {}), **counted})


def _name_attempt(draft: Draft, config: Config) -> None:
    """Write down the name in storage of the attempt that starts now; until then the state lies under the older name.
    The selector says that this object has run under that name. A status from a backup has the selector of another
    object: a job that kept it was never pinned when it changed hands, and began empty."""
    asked = any(isinstance(action, actions.StartAttempt) for action in draft.acts)
    if asked or (draft.intent.get("action") == "start" and not draft.status.get("cluster")):
        draft.put("cluster", kept_name.of_job(config, draft.job))
        draft.status["selector"] = labels.pods_of(draft.job.uid)


# -- the spec: which step, in this order -------------------------------------------------------------------------------


def _is_invalid(draft: Draft) -> Step | None:
    """First: a spec that cannot run changes nothing, old or new."""
    return _keep_running if draft.wanted is None else None


def _is_refused(draft: Draft) -> Step | None:
    """Before it is accepted: nothing else was done in the look that tried to keep it. Without this, a quota that was
    full of revisions ended all care for the job that runs."""
    return _put_off if _is_new(draft) and draft.seen.unkept else None


def _is_known(draft: Draft) -> Step | None:
    """Only a new generation asks for a change. If a new default of the chart did, or one of a newer operator, an
    upgrade of the operator would restart every job."""
    return _go_on if not _is_new(draft) and draft.revision is not None else None


SPECS = (_is_invalid, _is_refused, _is_known)
"""None of them: the spec is accepted, and becomes what is wanted."""


def _is_new(draft: Draft) -> bool:
    return bool(draft.status.get("observedGeneration") != draft.seen.job.generation)


def _keep_running(draft: Draft) -> None:
    draft.accepted = False
    if _is_new(draft):
        draft.note("SpecInvalid", draft.invalid, warning=True)
        draft.status.pop("refused", None)  # that was an earlier spec, which nobody asks for any more
    if draft.intent.get("action") == job_life.CHECK:
        checking.end(draft)
    draft.status["observedGeneration"] = draft.seen.job.generation
    # An upgrade whose stop is under way goes on as it was asked for: the attempt cannot be kept any more, and the start
    # instruction in the status is that of its successor.
    draft.wanted = draft.aim


def _go_on(draft: Draft) -> None:
    if refusing.is_overtaken(draft):
        checking.end(draft)
    if draft.intent.get("revision"):
        draft.wanted = draft.aim
    else:
        draft.wanted = refusing.due(draft, checking.LONGEST_REFUSED_S) or draft.revision


def _put_off(draft: Draft) -> None:
    """The job goes on as it was, and the spec counts as not yet judged."""
    draft.accepted = False
    _go_on(draft)
    why = f"the API server refuses to keep the new spec as a ControllerRevision: {draft.seen.unkept}"
    draft.invalid = "" if draft.wanted is not None else why
    draft.degraded = ("UpgradeRefused", why)
    draft.wait(refusing.RETRY_S)


def _accept(draft: Draft) -> None:
    wanted = draft.wanted
    assert wanted is not None  # a spec that cannot run is never accepted
    if (draft.status.get("refused") or {}).get("revision") != wanted.name:
        draft.status.pop("refused", None)
    if draft.intent.get("revision") != wanted.name and draft.intent.get("action") == job_life.CHECK:
        checking.end(draft)
    draft.before.append(actions.CreateRevision(wanted.name))
    draft.status["observedGeneration"] = draft.seen.job.generation
    if draft.intent.get("action") in job_steps.STOPS:
        _aim_at(draft, wanted)


def _aim_at(draft: Draft, wanted: Revision) -> None:
    """The spec has changed again while an attempt is being stopped: the next attempt follows the newest spec. That has
    to be in the status, because the next look finds nothing new in this generation. The second of two changes, a second
    apart, was once forgotten here, and the job stayed with the first. If the state for the newest spec is not there,
    the one before it still follows: a job that does not run could never take the savepoint that it waits for. The
    one before it also follows if the newest spec could not begin: its driver would say so, with nothing running."""
    if draft.intent.get("revision") == wanted.name:
        return
    start = redirecting.start(draft, wanted)
    if isinstance(start, instructing.MissingState):
        instructing.put_off(draft, start)
        _keep_aim(draft)
        return
    if redirecting.refuse(draft, wanted, start):
        _keep_aim(draft)
        return
    draft.put("start", start.document() or None)
    draft.status["intent"] = {**draft.intent, "revision": wanted.name}


def _keep_aim(draft: Draft) -> None:
    """The newest spec does not start, so the one before it does. One that suspended the job was never judged, and gives
    no state up: a job that goes on after it goes on as it would had the stop been over, by the version that ran. While
    the job is to rest, that spec stays in the status, because one that does not count resumes nothing."""
    aim, is_to_run = draft.aim, draft.revision is not None and not draft.is_asked_to_rest
    if aim is not None and aim.get("state") == "suspended" and is_to_run:
        redirecting.go_back(draft)
        draft.status["intent"] = {**draft.intent, "revision": draft.status["revision"]}
    draft.wanted = draft.aim


def _step(draft: Draft) -> None:
    wanted = draft.wanted
    if wanted is None:
        draft.say(draft.invalid)
        return
    draft.put("memory", _memory(wanted) or draft.status.get("memory"))
    job_steps.take(draft, wanted)
    expiring.expire(draft, wanted)
    scheduling.rest(draft, wanted)


def _memory(revision: Revision) -> dict[str, Any]:
    """The sum as the status shows it. Every field with a default is written. If one were left out, the API server would
    add it, and the status would seem to differ at each look."""
    sums = memory.sums(revision.resolved)
    return {"total": progress.size(sums.memory_bytes), "pods": [_pod_memory(pod) for pod in sums.pods]}


def _pod_memory(pod: memory.PodSum) -> dict[str, Any]:
    storage = {} if pod.storage_bytes is None else {"storage": progress.size(pod.storage_bytes)}
    return {
        "name": pod.role,
        "count": pod.count,
        "total": progress.size(pod.memory_bytes),
        **storage,
        "items": [{"name": item.name, "size": progress.size(item.total)} for item in pod.items],
    }
