"""From the trigger to the savepoint: what follows from a driver's answer about it, or from its silence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sparkstate_operator import actions, clock
from sparkstate_operator.core import snapshot_life, transitions
from sparkstate_operator.decide import precedence, progress
from sparkstate_operator.decide.draft import POLL_S
from sparkstate_operator.decide.snapshot_draft import SnapshotDraft
from sparkstate_spec import units

Step = Callable[[SnapshotDraft], None]
BY_DRIVER = "SavepointFailed"
"""The reason where the driver says that it has failed."""
REFUSED = "SavepointRefused"
"""The reason where the driver does not take the request."""
REFUSED_S = 30.0
"""A driver that has refused it is asked again this often: it tries the storage each time."""
LATE_S = 60.0
"""The driver is asked this often about a savepoint that was not complete in time."""
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 360.0
"""Before a savepoint that failed is tried again: as long as before another pod of a Kubernetes Job."""


def follow(draft: SnapshotDraft) -> None:
    """The trigger is written down: ask until there is an answer."""
    step = precedence.first(FOLLOWED, draft) or _ask
    step(draft)


def follow_late(draft: SnapshotDraft) -> None:
    """The snapshot counts as failed. The operator still asks how the savepoint ended, so that no data is left that
    nobody knows of."""
    step = precedence.first(FOLLOWED_LATE, draft) or _wait
    step(draft)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _job_is_gone(draft: SnapshotDraft) -> Step | None:
    """First, because nobody is left who could answer: a report would be that of another job with this name."""
    return _fail_without_job if draft.job is None else None


def _is_complete(draft: SnapshotDraft) -> Step | None:
    """Before the timeout: a savepoint that exists counts, however long it took."""
    return _complete if _state(draft) == "COMPLETED" else None


def _is_tried_again(draft: SnapshotDraft) -> Step | None:
    """Before the failure counts: another try may succeed, and there is time for it."""
    is_allowed = draft.failures < int(draft.spec.get("backoffLimit") or 0)
    is_in_time = draft.waited_s() + _pause_s(draft) < draft.timeout_s()
    return _try_again if _state(draft) == "FAILED" and is_allowed and is_in_time else None


def _has_failed(draft: SnapshotDraft) -> Step | None:
    """Before the timeout: the driver's reason tells more."""
    return _fail_by_driver if _state(draft) == "FAILED" else None


def _is_refused(draft: SnapshotDraft) -> Step | None:
    """Before the timeout: the same request would be refused until then. There is no data of it."""
    refusal = draft.seen.refusal
    return _fail_by_refusal if refusal is not None and refusal.for_good and not draft.answer() else None


def _takes_too_long(draft: SnapshotDraft) -> Step | None:
    """Even while the driver takes it: a user waits no longer than the timeout says."""
    return _fail_in_time if draft.waited_s() > draft.timeout_s() else None


def _is_taken(draft: SnapshotDraft) -> Step | None:
    """The driver knows the trigger, so it need not be asked to take it."""
    return _note_taken if draft.answer() else None


FOLLOWED = (_job_is_gone, _is_complete, _is_tried_again, _has_failed, _is_refused, _takes_too_long, _is_taken)
"""If none applies, no driver knows of it yet, as far as we know."""


def _is_complete_somewhere(draft: SnapshotDraft) -> Step | None:
    """Its data then has an owner after all. Without a location there is nothing to own."""
    place = draft.answer().get("location")
    return _complete if draft.job is not None and _state(draft) == "COMPLETED" and place else None


def _has_failed_late(draft: SnapshotDraft) -> Step | None:
    """The driver knows the end, and there is no data."""
    return _fail_by_driver if draft.job is not None and _state(draft) == "FAILED" else None


def _job_is_gone_late(draft: SnapshotDraft) -> Step | None:
    """Nobody will ever know its end, because a report could only be that of another job with this name."""
    return _stop_without_job if draft.job is None else None


def _was_not_taken(draft: SnapshotDraft) -> Step | None:
    """Only a driver that runs can say so: one that starts or recovers may come to know the trigger from storage."""
    return _stop_not_taken if _runs(draft) and not draft.answer() else None


FOLLOWED_LATE = (_is_complete_somewhere, _has_failed_late, _job_is_gone_late, _was_not_taken)
"""If none applies, it may still complete."""


def _state(draft: SnapshotDraft) -> str:
    return str(draft.answer().get("status", ""))


def _pause_s(draft: SnapshotDraft) -> float:
    """Before the next try."""
    return float(min(FIRST_PAUSE_S * 2 ** min(draft.failures, 10), LONGEST_PAUSE_S))


def _runs(draft: SnapshotDraft) -> bool:
    return draft.seen.report is not None and draft.seen.report.phase == "RUNNING"


# -- the steps ---------------------------------------------------------------------------------------------------------


