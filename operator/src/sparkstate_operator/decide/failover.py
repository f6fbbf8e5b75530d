"""What became of the running attempt, and what follows.

One owner and one counter per class of failure: the engine restarts what fails within a driver, the kubelet a
container that crashed, the operator everything else, by a new attempt. A driver's last word
(termination message, exit code) decides; a pod that vanished says nothing, and is replaced only after its driver can do
no more harm.
"""

from __future__ import annotations

import re
from datetime import datetime

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.core import job_life, transitions
from sparkstate_operator.decide import contesting, progress, restarts, starting, unplanned
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision

FINAL_REASONS = frozenset(
    {"JobFailed", "UserCodeError", "StateError", "SerializationError", "SpecInvalid", "NotInThisVersion"}
)
"""Of the engine: another attempt would end the same way (its own restart strategy has given up)."""
SPEC_INVALID, RESTORE_BLOCKED, FENCED, STORAGE = 2, 3, 4, 5
STOPPED_WORDS = frozenset({"Suspended", "Cancelled", "Terminated"})
"""Last words of a driver that was told to end, and did in good order."""
PULL_ERRORS = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
STARTING_S = 5.0
"""While a job starts its driver is asked this often, with a look at the whole job."""
_ATTEMPT = re.compile(r"\battempt (\d{1,6})\b")


def watch(draft: Draft, revision: Revision) -> None:
    """There is no intent: the attempt should run, or has ended."""
    pod = draft.pod
    if pod is None:
        _gone(draft, revision)
    elif pod.over:
        _ended(draft, revision, pod)
    elif pod.deleting_at is not None:
        _deleting(draft, revision, pod)
    elif _final(pod) or _crash_loops(draft, revision, pod):
        draft.acts.append(actions.DeletePod(pod, "its container will not come back soon enough"))
        _container_failed(draft, revision, pod)
    else:
        _alive(draft, revision, pod)


