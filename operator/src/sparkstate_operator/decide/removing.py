"""The end of a job's deletion: what goes with the job, and what is told of the state that stays."""

from __future__ import annotations

from sparkstate_operator import actions, kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming, retention
from sparkstate_operator.decide.draft import Draft


def kept(draft: Draft) -> str:
    """The words on the state that stays."""
    state = draft.status.get("lastSavepoint") or draft.status.get("lastCheckpoint") or {}
    return (
        f"the state stays in storage ({state['uri']})"
        if state.get("uri")
        else "everything in storage stays there"
    )


def tell_name(draft: Draft, config: Config) -> None:
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


def delete_pods(draft: Draft) -> None:
    """Every pod that nobody has asked to end."""
    pods = (*draft.seen.drivers, *draft.seen.executors)
    draft.acts.extend(actions.DeletePod(pod, "the job is deleted") for pod in pods if pod.deleting_at is None)


def remove_all(draft: Draft, *, purged: bool) -> None:
    """Every child, and the finalizer last: with the finalizer the job is gone, and children
    left then belong to nobody."""
    seen = draft.seen
    delete_pods(draft)
    draft.acts.extend(actions.DeleteCommand(command) for command in seen.commands)
    if purged:
        _delete(draft, _left(draft))
    draft.acts.extend(actions.DeleteAttempt(child) for child in seen.config_maps)
    draft.acts.extend(_secret_alone(draft))
    draft.acts.extend(actions.DeleteChild(child) for child in seen.children or ())
    draft.acts.extend(actions.DeleteRevision(child) for child in seen.revisions)
    draft.acts.append(actions.RemoveFinalizer())


def too_many_snapshots(draft: Draft) -> bool:
    """Whether more of the job's snapshots are left than may be deleted beside those that are being deleted."""
    return len(_left(draft)) > _room(draft)


def delete_some_snapshots(draft: Draft) -> None:
    """The oldest of the job's snapshots, as many as retention would delete at once: each may need a Job with a pod."""
    _delete(draft, _left(draft)[: _room(draft)])


def _delete(draft: Draft, snapshots: list[observed.Snapshot]) -> None:
    draft.acts.extend(actions.DeleteSnapshot(one, "the job is purged") for one in snapshots)


def _own(draft: Draft) -> list[observed.Snapshot]:
    return [one for one in draft.seen.snapshots if one.labels.get(labels.JOB_UID) == draft.seen.job.uid]


def _left(draft: Draft) -> list[observed.Snapshot]:
    left = [one for one in _own(draft) if one.deleting_at is None]
    return sorted(left, key=lambda one: (one.created, one.name))


def _room(draft: Draft) -> int:
    begun = [one.deleting_at for one in _own(draft) if one.deleting_at is not None]
    return retention.room(begun, draft.now)


def give_up_number(draft: Draft) -> None:
    """Before the status names another attempt, or none that runs: delete the Secret of an attempt of which nothing else
    was made. It goes before the status is written, because afterwards nothing leads to it."""
    if draft.pod is None:
        draft.before.extend(_secret_alone(draft))


def _secret_alone(draft: Draft) -> list[actions.DeleteSecret]:
    """The Secret is made before the ConfigMap. Where a quota or a webhook refused the latter, or the operator ended
    between the two, nothing but the status leads to the Secret, and nobody lists Secrets. The look must have read the
    ConfigMaps, as one does while there is an act under way."""
    attempt = draft.attempt
    traced = any(child.attempt == attempt for child in draft.seen.config_maps)
    return [actions.DeleteSecret(attempt)] if 0 < attempt <= naming.MAX_ATTEMPT and not traced else []
