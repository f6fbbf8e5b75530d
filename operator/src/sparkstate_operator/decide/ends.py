"""The step after the end of an attempt: another one, or none until a person does something."""

from __future__ import annotations

import re

from sparkstate_operator import clock, observed
from sparkstate_operator.core import job_life, shortening, transitions
from sparkstate_operator.decide import contesting, last_words, progress, restarts, starting
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.decide.last_words import Failure, Meaning
from sparkstate_operator.plan import Revision

_ATTEMPT = re.compile(r"\battempt (\d{1,6})\b")
_LONGEST = 4000
"""Characters of the message of ``lastFailure``."""


def judge(draft: Draft, revision: Revision, pod: observed.Pod, *, disturbed: bool) -> None:
    """By the exit code and last word of a driver that is dead, or about to end and has not said it yet.
    ``disturbed``: somebody took its pod away, or its node."""
    word = pod.ended.word if pod.ended is not None else {}
    progress.take_savepoint_of_word(draft, word)
    end = last_words.End(pod, disturbed)
    match last_words.meaning(end):
        case Meaning.TAKEN_AWAY:
            told = end.reason or pod.disrupted or pod.reason or "PodDeleted"
            reason = "PodDeleted" if told in last_words.STOPPED_WORDS else told
            fail(draft, reason, f"the driver pod of attempt {pod.attempt} was taken away")
            again(draft, revision)
        case Meaning.FINISHED:
            _finish(draft, word)
        case Meaning.FENCED:
            _fenced(draft, revision, pod, word)
        case Meaning.STOPPED:
            told = f"attempt {pod.attempt} was stopped from outside ({end.reason}); another one follows"
            draft.note("DriverStopped", told)
            again(draft, revision)
        case Meaning.FAILED:
            container_failed(draft, revision, pod)


def container_failed(draft: Draft, revision: Revision, pod: observed.Pod) -> None:
    """By the newest end of its container."""
    ended = pod.crash
    if ended is None:
        again(draft, revision)
        return
    remember(draft, pod, ended)
    failure = draft.status["lastFailure"]
    match last_words.failure(ended):
        case Failure.NOT_RESTORED:
            _end(draft, job_life.NOT_RESTORED, "RestoreBlocked", failure["message"])
        case Failure.FINAL:
            _end(draft, job_life.GIVEN_UP, failure["reason"], failure["message"])
        case Failure.MAY_PASS:
            _try_again(draft, revision, str(failure["message"]))


def _try_again(draft: Draft, revision: Revision, message: str) -> None:
    """As the restart strategy says."""
    counts = dict(draft.status.get("restarts") or {})
    earlier, spread = restarts.failures_of(counts), draft.seen.job.uid
    verdict = restarts.answer(revision, earlier, draft.now, spread)
    if isinstance(verdict, restarts.NoRestart):
        _give_up(draft, verdict.why, message)
        return
    recent = restarts.remembered(revision, earlier, draft.now, spread)
    counts["recent"] = [clock.text(failed) for failed in recent]
    draft.status["restarts"] = counts
    again(draft, revision, delay_s=verdict.delay_s)


def _give_up(draft: Draft, why: str, message: str) -> None:
    # As with fences below: a job that a person starts again has all its restarts.
    counts = dict(draft.status.get("restarts") or {})
    progress.put_restarts(draft, {**counts, "recent": []})
    _end(draft, job_life.GIVEN_UP, "RestartsExhausted", f"{why}; the last failure: {message}")


def exhaust(draft: Draft, pod: observed.Pod) -> None:
    """The kubelet has started a container again after a failure that the restart strategy did not allow any more."""
    if pod.crash is not None:
        remember(draft, pod, pod.crash)
    message = (draft.status.get("lastFailure") or {}).get("message", "the driver's container failed")
    _give_up(draft, draft.exhausted, str(message))


def _fenced(draft: Draft, revision: Revision, pod: observed.Pod, word: observed.Document) -> None:
    """A higher number has claimed the lineage (a job of the same name, deleted and made again): go above it, unless
    that happens again and again."""
    message = str(word.get("message", "another attempt has claimed the lineage"))
    counts = contesting.counted(dict(draft.status.get("restarts") or {}), draft.now)
    progress.put_restarts(draft, counts)
    pause_s = contesting.pause_s(counts["fenced"])
    if pause_s is None:
        why = contesting.told(counts["fenced"], message)
        # The counter begins anew with the job: with the old fences, a job that a person started again by restartNonce
        # had none left, and stopped at its first one.
        progress.put_restarts(draft, {**counts, "fenced": []})
        fail(draft, contesting.REASON, why)
        _end(draft, job_life.GIVEN_UP, contesting.REASON, why)
        return
    fail(draft, "Fenced", message)
    again(draft, revision, delay_s=pause_s, above=max(pod.attempt, claimed_attempt(message)))


def claimed_attempt(message: str) -> int:
    """The highest attempt that the engine's word about being fenced names; 0 if it names none."""
    return max((int(number) for number in _ATTEMPT.findall(message)), default=0)


def _finish(draft: Draft, word: observed.Document) -> None:
    draft.happened(job_life.FINISHED)
    draft.put("start", None)  # its last checkpoint is complete; a short run ends before a report tells that
    draft.say(str(word.get("message", "")))
    draft.note("Finished", str(word.get("message", "the job has finished")))


def _end(draft: Draft, cause: transitions.Cause, reason: str, message: str) -> None:
    draft.happened(cause)
    draft.say(message)
    draft.note(reason, message, warning=True)


def remember(draft: Draft, pod: observed.Pod, ended: observed.Termination) -> None:
    """As ``lastFailure``, once per end of a container."""
    reason = str(ended.word.get("reason") or ended.reason or "Error")
    if ended.reason == "OOMKilled":
        reason = "OOMKilled"
    message = str(
        ended.word.get("message") or ended.message or f"the driver ended with exit code {ended.exit_code}"
    )
    fail(
        draft,
        reason,
        message,
        attempt=pod.attempt,
        exit_code=ended.exit_code,
        at=clock.text(ended.at) if ended.at else None,
    )


def fail(
    draft: Draft,
    reason: str,
    message: str,
    *,
    attempt: int | None = None,
    exit_code: int | None = None,
    at: str | None = None,
) -> None:
    """Write a failure down, unless the status has it already. Nothing follows from it yet."""
    found = {
        "time": at or clock.text(draft.now),
        "attempt": attempt or draft.attempt,
        "reason": reason,
        "message": shortening.shortened(message, _LONGEST),
        "exitCode": exit_code,
    }
    failure = {name: value for name, value in found.items() if value is not None}
    old = draft.status.get("lastFailure") or {}
    if {**old, "time": ""} == {**failure, "time": ""} and (at is None or old.get("time") == at):
        return
    draft.status["lastFailure"] = failure
    draft.note("DriverFailed", f"attempt {failure['attempt']}: {reason}: {failure['message']}", warning=True)


def again(draft: Draft, revision: Revision, *, delay_s: float = 0.0, above: int = 0) -> None:
    """A new attempt of the wanted revision (a spec that cannot run leaves the last valid one)."""
    counts = dict(draft.status.get("restarts") or {})
    progress.put_restarts(draft, {**counts, "operator": int(counts.get("operator") or 0) + 1})
    draft.happened(job_life.AGAIN)
    starting.begin(draft, draft.wanted or revision, draft.start, delay_s=delay_s, above=above)