def _ask(draft: SnapshotDraft) -> None:
    pod = draft.seen.pod
    if not _is_silent(draft) and progress.is_of_savepoint(draft.status.get("message")):
        draft.put("message", None)
    _tell_refusal(draft)
    if _runs(draft) and pod is not None:
        # A newer attempt knows the trigger from storage, or takes the savepoint now; either way it makes no second one.
        draft.fill(attempt=pod.attempt)
        trigger, spec = str(draft.status["triggerId"]), draft.spec
        directory, format_type = spec.get("storage"), spec.get("formatType")
        draft.acts.append(
            actions.TriggerSavepoint(pod, trigger, directory=directory, format_type=format_type)
        )
    draft.wait_s = POLL_S
    if draft.reason == REFUSED:
        left_s = draft.timeout_s() - draft.waited_s()
        draft.wait_s = min(REFUSED_S, max(POLL_S, left_s + 1.0))


def _tell_refusal(draft: SnapshotDraft) -> None:
    """The request goes on: its cause may go away, as that of a storage that refuses the keys."""
    refusal = draft.seen.refusal
    if refusal is not None and draft.reason != REFUSED:
        # The first words stay: those of a storage differ each time, and each write would be an event, and a look.
        draft.fill(reason=REFUSED, message=refusal.message)


def _is_silent(draft: SnapshotDraft) -> bool:
    """Whether the driver that told how far the savepoint was lives and is silent. Another attempt begins it anew."""
    pod = draft.seen.pod
    told = pod is not None and pod.answers and pod.attempt == draft.status.get("attempt")
    return told and draft.seen.report is None


def _note_taken(draft: SnapshotDraft) -> None:
    draft.happened(snapshot_life.TAKEN)
    pod, report = draft.seen.pod, draft.seen.report
    same = pod is not None and pod.attempt == draft.status.get("attempt")
    told = progress.of_savepoint(
        report.document if report is not None else {},
        str(draft.status["triggerId"]),
        draft.status.get("message") if same else None,
    )
    draft.fill(reason=None, message=told, attempt=pod.attempt if pod else None)
    draft.wait_s = POLL_S


def _fail_in_time(draft: SnapshotDraft) -> None:
    why = f": {draft.status.get('message')}" if draft.reason == REFUSED else ""
    fail(draft, snapshot_life.FAILED, "Timeout", f"not complete after {draft.timeout_s():.0f} s{why}")
    draft.wait_s = LATE_S


def _fail_without_job(draft: SnapshotDraft) -> None:
    fail(draft, snapshot_life.FAILED, "JobNotFound", "the job is gone")


def _fail_by_driver(draft: SnapshotDraft) -> None:
    fail(draft, snapshot_life.FAILED, BY_DRIVER, _why(draft))


def _fail_by_refusal(draft: SnapshotDraft) -> None:
    assert draft.seen.refusal is not None
    fail(draft, snapshot_life.FAILED, REFUSED, draft.seen.refusal.message)


def _try_again(draft: SnapshotDraft) -> None:
    """Under another trigger id: the driver answers for this one what it knows. There is no data of it."""
    failures, pause_s = draft.failures + 1, _pause_s(draft)
    retry = clock.text(draft.seen.now + timedelta(seconds=pause_s))
    told = f"try {failures} of {int(draft.spec['backoffLimit']) + 1} failed: {_why(draft)}; the next one: {retry}"
    draft.happened(snapshot_life.TRIED_AGAIN)
    draft.fill(triggerId=None, failures=failures, retryTime=retry, reason=BY_DRIVER, message=told)
    draft.note("SnapshotRetried", told, warning=True)
    draft.wait_s = pause_s


def _why(draft: SnapshotDraft) -> str:
    return str(draft.answer().get("failure") or "the driver gave no reason")


def _stop_without_job(draft: SnapshotDraft) -> None:
    draft.fill(reason="JobNotFound", message="not complete in time, and the job is gone")


def _stop_not_taken(draft: SnapshotDraft) -> None:
    told = str(draft.status.get("message") or "not complete in time")
    draft.fill(reason="NotTaken", message=f"the driver has not begun it; {told}")


def _wait(draft: SnapshotDraft) -> None:
    draft.wait_s = LATE_S


def _complete(draft: SnapshotDraft) -> None:
    found = draft.answer()
    report = draft.seen.report.document if draft.seen.report is not None else {}
    begun = clock.parse(draft.status.get("triggeredTime")) or draft.seen.now
    took_ms = max(0, int((draft.seen.now - begun).total_seconds() * 1000))
    draft.happened(snapshot_life.COMPLETED)
    draft.fill(
        reason=None,
        message=None,
        uri=found.get("location"),
        epoch=found.get("epoch"),
        lineage=report.get("lineage"),
        slots=len(report.get("slots") or ()) or None,
        size=progress.size(int(report["state_bytes"])) if report.get("state_bytes") else None,
        completedTime=clock.text(draft.seen.now),
        duration=units.format_duration(took_ms),
    )
    draft.note("SnapshotCompleted", f"{found.get('location')}")


def fail(draft: SnapshotDraft, cause: transitions.Cause, reason: str, message: str) -> None:
    """It has failed, whoever found out."""
    draft.happened(cause)
    draft.fill(reason=reason, message=message, retryTime=None)
    draft.note("SnapshotFailed", f"{reason}: {message}", warning=True)
