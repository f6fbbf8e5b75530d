"""Deletion of a job: by its policy as long as that is possible, and always over by its deadline.

The finalizer holds the job. The job owns nothing that a last savepoint needs, so a foreground deletion cannot take the
driver away first. In a namespace that is being deleted nothing can be created, and pods go by themselves: the policy is
then ``retain``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sparkstate_operator import actions, kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import job_life, naming
from sparkstate_operator.decide import commanding, precedence, starting, stopping
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision
from sparkstate_spec import built_in, units

Step = Callable[[Draft, Config], None]
POLL_S = 2.0
PURGE = "purge"
DEADLINE = built_in.value("deletion.deadline")
MARGIN_S = 2.0


def go_on(draft: Draft, config: Config) -> None:
    """The next step of a deletion."""
    if labels.FINALIZER not in draft.seen.job.finalizers:
        return
    draft.happened(job_life.DELETED)
    step = precedence.first(STEPS, draft) or _end
    step(draft, config)


def overdue(seen: observed.ObservedState) -> bool:
    """Whether a deletion's deadline has passed, by the spec alone."""
    begun = seen.job.deleting_at
    told = (seen.job.spec.get("deletion") or {}).get("deadline") or DEADLINE
    return begun is not None and seen.now >= begun + timedelta(seconds=units.duration_s(str(told)))


def by_force(seen: observed.ObservedState, config: Config, why: str) -> actions.Decision:
    """The end of a deletion whose deadline passed while no decision could be made. The job goes with its status as it
    is.

    Without this, a status or spec that a decision trips over would hold the object, and its namespace, for ever.
    """
    draft = Draft(seen, {}, None)
    told = f"the deletion's deadline passed, and no decision was possible ({why}): {_kept(draft)}"
    draft.note("DeletionDegraded", told, warning=True)
    _tell_name(draft, config)
    _remove_all(draft)
    return draft.decision(seen.job.status)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _is_not_begun(draft: Draft) -> Step | None:
    """The policy that counts is written down before anything is done by it: the spec may be changed meanwhile."""
    return _begin if draft.intent.get("action") != "delete" else None


def _is_late(draft: Draft) -> Step | None:
    """Before whatever is left to be done: what it waits for may never come, and the job's namespace waits as well."""
    return _give_up if draft.now >= _deadline(draft) else None


def _attempt_may_write(draft: Draft) -> Step | None:
    """Before the data is deleted: a driver that lives writes more. With ``savepoint`` it is given the time for that
    before its pod is deleted as all others are."""
    revision = _of_attempt(draft)
    return _stop if revision is not None and not stopping.is_over(draft, revision) else None


def _data_is_there(draft: Draft) -> Step | None:
    """While the job is there: the command belongs to it. In a namespace that is being deleted none can be made."""
    if draft.intent.get("policy") != PURGE or draft.seen.namespace_terminating or _of_attempt(draft) is None:
        return None
    return None if _stage(draft, _command(draft)) is Stage.DONE else _purge


def _driver_may_live(draft: Draft) -> Step | None:
    """Last, for it knows no policy: of a driver whose revision nobody knows (its object is gone, and the spec is wrong)
    only the end can be asked for and waited for."""
    revision = draft.revision or draft.wanted
    alive = (pod for pod in draft.seen.drivers if pod.death is not Death.CONFIRMED)
    dangerous = any(
        pod.deleting_at is None or revision is None or draft.now < starting.harmless_at(pod, revision)
        for pod in alive
    )
    return _clear if dangerous else None


STEPS = (_is_not_begun, _is_late, _attempt_may_write, _data_is_there, _driver_may_live)
"""None of them: the policy is done, and the job goes."""


def _of_attempt(draft: Draft) -> Revision | None:
    """The revision by which the newest attempt is judged. None where there was no attempt, or its revision is not
    known: no policy can be carried out then."""
    return (draft.revision or draft.wanted) if draft.attempt else None


# -- the steps ---------------------------------------------------------------------------------------------------------


def _begin(draft: Draft, _: Config) -> None:
    policy = _told(draft, "policy")
    if draft.seen.namespace_terminating and policy != "retain":
        draft.note(
            "DeletionDegraded",
            f"the namespace is being deleted, so policy {policy} is not possible: {_kept(draft)}",
            warning=True,
        )
        policy = "retain"
    if policy == PURGE and draft.attempt == 0 and not draft.seen.job.status.get("phase"):
        told = "the status was lost, and no attempt has left a trace: everything in storage stays there"
        draft.note("DeletionDegraded", told, warning=True)
    stopping.begin(draft, "delete", savepoint=policy == "savepoint")
    draft.status["intent"]["policy"] = policy


def _give_up(draft: Draft, config: Config) -> None:
    draft.note("DeletionDegraded", f"the deletion's deadline passed: {_kept(draft)}", warning=True)
    _tell_name(draft, config)
    _remove_all(draft)


