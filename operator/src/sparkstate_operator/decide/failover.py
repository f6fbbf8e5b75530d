"""What became of the running attempt, and what follows.

One owner and one counter per class of failure: the engine restarts what fails within a driver, the kubelet a
container that crashed, the operator everything else, by a new attempt. A driver's last word
(termination message, exit code) decides; a pod that vanished says nothing, and is replaced only after its driver can do
no more harm.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkstate_operator import actions, observed
from sparkstate_operator.core import job_life
from sparkstate_operator.decide import ends, last_words, precedence, progress, restarts, starting, troubles
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
        _gone(draft, revision)
        return
    step = precedence.first(WATCHED, draft, revision, pod) or _alive
    step(draft, revision, pod)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _is_over(_: Draft, _revision: Revision, pod: observed.Pod) -> Step | None:
    """Its end is known, and counts more than a deletion that began before or after it."""
    return _ended if pod.over else None


def _is_taken_away(_: Draft, _revision: Revision, pod: observed.Pod) -> Step | None:
    """It will not stay, whatever its container does meanwhile."""
    return _deleting if pod.deleting_at is not None else None


def _does_not_come_back(draft: Draft, revision: Revision, pod: observed.Pod) -> Step | None:
    """The kubelet would start again what must not run again, or starts it later than the job's own strategy would."""
    return _give_up_pod if _final(pod) or _crash_loops(draft, revision, pod) else None


WATCHED = (_is_over, _is_taken_away, _does_not_come_back)
"""None of them: it lives."""


# -- the steps ---------------------------------------------------------------------------------------------------------


def _give_up_pod(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    draft.acts.append(actions.DeletePod(pod, "its container will not come back soon enough"))
    ends.container_failed(draft, revision, pod)


def _alive(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    progress.take(draft)
    starting.let_claim(draft)
    report = draft.seen.report
    if pod.last_ended is not None:
        ends.remember(draft, pod, pod.last_ended)
    draft.say(f"the driver waits for init container {pod.preparing}" if pod.preparing else "")
    draft.degraded = troubles.of(draft.revision or revision, pod, report) or draft.degraded
    running = pod.ready if report is None else report.phase in ("RUNNING", "PAUSED")
    if running and pod.waiting != "CrashLoopBackOff":
        draft.happened(job_life.RUNS)
    elif report is not None and report.phase == "RECOVERING":
        draft.happened(job_life.RECOVERS)
    else:
        draft.happened(job_life.WAITS if pod.waiting else job_life.PREPARES)
    # Whatever happens to the pod is an event; a driver that runs is listened to between two looks.
    if report is not None and not running:
        draft.wait(STARTING_S)


def _gone(draft: Draft, revision: Revision) -> None:
    sighting = draft.seen.sightings.get(draft.attempt)
    if sighting is not None and sighting.death is Death.CONFIRMED:
        if sighting.ended is not None and sighting.deleting_at is None:
            _ended(draft, revision, sighting)
            return
        ends.judge(draft, revision, sighting, disturbed=True)
        return
    message = (
        f"the driver pod of attempt {draft.attempt} is gone, and nobody has confirmed that its process ended"
    )
    ends.fail(draft, "PodLost", message)
    ends.again(draft, revision, delay_s=revision.death_s)


def _deleting(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    draft.happened(job_life.TAKEN_AWAY)
    progress.take(draft)
    if pod.terminating_gracefully:
        ends.judge(draft, revision, pod, disturbed=True)
        return
    harmless = starting.harmless_at(pod, revision)
    if draft.now < harmless:
        draft.say(f"the driver pod of attempt {pod.attempt} is being deleted; a new attempt follows")
        draft.wait_until(harmless)
        draft.wait(5.0)
        return
    ends.fail(
        draft,
        "PodLost",
        f"the driver pod of attempt {pod.attempt} is being deleted, and its node {pod.node} does not answer",
    )
    ends.again(draft, revision)


def _ended(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    if pod.ended is None:
        node = f"node {pod.node}" if pod.node else "no node"
        ends.fail(
            draft,
            pod.reason or "PodFailed",
            f"the driver pod ended ({pod.reason or pod.phase}) on {node} and left no message",
        )
        ends.again(draft, revision, delay_s=0.0 if pod.death is Death.CONFIRMED else revision.death_s)
        return
    disturbed = bool(
        pod.disrupted
        or pod.deleting_at is not None
        or pod.reason in ("Evicted", "Preempting", "NodeShutdown")
    )
    ends.judge(draft, revision, pod, disturbed=disturbed)


def _final(pod: observed.Pod) -> bool:
    """Whether the container's newest end is one that the kubelet should not answer by starting it again."""
    return pod.crash is not None and pod.crash.exit_code != 0 and last_words.is_final(pod.crash)


def _crash_loops(draft: Draft, revision: Revision, pod: observed.Pod) -> bool:
    if pod.waiting != "CrashLoopBackOff":
        return False
    return restarts.kubelet_is_too_slow(revision, pod.restarts, ends.failures(draft), draft.now)
