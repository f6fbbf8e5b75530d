"""The trouble of an attempt that is not over, or of a command, as a reason and a message for ``Degraded``."""

from __future__ import annotations

from sparkstate_operator import observed
from sparkstate_operator.decide import backend_mismatch, precedence
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision

Trouble = tuple[str, str]
_UNHEARD = "DriverUnheard"
PULL_ERRORS = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})


def of(revision: Revision, pod: observed.Pod, report: observed.Report | None) -> Trouble | None:
    """The trouble that says most; None if all is well."""
    return precedence.first(TROUBLES, revision, pod, report)


def unheard(draft: Draft) -> Trouble | None:
    """The driver answers with what the operator does not take: the job runs, and nobody hears of its checkpoints. The
    first look that finds it records an Event."""
    if not draft.seen.unheard:
        return None
    told = f"the driver of attempt {draft.attempt} runs, and cannot be heard: {draft.seen.unheard}"
    known = [one.get("reason") for one in draft.seen.job.status.get("conditions") or ()]
    if _UNHEARD not in known:
        draft.note("DriverUnheard", told, warning=True)
    return _UNHEARD, told


def of_command(pod: observed.Pod) -> Trouble | None:
    """The cause that keeps the pod of an engine command from starting; None if nothing does."""
    return _unmade(pod, "command") or (("Unschedulable", pod.unschedulable) if pod.unschedulable else None)


def _unmade(pod: observed.Pod, whose: str) -> Trouble | None:
    if pod.waiting not in PULL_ERRORS and not pod.waiting.startswith("CreateContainer"):
        return None
    return pod.waiting, pod.waiting_message or f"the {whose}'s container waits: {pod.waiting}"


def _storage(_: Revision, _pod: observed.Pod, report: observed.Report | None) -> Trouble | None:
    """First, because the driver itself names the storage: nothing that the pod shows says more."""
    if report is None or not (report.phase == "PAUSED" or report.storage_away):
        return None
    paused = "the driver pauses until its storage is back" if report.phase == "PAUSED" else ""
    return "StorageUnavailable", "; ".join(filter(None, (paused, report.storage_away)))


def _container(_: Revision, pod: observed.Pod, _report: observed.Report | None) -> Trouble | None:
    """The driver's container cannot even be made. Mostly the spec is at fault, and a person has to help."""
    return _unmade(pod, "driver")


def _no_node(_: Revision, pod: observed.Pod, _report: observed.Report | None) -> Trouble | None:
    """No node takes the pod, so nothing of it can have gone wrong yet."""
    return ("Unschedulable", pod.unschedulable) if pod.unschedulable else None


def _lost_node(_: Revision, pod: observed.Pod, _report: observed.Report | None) -> Trouble | None:
    """Before the containers, whose states are as old as the node's last word."""
    told = f"node {pod.node} does not answer; nobody knows whether the driver runs"
    return ("NodeLost", told) if pod.node_lost else None


def _beside(_: Revision, pod: observed.Pod, _report: observed.Report | None) -> Trouble | None:
    """A sidecar or an init container has trouble. If the driver crashed as well, this may be why."""
    return pod.trouble


def _crash(_: Revision, pod: observed.Pod, _report: observed.Report | None) -> Trouble | None:
    """Late, because the kubelet already works on it."""
    told = "the driver crashed; the kubelet starts it again"
    return ("CrashLoopBackOff", told) if pod.waiting == "CrashLoopBackOff" else None


def _backend(revision: Revision, _: observed.Pod, report: observed.Report | None) -> Trouble | None:
    """Last, because the job runs: this warns of what may come."""
    return backend_mismatch.trouble(revision, report)


TROUBLES = (_storage, _container, _no_node, _lost_node, _beside, _crash, _backend)
