"""Stops an attempt for an upgrade, a rescale, a suspension or a restart: with a savepoint, or by SIGTERM, after which
the driver takes a last checkpoint.

A stop with savepoint is one operation of the engine: nothing commits after it, and the answer comes once "closed by
savepoint X" is in the log. The trigger id is in the status before the driver is asked, so a repetition asks for no
second savepoint. Every stop comes to an end: a savepoint that fails, or takes longer than ``checkpointing.timeout``,
gives way to the last checkpoint, never to an empty state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparkstate_operator import actions, observed
from sparkstate_operator.core import job_life, naming
from sparkstate_operator.decide import precedence, predecessors, progress, unconfirmed
from sparkstate_operator.decide.draft import POLL_S, Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision

_WHY = {"suspend": job_life.SUSPENDED, "delete": job_life.DELETED}
EXIT_S = 60.0
"""A driver that answered with its savepoint has this long to end by itself."""


@dataclass(frozen=True)
class _Stop:
    """``patience_s``: how long a savepoint may take before it is given up."""

    pod: observed.Pod
    revision: Revision
    patience_s: float


Step = Callable[[Draft, _Stop], None]


def trigger_id(uid: str, attempt: int, purpose: str) -> str:
    """The trigger id of a stop: the same for the same job, attempt and purpose."""
    return f"{purpose}-{attempt}-{naming.digest(f'{uid}/{attempt}/{purpose}', 16)}"


def begin(draft: Draft, action: str, *, savepoint: bool, revision: str | None = None) -> None:
    """Write the intent to stop the running attempt. ``action``: upgrade, suspend or restart."""
    reachable = savepoint and draft.seen.report is not None and draft.seen.report.phase == "RUNNING"
    draft.begin(
        action,
        attempt=draft.attempt,
        revision=revision,
        triggerId=trigger_id(draft.seen.job.uid, draft.attempt, action) if reachable else None,
    )
    draft.happened(_WHY.get(action, job_life.CHANGED))
    if savepoint and not reachable:
        draft.note(
            "SavepointNotPossible",
            f"the driver of attempt {draft.attempt} does not run; its last checkpoint is used instead",
            warning=True,
        )


def stopped(draft: Draft, revision: Revision, patience_s: float) -> bool:
    """Whether the attempt of the intent is over, and every older one; until then, do what brings their end nearer.

    ``patience_s``: how long a savepoint may take before it is given up.
    """
    go_on(draft, revision, patience_s)
    return is_over(draft, revision)


def is_over(draft: Draft, revision: Revision) -> bool:
    """Whether the attempt of the intent is over, and every older one."""
    return _newest_is_over(draft, revision) and predecessors.are_harmless(draft, revision)


def go_on(draft: Draft, revision: Revision, patience_s: float) -> None:
    """Bring the end of the attempt nearer, then of every older one. Once it has ended, take its last word."""
    pod = draft.pod
    if pod is None:
        _without_pod(draft, revision)
    else:
        stop = _Stop(pod, revision, patience_s)
        step = precedence.first(STEPS, draft, stop) or _wait
        step(draft, stop)
    if _newest_is_over(draft, revision):
        predecessors.end(draft, revision)


def _newest_is_over(draft: Draft, revision: Revision) -> bool:
    pod = draft.pod
    if pod is None:
        return _gone_s(draft, revision) <= 0
    if pod.death is Death.CONFIRMED:
        return True
    return pod.deleting_at is not None and draft.now >= predecessors.harmless_at(pod, revision)


def _gone_s(draft: Draft, revision: Revision) -> float:
    """The pod's object is gone. Without anybody's word that its process is dead, wait as for a lost node, counted from
    the first look without the pod: for how long yet."""
    traced = any(child.attempt == draft.attempt for child in draft.seen.config_maps)
    if not traced or draft.seen.never_had_pod(draft.attempt):
        return 0.0
    return unconfirmed.left_s(draft, draft.attempt, revision)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _has_ended(_: Draft, stop: _Stop) -> Step | None:
    """Before everything that could be asked of a driver that lives. Its last word may name a savepoint."""
    return _take_last_word if stop.pod.death is Death.CONFIRMED else None


def _is_ending(_: Draft, stop: _Stop) -> Step | None:
    """Before its savepoint: it has been told to end, and takes none any more."""
    return _wait_for_end if stop.pod.deleting_at is not None else None


def _takes_no_savepoint(draft: Draft, _: _Stop) -> Step | None:
    """Every later rule is about the savepoint. None was wanted or possible, or it has been given up."""
    return _delete if not draft.intent.get("triggerId") else None


def _is_saved(draft: Draft, _: _Stop) -> Step | None:
    """Before the patience: a savepoint that exists counts, however long it took."""
    return _take_savepoint if _saved(draft).get("status") == "COMPLETED" else None


def _has_failed(draft: Draft, _: _Stop) -> Step | None:
    """Before the patience: the driver's reason tells more."""
    return _give_up_failed if _saved(draft).get("status") == "FAILED" else None


