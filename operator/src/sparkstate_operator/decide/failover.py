"""The fate of the running attempt, and what follows.

One owner and one counter per class of failure: the engine restarts what fails within a driver, the kubelet a
container that crashed, the operator everything else, by a new attempt. A driver's last word
(termination message, exit code) decides; a pod that vanished says nothing, and is replaced only after its driver can do
no more harm.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkstate_operator import actions, observed
from sparkstate_operator.core import job_life, transitions
from sparkstate_operator.decide import (
    ends,
    last_words,
    precedence,
    predecessors,
    progress,
    restarts,
    troubles,
    unconfirmed,
)
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision

Step = Callable[[Draft, Revision, observed.Pod], None]
STARTING_S = 5.0
"""While a job starts its driver is asked this often, with a look at the whole job."""


def watch(draft: Draft, revision: Revision) -> None:
    """There is no intent: the attempt should run, or has ended."""
    pod = draft.pod
    if pod is None:
        _without_pod(draft, revision)
        return
    step = precedence.first(WATCHED, draft, revision, pod) or _live
    step(draft, revision, pod)


def listen(draft: Draft, revision: Revision) -> None:
    """The same for an attempt that lives. One that ends is left to other steps."""
    pod = draft.pod
    if pod is not None and precedence.first(WATCHED, draft, revision, pod) is None:
        _live(draft, revision, pod)


def _without_pod(draft: Draft, revision: Revision) -> None:
    """The pod's object is gone: what was last seen of it tells its end, or nobody does."""
    last = draft.seen.sightings.get(draft.attempt)
    step = precedence.first(GONE, last) if last is not None else None
    if last is None or step is None:
        _replace_lost(draft, revision)
    else:
        step(draft, revision, last)


# -- a pod that is there: which step, in this order --------------------------------------------------------------------


def _left_no_word(_: Draft, _revision: Revision, pod: observed.Pod) -> Step | None:
    """First, with the next rule: its end is known, and counts more than a deletion that began before or after it.
    Without a word of the container, its node's reason is all that tells the end."""
    return _replace_wordless if pod.over and pod.ended is None else None


def _is_over(_: Draft, _revision: Revision, pod: observed.Pod) -> Step | None:
    """Its last word decides."""
    return _judge_end if pod.over else None


def _ends_in_time(_: Draft, _revision: Revision, pod: observed.Pod) -> Step | None:
    """Before the other rules about a pod that is taken away. Its node answers for it, so its successor can
    begin beside it."""
    return _judge_taken_away if pod.terminating_gracefully else None


def _may_still_write(draft: Draft, revision: Revision, pod: observed.Pod) -> Step | None:
    """Before it is given up: nobody knows whether its process has ended, so the time has to tell."""
    taken_away = pod.deleting_at is not None
    return _wait_for_end if taken_away and draft.now < predecessors.harmless_at(pod, revision) else None


def _is_cut_off(_: Draft, _revision: Revision, pod: observed.Pod) -> Step | None:
    """After its time. It will not stay, whatever its container does meanwhile."""
    return _replace_cut_off if pod.deleting_at is not None else None


def _does_not_come_back(draft: Draft, revision: Revision, pod: observed.Pod) -> Step | None:
    """The kubelet would start again what must not run again, or starts it later than the job's own strategy would."""
    return _give_up_pod if _final(pod) or _crash_loops(draft, revision, pod) else None


def _came_back_once_too_often(draft: Draft, _revision: Revision, _pod: observed.Pod) -> Step | None:
    """Last, for it runs again. The kubelet knows nothing of the job's restart strategy. It starts a container at once
    that ran for ten minutes before it crashed, and no pause tells then that no restart was left."""
    return _give_up_job if draft.exhausted else None


WATCHED = (
    _left_no_word,
    _is_over,
    _ends_in_time,
    _may_still_write,
    _is_cut_off,
    _does_not_come_back,
    _came_back_once_too_often,
)
"""None of them: it lives."""


def _final(pod: observed.Pod) -> bool:
    """Whether the container's newest end is one that the kubelet should not answer by starting it again."""
    return pod.crash is not None and pod.crash.exit_code != 0 and last_words.is_final(pod.crash)


def _crash_loops(draft: Draft, revision: Revision, pod: observed.Pod) -> bool:
    if pod.waiting != "CrashLoopBackOff":
        return False
    failures = restarts.failures_of(draft.status.get("restarts") or {})
    return restarts.kubelet_is_too_slow(revision, pod.restarts, failures, draft.now)


# -- a pod that is gone: which step, in this order ---------------------------------------------------------------------