def _alive(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    progress.take(draft)
    starting.let_claim(draft)
    report = draft.seen.report
    if pod.last_ended is not None:
        _remember(draft, pod, pod.last_ended)
    draft.say(f"the driver waits for init container {pod.preparing}" if pod.preparing else "")
    if pod.waiting in PULL_ERRORS or pod.waiting.startswith("CreateContainer"):
        draft.degraded = (pod.waiting, pod.waiting_message or f"the driver's container waits: {pod.waiting}")
    elif pod.unschedulable:
        draft.degraded = ("Unschedulable", pod.unschedulable)
    elif pod.node_lost:
        draft.degraded = (
            "NodeLost",
            f"node {pod.node} does not answer; nobody knows whether the driver runs",
        )
    elif pod.trouble is not None:
        draft.degraded = pod.trouble
    elif pod.waiting == "CrashLoopBackOff":
        draft.degraded = ("CrashLoopBackOff", "the driver crashed; the kubelet starts it again")
    running = pod.ready if report is None else report.phase in ("RUNNING", "PAUSED")
    if report is not None and (report.phase == "PAUSED" or report.storage_away):
        paused = "the driver pauses until its storage is back" if report.phase == "PAUSED" else ""
        draft.degraded = ("StorageUnavailable", "; ".join(filter(None, (paused, report.storage_away))))
    draft.degraded = draft.degraded or unplanned.trouble(draft.revision or revision, report)
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
        _judge_word(draft, revision, sighting, counts=False)
        return
    message = (
        f"the driver pod of attempt {draft.attempt} is gone, and nobody has confirmed that its process ended"
    )
    _fail(draft, "PodLost", message)
    _again(draft, revision, delay_s=revision.death_s)


def _deleting(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    draft.happened(job_life.TAKEN_AWAY)
    progress.take(draft)
    if pod.takes_leave:
        _judge_word(draft, revision, pod, counts=False)
        return
    harmless = starting.harmless_at(pod, revision)
    if draft.now < harmless:
        draft.say(f"the driver pod of attempt {pod.attempt} is being deleted; a new attempt follows")
        draft.wait_until(harmless)
        draft.wait(5.0)
        return
    _fail(
        draft,
        "PodLost",
        f"the driver pod of attempt {pod.attempt} is being deleted, and its node {pod.node} does not answer",
    )
    _again(draft, revision)


def _ended(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    if pod.ended is None:
        node = f"node {pod.node}" if pod.node else "no node"
        _fail(
            draft,
            pod.reason or "PodFailed",
            f"the driver pod ended ({pod.reason or pod.phase}) on {node} without a word",
        )
        _again(draft, revision, delay_s=0.0 if pod.death is Death.CONFIRMED else revision.death_s)
        return
    disturbed = bool(
        pod.disrupted
        or pod.deleting_at is not None
        or pod.reason in ("Evicted", "Preempting", "NodeShutdown")
    )
    _judge_word(draft, revision, pod, counts=not disturbed)


def _judge_word(draft: Draft, revision: Revision, pod: observed.Pod, *, counts: bool) -> None:
    """By the exit code and last word of a driver that is dead, or about to end and has not said it yet."""
    ended = pod.ended
    word = ended.word if ended is not None else {}
    reason = str(word.get("reason", ""))
    progress.take_savepoint_of_word(draft, word)
    if ended is None or (not counts and not _is_final(ended)):
        told = reason or pod.disrupted or pod.reason or "PodDeleted"
        _fail(
            draft,
            "PodDeleted" if told in STOPPED_WORDS else told,
            f"the driver pod of attempt {pod.attempt} was taken away",
        )
        _again(draft, revision)
    elif ended.exit_code == 0 and reason == "Finished":
        _finish(draft, word)
    elif reason == "Fenced" or ended.exit_code == FENCED:
        _fenced(draft, revision, pod, ended)
    elif ended.exit_code == 0 and reason in STOPPED_WORDS:
        draft.note(
            "DriverStopped", f"attempt {pod.attempt} was stopped from outside ({reason}); the job is to run"
        )
        _again(draft, revision)
    else:
        _container_failed(draft, revision, pod)


def _is_final(ended: observed.Ended) -> bool:
    word = str(ended.word.get("reason", ""))
    if ended.exit_code == 0:
        return word in ("Finished", "Fenced")
    if ended.exit_code in (SPEC_INVALID, RESTORE_BLOCKED, FENCED) or word in FINAL_REASONS:
        return True
    return ended.exit_code == STORAGE and bool(word) and word != "StorageUnavailable"


def _final(pod: observed.Pod) -> bool:
    """Whether the container's newest end is one that the kubelet should not answer by starting it again."""
    return pod.crash is not None and pod.crash.exit_code != 0 and _is_final(pod.crash)


def _crash_loops(draft: Draft, revision: Revision, pod: observed.Pod) -> bool:
    if pod.waiting != "CrashLoopBackOff":
        return False
    return restarts.kubelet_is_too_slow(revision, pod.restarts, _failures(draft), draft.now)


def _container_failed(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    ended = pod.crash
    if ended is None:
        _again(draft, revision)
        return
    _remember(draft, pod, ended)
    failure = draft.status["lastFailure"]
    if ended.exit_code == RESTORE_BLOCKED:
        _end(draft, job_life.NOT_RESTORED, "RestoreBlocked", failure["message"])
        return
    if _is_final(ended):
        _end(draft, job_life.GIVEN_UP, failure["reason"], failure["message"])
        return
    verdict = restarts.answer(revision, _failures(draft), draft.now, spread=draft.seen.job.uid)
    if isinstance(verdict, restarts.GiveUp):
        why = f"{verdict.why}; the last failure: {failure['message']}"
        _end(draft, job_life.GIVEN_UP, "RestartsExhausted", why)
        return
    counts = dict(draft.status.get("restarts") or {})
    counts["recent"] = [*(counts.get("recent") or []), clock.text(draft.now)][-restarts.kept(revision) :]
    draft.status["restarts"] = counts
    _again(draft, revision, delay_s=verdict.delay_s)


def _fenced(draft: Draft, revision: Revision, pod: observed.Pod, ended: observed.Ended) -> None:
    """A higher number has claimed the lineage (a job of the same name, deleted and made again): go above it, unless
    that happens again and again."""
    message = str(ended.word.get("message", "another attempt has claimed the lineage"))
    counts = contesting.counted(dict(draft.status.get("restarts") or {}), draft.now)
    progress.put_restarts(draft, counts)
    pause_s = contesting.pause_s(counts["fenced"])
    if pause_s is None:
        why = contesting.told(counts["fenced"], message)
        progress.put_restarts(draft, {**counts, "fenced": []})  # a new start has all its fences before it
        _fail(draft, contesting.REASON, why)
        _end(draft, job_life.GIVEN_UP, contesting.REASON, why)
        return
    _fail(draft, "Fenced", message)
    _again(draft, revision, delay_s=pause_s, above=max(pod.attempt, claimed_attempt(message)))


def claimed_attempt(message: str) -> int:
    """The highest attempt that the engine's word about being fenced names; 0 if it names none."""
    return max((int(number) for number in _ATTEMPT.findall(message)), default=0)


def _finish(draft: Draft, word: observed.Document) -> None:
    draft.happened(job_life.FINISHED)
    draft.say(str(word.get("message", "")))
    draft.note("Finished", str(word.get("message", "the job has finished")))


def _end(draft: Draft, cause: transitions.Cause, reason: str, message: str) -> None:
    draft.happened(cause)
    draft.say(message)
    draft.note(reason, message, warning=True)


def _remember(draft: Draft, pod: observed.Pod, ended: observed.Ended) -> None:
    """As ``lastFailure``, once per end of a container."""
    reason = str(ended.word.get("reason") or ended.reason or "Error")
    if ended.reason == "OOMKilled":
        reason = "OOMKilled"
    message = str(
        ended.word.get("message") or ended.message or f"the driver ended with exit code {ended.exit_code}"
    )
    _fail(
        draft,
        reason,
        message,
        attempt=pod.attempt,
        exit_code=ended.exit_code,
        at=clock.text(ended.at) if ended.at else None,
    )


def _fail(
    draft: Draft,
    reason: str,
    message: str,
    *,
    attempt: int | None = None,
    exit_code: int | None = None,
    at: str | None = None,
) -> None:
    found = {
        "time": at or clock.text(draft.now),
        "attempt": attempt or draft.attempt,
        "reason": reason,
        "message": message[-4000:],
        "exitCode": exit_code,
    }
    failure = {name: value for name, value in found.items() if value is not None}
    old = draft.status.get("lastFailure") or {}
    if {**old, "time": ""} == {**failure, "time": ""} and (at is None or old.get("time") == at):
        return
    draft.status["lastFailure"] = failure
    draft.note("DriverFailed", f"attempt {failure['attempt']}: {reason}: {failure['message']}", warning=True)


def _failures(draft: Draft) -> list[datetime]:
    recent = (draft.status.get("restarts") or {}).get("recent") or []
    return [moment for text in recent if (moment := clock.parse(text)) is not None]


def _again(draft: Draft, revision: Revision, *, delay_s: float = 0.0, above: int = 0) -> None:
    """A new attempt of the wanted revision (a spec that cannot run leaves the last valid one)."""
    counts = dict(draft.status.get("restarts") or {})
    progress.put_restarts(draft, {**counts, "operator": int(counts.get("operator") or 0) + 1})
    draft.happened(job_life.AGAIN)
    starting.begin(draft, draft.wanted or revision, draft.start, delay_s=delay_s, above=above)