def _stop(draft: Draft, _: Config) -> None:
    _end_attempt(draft)
    draft.wait_until(_deadline(draft))


def _purge(draft: Draft, _: Config) -> None:
    """The engine deletes what the lineage has in storage."""
    _end_attempt(draft)
    task, revision = _command(draft), draft.revision or draft.wanted
    stage = _stage(draft, task)
    if stage is Stage.MISSING and revision is not None:
        draft.acts.append(actions.EnsureChildren(revision.name))
        draft.acts.append(actions.CreateTask(_command_name(draft), PURGE, (PURGE, "--json")))
    elif stage is Stage.DUE and task is not None:
        draft.acts.append(actions.DeleteTask(task))
    elif stage is Stage.PAUSES and task is not None:
        why = f"the data could not be deleted: {commanding.why(task)}; the operator tries again until the deadline"
        draft.say(why)
        draft.note("PurgeFailed", why, warning=True)
    draft.wait(POLL_S)
    draft.wait_until(_deadline(draft))


def _clear(draft: Draft, _: Config) -> None:
    """Every pod is asked to end."""
    _end_attempt(draft)
    _delete_pods(draft)
    draft.wait(POLL_S)
    draft.wait_until(_deadline(draft))


def _end(draft: Draft, config: Config) -> None:
    _end_attempt(draft)
    if draft.intent.get("policy") != PURGE:
        _tell_name(draft, config)
    _remove_all(draft)


# -- what steps have in common -----------------------------------------------------------------------------------------


def _end_attempt(draft: Draft) -> None:
    """What brings the newest attempt's end nearer. In the steps after its end: its last word, which may name a
    savepoint."""
    revision = _of_attempt(draft)
    if revision is not None:
        left_s = (_deadline(draft) - draft.now).total_seconds() - MARGIN_S
        stopping.go_on(draft, revision, max(0.0, draft.since() + left_s))


def _command_name(draft: Draft) -> str:
    return naming.command_job(draft.seen.job.name, draft.seen.job.uid, PURGE)


def _command(draft: Draft) -> observed.Task | None:
    return draft.seen.task(_command_name(draft))


def _stage(draft: Draft, task: observed.Task | None) -> Stage:
    return commanding.stage(task, draft.seen.job.deleting_at or draft.now, draft.now)


def _told(draft: Draft, name: str) -> str:
    """A field of ``deletion``: the spec's value of now, otherwise that of the running revision."""
    revision = draft.revision or draft.wanted
    told = (draft.seen.job.spec.get("deletion") or {}).get(name)
    return str(
        told or (revision.get(f"deletion.{name}") if revision else None) or built_in.value(f"deletion.{name}")
    )


def _deadline(draft: Draft) -> datetime:
    begun = draft.seen.job.deleting_at or draft.now
    return begun + timedelta(seconds=units.duration_s(_told(draft, "deadline")))


def _kept(draft: Draft) -> str:
    state = draft.status.get("lastSavepoint") or draft.status.get("lastCheckpoint") or {}
    return (
        f"the state stays in storage ({state['uri']})"
        if state.get("uri")
        else "everything in storage stays there"
    )


def _tell_name(draft: Draft, config: Config) -> None:
    """Write an Event about the name under which the state lies, if that differs from the operator's. The next job of
    this name is another object: it knows nothing of that name, and would begin empty without a word."""
    name = kept_name.of_state(config, draft.job)
    if draft.attempt == 0 or name == config.cluster:
        return
    pin = f"the annotation {labels.CLUSTER_KEPT}: {kept_name.pinned(config, draft.job, name)}, or "
    told = (
        f"the state stays under the cluster's name {name}, and a new job of this name begins under {config.cluster}, "
        f"without it. To go on from it, create the job with {pin if config.cluster_id else ''}restoreFrom"
    )
    draft.note("StateUnderOtherName", told, warning=True)


def _delete_pods(draft: Draft) -> None:
    pods = (*draft.seen.drivers, *draft.seen.executors)
    draft.acts.extend(actions.DeletePod(pod, "the job is deleted") for pod in pods if pod.deleting_at is None)


def _remove_all(draft: Draft) -> None:
    """Every child, and the finalizer last: with the finalizer the job is gone, and children
    left then belong to nobody."""
    seen = draft.seen
    _delete_pods(draft)
    draft.acts.extend(actions.DeleteTask(task) for task in seen.tasks)
    if draft.intent.get("policy") == PURGE:
        own = (one for one in seen.snapshots if one.labels.get(labels.JOB_UID) == seen.job.uid)
        draft.acts.extend(
            actions.DeleteSnapshot(one, "the job is purged") for one in own if one.deleting_at is None
        )
    draft.acts.extend(actions.DeleteAttempt(child) for child in seen.config_maps)
    draft.acts.extend(actions.DeleteChild(child) for child in seen.children or ())
    draft.acts.extend(actions.DeleteRevision(child) for child in seen.revisions)
    draft.acts.append(actions.RemoveFinalizer())
