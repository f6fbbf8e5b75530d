"""Deletion of a job: by its policy while that can be done, and always over by its deadline.

The finalizer holds the job; nothing that a last savepoint needs is owned by it, so a foreground deletion cannot take
the driver away first. In a namespace that is being deleted nothing can be created, and pods go by themselves: the
policy is then ``retain``.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sparkstate_operator import actions, kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import job_life, naming
from sparkstate_operator.decide import commanding, starting, stopping
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision
from sparkstate_spec import built_in, units

POLL_S = 2.0
PURGE = "purge"
DEADLINE = built_in.value("deletion.deadline")
MARGIN_S = 2.0


def go_on(draft: Draft, config: Config) -> None:
    """The next step of a deletion."""
    if labels.FINALIZER not in draft.seen.job.finalizers:
        return
    draft.happened(job_life.DELETED)
    if draft.intent.get("action") != "delete":
        _begin(draft)
        return
    late = draft.now >= _deadline(draft)
    if not late and not (_policy_is_done(draft) and _pods_are_gone(draft)):
        draft.wait_until(_deadline(draft))
        return
    if late:
        draft.note("DeletionDegraded", f"the deletion's deadline passed: {_kept(draft)}", warning=True)
    if late or draft.intent.get("policy") != PURGE:
        _tell_name(draft, config)
    _remove_all(draft)


def overdue(seen: observed.Observed) -> bool:
    """Whether a deletion's deadline has passed, by the spec alone."""
    begun = seen.job.deleting_at
    told = (seen.job.spec.get("deletion") or {}).get("deadline") or DEADLINE
    return begun is not None and seen.now >= begun + timedelta(seconds=units.duration_s(str(told)))


def by_force(seen: observed.Observed, config: Config, why: str) -> actions.Decision:
    """The end of a deletion whose deadline passed while nothing could be decided: the job goes, its status as it is."""
    draft = Draft(seen, {}, None)
    told = f"the deletion's deadline passed, and no decision was possible ({why}): {_kept(draft)}"
    draft.note("DeletionDegraded", told, warning=True)
    _tell_name(draft, config)
    _remove_all(draft)
    return draft.decision(seen.job.status)


def _begin(draft: Draft) -> None:
    policy = _told(draft, "policy")
    if draft.seen.namespace_terminating and policy != "retain":
        draft.note(
            "DeletionDegraded",
            f"the namespace is being deleted, so policy {policy} is not possible: {_kept(draft)}",
            warning=True,
        )
        policy = "retain"
    if policy == PURGE and draft.attempt == 0 and not draft.seen.job.status.get("phase"):
        told = "the status was lost, and nothing is left of an attempt: what is in storage stays there"
        draft.note("DeletionDegraded", told, warning=True)
    stopping.begin(draft, "delete", savepoint=policy == "savepoint")
    draft.status["intent"]["policy"] = policy


def _told(draft: Draft, name: str) -> str:
    """A field of ``deletion``: as the spec says now, else as the revision that runs was resolved."""
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
        else "what is in storage stays there"
    )


def _tell_name(draft: Draft, config: Config) -> None:
    """The next job of this name is another object: it knows nothing of the name that this one's state lies under, and
    would begin empty without a word."""
    name = kept_name.of_state(config, draft.job)
    if draft.attempt == 0 or name == config.cluster:
        return
    pin = f"the annotation {labels.CLUSTER_KEPT}: {kept_name.pinned(config, draft.job, name)}, or "
    told = (
        f"the state stays under the cluster's name {name}, and a new job of this name begins under {config.cluster}, "
        f"without it. To go on from it, create the job with {pin if config.cluster_id else ''}restoreFrom"
    )
    draft.note("StateUnderOtherName", told, warning=True)


def _policy_is_done(draft: Draft) -> bool:
    """Whether the policy has nothing more to do; with ``savepoint`` the driver has ended."""
    policy = draft.intent.get("policy")
    revision = draft.revision or draft.wanted
    if revision is None or draft.attempt == 0:
        return True
    left_s = (_deadline(draft) - draft.now).total_seconds() - MARGIN_S
    if not stopping.stopped(draft, revision, max(0.0, draft.since() + left_s)):
        return False
    return policy != PURGE or draft.seen.namespace_terminating or _purged(draft, revision)


def _purged(draft: Draft, revision: Revision) -> bool:
    """Whether the engine has deleted what the lineage has in storage. Its driver is dead by now."""
    name = naming.command_job(draft.seen.job.name, draft.seen.job.uid, PURGE)
    task = draft.seen.task(name)
    begun = draft.seen.job.deleting_at or draft.now
    stage = commanding.stage(task, begun, draft.now)
    draft.wait(POLL_S)
    if stage is Stage.MISSING:
        draft.acts.append(actions.EnsureChildren(revision.name))
        draft.acts.append(actions.CreateTask(name, PURGE, (PURGE, "--json")))
    elif stage is Stage.DUE and task is not None:
        draft.acts.append(actions.DeleteTask(task))
    elif stage is Stage.PAUSES and task is not None:
        why = f"the data could not be deleted: {commanding.why(task)}; it is tried again until the deadline"
        draft.say(why)
        draft.note("PurgeFailed", why, warning=True)
    return stage is Stage.DONE


def _pods_are_gone(draft: Draft) -> bool:
    """Whether no pod of the job can do anything any more; asks those that can to end."""
    for pod in (*draft.seen.drivers, *draft.seen.executors):
        if pod.deleting_at is None:
            draft.acts.append(actions.DeletePod(pod, "the job is deleted"))
    revision = draft.revision or draft.wanted
    for pod in draft.seen.drivers:
        if pod.death is Death.CONFIRMED:
            continue
        if pod.deleting_at is None or revision is None or draft.now < starting.harmless_at(pod, revision):
            draft.wait(POLL_S)
            return False
    return True


def _remove_all(draft: Draft) -> None:
    """Every child, then the finalizer: with it the job is gone."""
    seen = draft.seen
    done = {action.pod.uid for action in draft.acts if isinstance(action, actions.DeletePod)}
    for pod in (*seen.drivers, *seen.executors):
        if pod.deleting_at is None and pod.uid not in done:
            draft.acts.append(actions.DeletePod(pod, "the job is deleted"))
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
