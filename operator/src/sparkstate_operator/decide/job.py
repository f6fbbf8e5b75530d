"""The decision about a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkstate_operator import actions, errors, kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import job_life, memory, revisions
from sparkstate_operator.decide import (
    deletion,
    failover,
    history,
    instructing,
    progress,
    rebuilding,
    recovering,
    refusing,
    reporting,
    starting,
    stopping,
    sweeping,
)
from sparkstate_operator.decide.draft import TERMINAL, Draft
from sparkstate_operator.model.base import ChangeKind
from sparkstate_operator.plan import Revision
from sparkstate_spec import built_in

_KEEPS_RUNNING = frozenset({None, ChangeKind.IGNORE})
_STOPS = ("upgrade", "suspend", "restart")
"""Intents that end an attempt."""


def decide(
    seen: observed.Observed,
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
    if seen.job.deleting_at is not None:
        deletion.go_on(draft, config)
        return reporting.finished(draft)
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
    _judge(draft)
    _step(draft)
    sweeping.sweep(draft, config.driver_role)
    _name_attempt(draft, config)
    draft.wait(config.resync_s)
    return reporting.finished(draft)


def _name_attempt(draft: Draft, config: Config) -> None:
    """Write down the name in storage of the attempt that starts now; until then the state lies under the older name.
    Also note that this object itself has run under the name, which a restored status does not say."""
    asked = any(isinstance(action, actions.StartAttempt) for action in draft.acts)
    if asked or (draft.intent.get("action") == "start" and not draft.status.get("cluster")):
        draft.put("cluster", kept_name.of_job(config, draft.job))
        draft.status["selector"] = labels.pods_of(draft.job.uid)


def _judge(draft: Draft) -> None:
    """Take note of a new generation: a valid one becomes what is wanted, an invalid one changes nothing."""
    job, status = draft.seen.job, draft.status
    new = status.get("observedGeneration") != job.generation
    if draft.wanted is None:
        status["observedGeneration"] = job.generation
        if new:
            draft.note("SpecInvalid", draft.invalid, warning=True)
        draft.wanted = draft.revision
        return
    if not new and draft.revision is not None:
        # Only a new generation asks for anything: another default of the chart, or of a newer operator, does not.
        draft.wanted = draft.revision
        if draft.intent.get("revision"):
            draft.wanted = draft.revisions.get(str(draft.intent["revision"]), draft.revision)
        elif again := refusing.due(draft):
            draft.wanted = again
        return
    if (status.get("refused") or {}).get("revision") != draft.wanted.name:
        status.pop("refused", None)
    draft.before.append(actions.CreateRevision(draft.wanted.name))
    status["observedGeneration"] = job.generation
    if draft.intent.get("action") in _STOPS:
        _aim_at(draft, draft.wanted)


def _aim_at(draft: Draft, wanted: Revision) -> None:
    """The spec has changed again while an attempt is being stopped: what follows is what is wanted now. It must be in
    the status, for the next look at this generation finds nothing new in it."""
    aimed = draft.revisions.get(str(draft.intent.get("revision") or ""), draft.revision)
    start = instructing.changed(draft, aimed, wanted)
    if start is None:
        return
    draft.put("start", start.document() or None)
    draft.status["intent"] = {**draft.intent, "revision": wanted.name}


def _step(draft: Draft) -> None:
    wanted = draft.wanted
    if wanted is None:
        draft.say(draft.invalid)
        return
    draft.put("memory", _memory(wanted) or draft.status.get("memory"))
    suspended = draft.seen.job.spec.get("state") == "suspended"
    action = draft.intent.get("action")
    if action == recovering.RECOVER:
        recovering.go_on(draft, wanted)
    elif action == "start":
        _starting(draft, suspended)
    elif action in _STOPS:
        _stopping(draft, wanted, str(action), suspended)
    elif suspended:
        _suspend(draft, wanted)
    elif draft.attempt == 0 or draft.phase == "Suspended":
        _first(draft, wanted)
    elif draft.revision is None or draft.revision.name != wanted.name:
        _change(draft, draft.revision, wanted)
    elif draft.phase not in TERMINAL:
        failover.watch(draft, wanted)
        history.keep(draft, wanted)
    else:
        history.keep(draft, wanted)


def _starting(draft: Draft, suspended: bool) -> None:
    if suspended and draft.pod is None:
        draft.settle()
        draft.begin("suspend", attempt=draft.attempt)
        draft.happened(job_life.TO_REST)
        return
    starting.go_on(draft)
    if draft.wanted is not None and draft.status.get("revision") != draft.wanted.name:
        # The spec has changed again, and what is made can no longer be changed: once it is, that is an upgrade of it.
        draft.put("observedGeneration", draft.seen.job.status.get("observedGeneration"))


def _first(draft: Draft, wanted: Revision) -> None:
    """Nothing runs, and something is to."""
    first = draft.attempt == 0
    start = (
        instructing.instruction(draft, wanted)
        if first
        else instructing.changed(draft, draft.revision, wanted)
    )
    if start is None:
        return
    if draft.phase == "Suspended":
        draft.note("Resumed", "the job goes on")
    starting.begin(draft, wanted, start)


def _change(draft: Draft, old: Revision | None, wanted: Revision) -> None:
    """The newest valid spec is not the one that runs."""
    change = revisions.change(old.resolved, wanted.resolved) if old is not None else None
    kinds = {revisions.kind_of(path) for path in change.paths if path != "state"} if change else set()
    strongest = max(kinds, key=list(ChangeKind).index, default=None)
    if change is not None and strongest in _KEEPS_RUNNING:
        draft.put("revision", wanted.name)
        draft.wait(0.0)
        return
    running = draft.pod is not None and draft.phase not in TERMINAL
    start = instructing.changed(draft, old, wanted)
    if start is None:
        return
    if not running:
        delay_s = starting.unconfirmed_s(draft, old or wanted)
        starting.begin(draft, wanted, start, delay_s=delay_s)
        return
    if draft.seen.refused and not refusing.fits_when_stopped(draft):
        refusing.note(draft, wanted)
        return
    draft.check = actions.StartAttempt(draft.attempt + 1, wanted.name, start)
    mode = draft.seen.job.spec.get("upgradeMode", built_in.value("upgradeMode"))
    named = strongest is ChangeKind.SAVEPOINT and start != draft.start
    # Whether anybody asked for this change cannot be told from a status that was lost.
    lost = not draft.seen.job.status.get("observedGeneration")
    if mode == "stateless" and not named and not lost:
        start = actions.Start(empty=True)
    draft.put("start", start.document() or None)
    full = (
        "; the quota has room for the new pod only when the old one has ended" if draft.seen.refused else ""
    )
    told = ", ".join(change.paths) if change else "the spec"
    draft.note("Upgrading", f"{told} changed; upgrade mode {mode}{full}")
    stopping.begin(draft, "upgrade", savepoint=mode == "savepoint", revision=wanted.name)


def _stopping(draft: Draft, wanted: Revision, action: str, suspended: bool) -> None:
    """An attempt is being stopped: once it is over, start the next one or rest."""
    running = draft.revision or wanted
    if not stopping.stopped(draft, running, running.savepoint_s):
        return
    draft.settle()
    if action == "suspend" and suspended:
        draft.happened(job_life.STOPPED)
        draft.say("")
        draft.note("Suspended", "the job rests, its state is kept")
        return
    starting.begin(draft, wanted, draft.start)


def _suspend(draft: Draft, wanted: Revision) -> None:
    if draft.phase in ("Suspended", "Finished"):
        return
    if draft.pod is None and (draft.attempt == 0 or draft.phase in TERMINAL):
        draft.happened(job_life.NOTHING_TO_STOP)
        return
    mode = draft.seen.job.spec.get("upgradeMode", built_in.value("upgradeMode"))
    draft.note("Suspending", f"the job is to rest; upgrade mode {mode}")
    stopping.begin(draft, "suspend", savepoint=mode == "savepoint")


def _memory(revision: Revision) -> dict[str, Any]:
    """The sum as the status shows it. Every field that has a default is written: the API server would add it, and the
    status would seem to differ at each look."""
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
