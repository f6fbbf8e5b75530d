"""Stops an attempt for an upgrade, a rescale, a suspension or a restart: with a savepoint, or by SIGTERM, after which
the driver takes a last checkpoint.

A stop with savepoint is one operation of the engine: nothing commits after it, and the answer comes once "closed by
savepoint X" is in the log. The trigger id is in the status before the driver is asked, so a repetition asks for no
second savepoint. Every stop comes to an end: a savepoint that fails, or takes longer than ``checkpointing.timeout``,
gives way to the last checkpoint, never to an empty state.
"""

from __future__ import annotations

from typing import Any

from sparkstate_operator import actions, observed
from sparkstate_operator.core import job_life, naming
from sparkstate_operator.decide import progress, starting
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision

POLL_S = 2.0
_WHY = {"suspend": job_life.TO_REST, "delete": job_life.DELETED}
EXIT_S = 60.0
"""A driver that answered with its savepoint has this long to end by itself."""


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
    return _newest_is_over(draft, revision) and starting.others_are_harmless(draft, revision)


def go_on(draft: Draft, revision: Revision, patience_s: float) -> None:
    """What brings the end of the attempt nearer, then of every older one. Once it has ended its last word is taken."""
    _end_newest(draft, revision, patience_s)
    if _newest_is_over(draft, revision):
        starting.others_are_over(draft, revision)


def _newest_is_over(draft: Draft, revision: Revision) -> bool:
    pod = draft.pod
    if pod is None:
        return _gone_s(draft, revision) <= 0
    if pod.death is Death.CONFIRMED:
        return True
    return pod.deleting_at is not None and draft.now >= starting.harmless_at(pod, revision)


def _gone_s(draft: Draft, revision: Revision) -> float:
    """The pod's object is gone. Without anybody's word that its process is dead, wait as for a lost node: for how long
    yet."""
    sighting = draft.seen.sightings.get(draft.attempt)
    if sighting is not None and sighting.death is Death.CONFIRMED:
        return 0.0
    if not any(child.attempt == draft.attempt for child in draft.seen.config_maps):
        return 0.0  # nothing of this attempt was ever made
    return revision.death_s - draft.since()


def _end_newest(draft: Draft, revision: Revision, patience_s: float) -> None:
    pod, trigger = draft.pod, draft.intent.get("triggerId")
    last = pod or draft.seen.sightings.get(draft.attempt)
    if last is not None and last.death is Death.CONFIRMED:
        _take_last_word(draft, last)
    elif pod is None:
        left_s = _gone_s(draft, revision)
        if left_s > 0:
            draft.wait(left_s + 0.2)
    elif pod.deleting_at is not None:
        harmless = starting.harmless_at(pod, revision)
        if draft.now < harmless:
            draft.wait_until(harmless)
    elif not trigger or _savepoint_is_over(draft, pod, str(trigger), patience_s):
        draft.acts.append(actions.DeletePod(pod, f"to {draft.intent.get('action')}"))
        draft.wait(POLL_S)


def _take_last_word(draft: Draft, pod: observed.Pod) -> None:
    word = pod.ended.word if pod.ended else {}
    progress.take_savepoint_of_word(draft, word)


def _savepoint_is_over(draft: Draft, pod: observed.Pod, trigger: str, patience_s: float) -> bool:
    """Whether the savepoint can no longer complete."""
    report = draft.seen.report
    found: Any = report.savepoint if report is not None else None
    status = str((found or {}).get("status", ""))
    if status == "COMPLETED":
        progress.take_savepoint(draft, found)
        draft.wait(POLL_S)
        return draft.since() > patience_s + EXIT_S
    if status == "FAILED":
        _give_up(draft, f"failed: {found.get('failure')}")
        return True
    if draft.since() > patience_s:
        _give_up(draft, f"was not complete after {patience_s:.0f} s")
        return True
    if report is not None and not found:
        draft.acts.append(actions.TriggerSavepoint(pod, trigger, stop=True))
    draft.wait(POLL_S)
    return False


def _give_up(draft: Draft, why: str) -> None:
    draft.status["intent"] = {key: value for key, value in draft.intent.items() if key != "triggerId"}
    draft.note(
        "SavepointFailed",
        f"the savepoint of attempt {draft.attempt} {why}; its last checkpoint is used",
        warning=True,
    )