def _was_seen_to_end(last: observed.Pod) -> Step | None:
    """First, because its last word decides, as if the pod were there."""
    return _judge_end if last.death is Death.CONFIRMED and last.ended is not None else None


def _never_ran(last: observed.Pod) -> Step | None:
    """It had no node, so there is no word, and nothing to wait for."""
    return _judge_unplaced if last.death is Death.CONFIRMED else None


GONE = (_was_seen_to_end, _never_ran)
"""None of them: nobody has confirmed that its process ended."""


# -- a driver that lives: which cause, in this order -------------------------------------------------------------------


def _works(pod: observed.Pod, report: observed.Report | None) -> transitions.Cause | None:
    """First, because the driver's own word counts more than what its container shows. A container that crashes again
    and again does not run, whatever it said before."""
    return job_life.RUNS if _runs(pod, report) and pod.waiting != "CrashLoopBackOff" else None


def _recovers(_: observed.Pod, report: observed.Report | None) -> transitions.Cause | None:
    """The driver says so itself."""
    return job_life.RECOVERS if report is not None and report.phase == "RECOVERING" else None


def _waits(pod: observed.Pod, _: observed.Report | None) -> transitions.Cause | None:
    """Last: no driver answers, and its container tells why."""
    return job_life.WAITS if pod.waiting else None


LIVING = (_works, _recovers, _waits)
"""None of them: it prepares itself."""


def _runs(pod: observed.Pod, report: observed.Report | None) -> bool:
    return pod.ready if report is None else report.phase in ("RUNNING", "PAUSED")


# -- the steps ---------------------------------------------------------------------------------------------------------


def _live(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    progress.take(draft)
    predecessors.let_claim(draft)
    report = draft.seen.report
    if pod.last_ended is not None:
        ends.remember(draft, pod, pod.last_ended)
    draft.say(f"the driver waits for init container {pod.preparing}" if pod.preparing else "")
    unheard = troubles.unheard(draft)
    draft.degraded = troubles.of(draft.revision or revision, pod, report) or unheard or draft.degraded
    draft.happened(precedence.first(LIVING, pod, report) or job_life.PREPARES)
    # Whatever happens to the pod is an event; a driver that runs is listened to between two looks.
    if report is not None and not _runs(pod, report):
        draft.wait(STARTING_S)


def _give_up_pod(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    draft.acts.append(actions.DeletePod(pod, "its container will not come back soon enough"))
    ends.container_failed(draft, revision, pod)


def _give_up_job(draft: Draft, _: Revision, pod: observed.Pod) -> None:
    draft.acts.append(actions.DeletePod(pod, "its container came back, and no restart was left"))
    ends.exhaust(draft, pod)


def _judge_end(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    disturbed = bool(
        pod.disrupted
        or pod.deleting_at is not None
        or pod.reason in ("Evicted", "Preempting", "NodeShutdown")
    )
    ends.judge(draft, revision, pod, disturbed=disturbed)


def _judge_taken_away(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    _take_away(draft)
    ends.judge(draft, revision, pod, disturbed=True)


def _judge_unplaced(draft: Draft, revision: Revision, last: observed.Pod) -> None:
    ends.judge(draft, revision, last, disturbed=True)


def _replace_wordless(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    node = f"node {pod.node}" if pod.node else "no node"
    ends.fail(
        draft,
        pod.reason or "PodFailed",
        f"the driver pod ended ({pod.reason or pod.phase}) on {node} and left no message",
    )
    ends.again(draft, revision, delay_s=0.0 if pod.death is Death.CONFIRMED else revision.death_s)


def _wait_for_end(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    _take_away(draft)
    draft.say(f"the driver pod of attempt {pod.attempt} is being deleted; a new attempt follows")
    draft.wait_until(predecessors.harmless_at(pod, revision))
    draft.wait(predecessors.LOOK_S)


def _replace_cut_off(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    _take_away(draft)
    ends.fail(
        draft,
        "PodLost",
        f"the driver pod of attempt {pod.attempt} is being deleted, and its node {pod.node} does not answer",
    )
    ends.again(draft, revision)


def _replace_lost(draft: Draft, revision: Revision) -> None:
    message = (
        f"the driver pod of attempt {draft.attempt} is gone, and nobody has confirmed that its process ended"
    )
    ends.fail(draft, "PodLost", message)
    unconfirmed.lose(draft, revision)
    ends.again(draft, revision, delay_s=revision.death_s)


def _take_away(draft: Draft) -> None:
    draft.happened(job_life.TAKEN_AWAY)
    progress.take(draft)
