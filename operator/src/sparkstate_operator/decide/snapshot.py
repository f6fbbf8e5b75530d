"""The decision about a StateSnapshot: trigger, follow, register, and delete with or without its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import conditions, shortening, snapshot_life
from sparkstate_operator.decide import (
    dating,
    precedence,
    snapshot_asking,
    snapshot_deletion,
    snapshot_following,
    snapshot_registering,
)
from sparkstate_operator.decide.snapshot_draft import IN_FLIGHT, SnapshotDraft
from sparkstate_operator.model.status import Condition
from sparkstate_operator.plan import Revision

Step = Callable[[SnapshotDraft], None]
LONGEST = 2000
"""Characters of the message about a spec's faults."""


def decide(seen: observed.ObservedSnapshot, revision: Revision | None, config: Config) -> actions.Decision:
    """The next step. ``revision``: what the job runs, None if that is not known."""
    draft = SnapshotDraft(seen, revision, config)
    dating.mend_snapshot(draft)
    if seen.snapshot.deleting_at is not None:
        snapshot_deletion.go_on(draft)
    else:
        _hold(draft)
        draft.fill(observedGeneration=seen.snapshot.generation)
        step = precedence.first(STEPS, draft) or snapshot_following.follow
        step(draft)
    if draft.status:
        draft.status["conditions"] = _conditions(draft)
    return draft.decision(draft.status)


def _hold(draft: SnapshotDraft) -> None:
    """It is marked as ours, and as its job's, before anything is done about it."""
    marks, found = _marks(draft), draft.snapshot
    if (
        labels.FINALIZER not in found.finalizers
        or not marks.items() <= found.labels.items()
        or found.annotations.get(labels.MANAGER, "") != draft.config.mark
    ):
        draft.before.append(actions.AddFinalizer(marks))


def _marks(draft: SnapshotDraft) -> dict[str, str]:
    """Labels by which the job finds it, whoever made it; with the job's class, for when the job is gone."""
    job = draft.named
    if job is None:
        return {}
    told = job.labels.get(labels.OPERATOR_CLASS)
    return {
        labels.JOB: job.name,
        labels.JOB_UID: job.uid,
        **({labels.OPERATOR_CLASS: told} if told else {}),
    }


# -- which step, in this order -----------------------------------------------------------------------------------------


def _is_late(draft: SnapshotDraft) -> Step | None:
    """Before what is settled: it has failed, but its savepoint may exist yet."""
    return snapshot_following.follow_late if draft.snapshot.late else None


def _is_settled(draft: SnapshotDraft) -> Step | None:
    """Before whatever would begin something: what has ended is not begun again."""
    return _leave if draft.snapshot.settled else None


def _cannot_be_read(draft: SnapshotDraft) -> Step | None:
    """Before whatever reads it, unless a driver has been asked already: that savepoint is followed."""
    return _refuse if draft.wrong and draft.phase not in IN_FLIGHT else None


def _names_its_data(draft: SnapshotDraft) -> Step | None:
    """No job has a part in it, so none is asked, whatever the phase."""
    return snapshot_registering.register if draft.spec.get("uri") else None


def _is_not_asked_for(draft: SnapshotDraft) -> Step | None:
    """Nobody could answer: the driver hears of the trigger when that is in the status."""
    return snapshot_asking.intend if draft.phase in ("", "Pending") else None


STEPS = (_is_late, _is_settled, _cannot_be_read, _names_its_data, _is_not_asked_for)
"""None of them: its trigger is written down, and is followed."""


def _refuse(draft: SnapshotDraft) -> None:
    draft.happened(snapshot_life.CHANGED if draft.phase == "Failed" else snapshot_life.CREATED)
    why = shortening.shortened("; ".join(str(problem) for problem in draft.wrong), LONGEST)
    snapshot_following.fail(draft, snapshot_life.NOT_TAKEN, "SpecInvalid", why)


def _leave(_: SnapshotDraft) -> None:
    """Nothing is done about it."""


# -- what the status shows ---------------------------------------------------------------------------------------------


def _conditions(draft: SnapshotDraft) -> list[dict[str, Any]]:
    old = [Condition.model_validate(one) for one in draft.snapshot.status.get("conditions") or ()]
    found = conditions.of_snapshot(
        draft.status["phase"],
        draft.snapshot.generation,
        old,
        draft.seen.now,
        str(draft.status.get("message") or ""),
        str(draft.status.get("reason") or ""),
    )
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found]
