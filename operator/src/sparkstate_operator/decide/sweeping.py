"""Removes objects of attempts that are over, and objects that belong to nobody."""

from __future__ import annotations

from sparkstate_operator import actions, observed
from sparkstate_operator.config import DriverRole
from sparkstate_operator.core import job_life, naming
from sparkstate_operator.decide import unconfirmed
from sparkstate_operator.decide.draft import TERMINAL, Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision

KEPT_REVISIONS = 10


def sweep(draft: Draft, role: DriverRole) -> None:
    """Executors of a driver, or of a life of it, that is over; pods that a sidecar keeps after their driver's end, or
    that are alive after the job's; Secret and ConfigMap of older attempts whose drivers have ended; revisions without
    a name in the status.

    The ConfigMap of the newest attempt that may have lived stays: its trace keeps the number from being used again.
    ``role``: of drivers with executors.
    """
    _executors(draft)
    _attempts(draft)
    for pod in draft.seen.drivers:
        if pod.lingers:
            # Nothing is lost with the pod: its driver's last word is in the status, which is written before this act.
            draft.acts.append(actions.DeletePod(pod, "its driver has ended, and other containers run on"))
        elif _outlives_job(draft, pod):
            draft.acts.append(actions.DeletePod(pod, f"the job has ended ({draft.phase})"))
        elif (
            pod.attempt < draft.attempt
            and pod.death is Death.CONFIRMED
            and pod.deleting_at is None
            and draft.intent.get("action") != "start"
        ):
            draft.acts.append(actions.DeletePod(pod, "a newer attempt runs"))
    _revisions(draft)
    _standing(draft, role)
    _checks(draft)


def _attempts(draft: Draft) -> None:
    """Those of a number that is given up, because its pod was refused, go before the status is written. Only this
    process knows that nothing ran under it, and forgets that when it is started again, or when another number is
    refused. Left behind, they would count as those of an attempt that has lived, and a ``restoreFrom`` or
    ``startEmpty`` that was taken back in time would count again."""
    seen, given_up = draft.seen, draft.intent.get("action") != "start"
    newest = max((one.attempt or 0 for one in seen.config_maps if one.attempt != seen.never_made), default=0)
    needed = {pod.attempt for pod in seen.drivers} | unconfirmed.attempts(draft)
    for child in seen.config_maps:
        if child.attempt is None or child.attempt in needed:
            continue
        if child.attempt < newest:
            draft.acts.append(actions.DeleteAttempt(child))
        elif seen.never_had_pod(child.attempt) and (given_up or child.attempt < draft.attempt):
            draft.before.append(actions.DeleteAttempt(child))


def _outlives_job(draft: Draft, pod: observed.Pod) -> bool:
    """Whether the kubelet would start a driver again that must not run. The decision that ended the job deleted the
    pod, but that act may not have been carried out, and nothing else repeats it."""
    is_over = draft.phase in TERMINAL and not draft.intent
    return is_over and pod.deleting_at is None and pod.death is not Death.CONFIRMED


def _executors(draft: Draft) -> None:
    """A driver that the kubelet starts again makes new executors, and knows nothing of the earlier ones. They
    would stay, with their memory. The pods themselves say which life is the newest: until it has a pod, the older
    ones are in nobody's way."""
    alive = {pod.attempt for pod in draft.seen.drivers if pod.death is Death.ALIVE}
    newest: dict[int, int] = {}
    for pod in draft.seen.executors:
        newest[pod.attempt] = max(pod.life, newest.get(pod.attempt, 0))
    for pod in draft.seen.executors:
        if pod.deleting_at is not None:
            continue
        if pod.attempt not in alive:
            draft.acts.append(actions.DeletePod(pod, f"its driver, attempt {pod.attempt}, is gone"))
        elif 0 < pod.life < newest[pod.attempt]:
            draft.acts.append(actions.DeletePod(pod, f"life {pod.life} of its driver is over"))


def _checks(draft: Draft) -> None:
    """Checks of new versions that nobody waits for any more."""
    if draft.intent.get("action") == job_life.CHECK:
        return
    gone = [action.command.name for action in draft.acts if isinstance(action, actions.DeleteCommand)]
    draft.acts.extend(
        actions.DeleteCommand(command)
        for command in draft.seen.commands
        if command.does == job_life.CHECK and command.name not in gone
    )


def _standing(draft: Draft, role: DriverRole) -> None:
    """Now and then, bring back children that were changed or deleted, and delete those that are not wanted any more.
    The new rights of a driver come before the old ones go, so that a running driver is never without rights."""
    revision, children = draft.revision, draft.seen.children
    if children is None or revision is None or draft.pod is None:
        return
    if not any(isinstance(action, actions.EnsureChildren) for action in draft.acts):
        draft.acts.append(actions.EnsureChildren(revision.name))
    draft.acts.extend(
        actions.DeleteChild(child, replaced=revision.cluster and child.kind in ("Role", "RoleBinding"))
        for child in children
        if not _is_wanted(child, draft.seen.job, revision, role)
    )


def _is_wanted(child: observed.Child, job: observed.Job, revision: Revision, role: DriverRole) -> bool:
    match child.kind:
        case "ServiceAccount":
            return revision.service_account is None
        case "RoleBinding":
            return revision.cluster and child.name == naming.role_binding(job.name, role.kind, role.name)
        case "Role":
            return False  # an older operator made one for each job
        case _:
            return True


def _revisions(draft: Draft) -> None:
    refused = draft.status.get("refused") or {}
    named = {str(one.get("revision")) for one in (draft.status, draft.intent, refused)} | {
        pod.revision for pod in draft.seen.drivers
    }
    if draft.wanted is not None:
        named.add(draft.wanted.name)
    spare = [child for child in draft.seen.revisions if child.name not in named]
    spare.sort(key=lambda child: int(child.body.get("revision", 0)), reverse=True)
    draft.acts.extend(actions.DeleteRevision(child) for child in spare[KEPT_REVISIONS:])