def _takes_too_long(draft: Draft, stop: _Stop) -> Step | None:
    """Before the driver is asked, for it may never answer, and what its stop is for waits."""
    return _give_up_late if draft.since() > stop.patience_s else None


def _is_not_asked(draft: Draft, _: _Stop) -> Step | None:
    """Last, and again at each look until the driver knows the trigger: asking twice makes one savepoint."""
    return _ask if draft.seen.report is not None and not _saved(draft) else None


STEPS = (
    _has_ended,
    _is_ending,
    _takes_no_savepoint,
    _is_saved,
    _has_failed,
    _takes_too_long,
    _is_not_asked,
)
"""None of them: the savepoint is being taken, or the driver does not answer."""


def _saved(draft: Draft) -> observed.Document:
    """The driver's answer about the savepoint; empty if it does not answer, or knows nothing of it."""
    report = draft.seen.report
    return (report.savepoint or {}) if report is not None else {}


# -- the steps ---------------------------------------------------------------------------------------------------------


def _without_pod(draft: Draft, revision: Revision) -> None:
    """The pod's object is gone: what was last seen of it tells its end, or the time does."""
    sighting = draft.seen.sightings.get(draft.attempt)
    left_s = _gone_s(draft, revision)
    if sighting is not None and sighting.death is Death.CONFIRMED:
        _take_word_of(draft, sighting)
    elif left_s > 0:
        unconfirmed.lose(draft, revision)
        draft.wait(left_s + 0.2)


def _take_last_word(draft: Draft, stop: _Stop) -> None:
    _take_word_of(draft, stop.pod)


def _take_word_of(draft: Draft, pod: observed.Pod) -> None:
    progress.take_savepoint_of_word(draft, pod.ended.word if pod.ended else {})


def _wait_for_end(draft: Draft, stop: _Stop) -> None:
    harmless = predecessors.harmless_at(stop.pod, stop.revision)
    if draft.now < harmless:
        draft.wait_until(harmless)


def _delete(draft: Draft, stop: _Stop) -> None:
    draft.acts.append(actions.DeletePod(stop.pod, f"to {draft.intent.get('action')}"))
    draft.wait(POLL_S)


def _take_savepoint(draft: Draft, stop: _Stop) -> None:
    """Its driver ends by itself, and is helped to if it does not."""
    progress.take_savepoint(draft, _saved(draft))
    draft.wait(POLL_S)
    if draft.since() > stop.patience_s + EXIT_S:
        _delete(draft, stop)


def _give_up_failed(draft: Draft, stop: _Stop) -> None:
    _give_up(draft, stop, f"failed: {_saved(draft).get('failure')}")


def _give_up_late(draft: Draft, stop: _Stop) -> None:
    _give_up(draft, stop, f"was not complete after {stop.patience_s:.0f} s")


def _give_up(draft: Draft, stop: _Stop, why: str) -> None:
    draft.status["intent"] = {key: value for key, value in draft.intent.items() if key != "triggerId"}
    draft.note(
        "SavepointFailed",
        f"the savepoint of attempt {draft.attempt} {why}; its last checkpoint is used",
        warning=True,
    )
    _delete(draft, stop)


def _ask(draft: Draft, stop: _Stop) -> None:
    draft.acts.append(actions.TriggerSavepoint(stop.pod, str(draft.intent["triggerId"]), stop=True))
    draft.wait(POLL_S)


def _wait(draft: Draft, _: _Stop) -> None:
    draft.wait(POLL_S)
