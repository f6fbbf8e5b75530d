"""Drivers that come before an attempt: which of them may still do harm, until when, and what brings their end nearer.

They are the drivers of older attempts, and that of the newest one where another attempt is to follow it.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.decide import unconfirmed
from sparkstate_operator.decide.draft import IDLE, Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import AWAY_S, Revision

LOOK_S = 5.0
"""Until the next look at a driver that was asked to end, in case its last event is missed."""
_ENDED = tuple(phase for phase in IDLE if phase != "RestoreBlocked")
"""Phases in which the status names the newest attempt's driver if it may live (``unconfirmed``). ``RestoreBlocked``
says only that the next attempt lacks its state: an older operator entered it even when the pod had vanished."""


def end(draft: Draft, revision: Revision, *, or_terminating: bool = False) -> None:
    """Ask the drivers of older attempts that nobody has asked yet to end, and wait for those that may do harm.
    ``or_terminating``: do not wait for one that terminates gracefully."""
    for pod in alive(draft):
        if pod.deleting_at is None:
            draft.acts.append(actions.DeletePod(pod, "another attempt has to run"))
            draft.wait(LOOK_S)
        elif _may_harm(draft, pod, revision, or_terminating):
            harmless = harmless_at(pod, revision)
            draft.say(
                f"attempt {draft.attempt} waits until {clock.text(harmless)} at the latest: nobody has confirmed "
                f"that the driver of attempt {pod.attempt} on node {pod.node} has ended"
            )
            draft.wait_until(harmless)
    lost = unconfirmed.of_older(draft, revision)
    if lost is not None:
        draft.say(
            f"attempt {draft.attempt} waits until {clock.text(lost.harmless_at)}: nobody has confirmed that the driver "
            f"of attempt {lost.attempt} has ended, and its pod is gone"
        )
        draft.wait_until(lost.harmless_at)


def are_harmless(draft: Draft, revision: Revision, *, or_terminating: bool = False) -> bool:
    """Whether no driver of an older attempt can do any harm. ``or_terminating``: one that terminates gracefully
    does not count."""
    dangerous = any(_may_harm(draft, pod, revision, or_terminating) for pod in alive(draft))
    return not dangerous and unconfirmed.of_older(draft, revision) is None


def _may_harm(draft: Draft, pod: observed.Pod, revision: Revision, or_terminating: bool) -> bool:
    if pod.deleting_at is None:
        return True
    return draft.now < harmless_at(pod, revision) and not (or_terminating and pod.terminating_gracefully)


def longest_wait_s(draft: Draft, revision: Revision) -> int:
    """How long the new driver has to wait at most for those that are about to end; it counts from its own begin, which
    is later than now."""
    left = [(harmless_at(pod, revision) - draft.now).total_seconds() for pod in alive(draft)]
    return math.ceil(max([0.0, *left]))


def alive(draft: Draft) -> list[observed.Pod]:
    """Drivers of older attempts that nobody has confirmed to be dead."""
    return _alive_below(draft, draft.attempt)


def _alive_below(draft: Draft, attempt: int) -> list[observed.Pod]:
    return [pod for pod in draft.seen.drivers if pod.attempt < attempt and pod.death is not Death.CONFIRMED]


def remember(draft: Draft) -> None:
    """At the end of a decision, write down the drivers of older attempts that may do harm, and how long those may whose
    pods are gone. A job that was given up while its container ran rests beside a driver that lives: nothing else would
    tell its successor of it once the pod is gone."""
    revision = draft.revision or draft.wanted
    rests = draft.phase in IDLE and not draft.intent
    found = _alive_below(draft, draft.attempt + 1 if rests else draft.attempt)
    dangerous = (pod for pod in found if revision is None or _may_harm(draft, pod, revision, False))
    unconfirmed.remember(draft, frozenset(pod.attempt for pod in dangerous))


def let_claim(draft: Draft) -> None:
    """A driver that waits for an older one's end hears of it, should that one have died without a word of its own."""
    pod, report = draft.pod, draft.seen.report
    if pod is None or report is None or report.waits_for is None:
        return
    last = draft.seen.sightings.get(report.waits_for)
    if last is not None and last.death is Death.CONFIRMED and not alive(draft):
        draft.acts.append(actions.LetClaim(pod))


def unconfirmed_s(draft: Draft, revision: Revision) -> float:
    """How long the newest attempt's driver may still do harm, where its pod is gone and nobody has said that its
    process ended; 0 where it cannot."""
    if draft.attempt == 0 or draft.pod is not None or draft.phase in _ENDED:
        return 0.0
    return max(0.0, unconfirmed.left_s(draft, draft.attempt, revision))


def harmless_at(pod: observed.Pod, revision: Revision) -> datetime:
    """When a pod that is being deleted can do no more harm, though nobody confirms its end.

    On a node that does not answer nobody hears of the grace period, so it counts for nothing. The node was silent for
    longer than :data:`AWAY_S` when the deletion was asked for: Kubernetes taints it after 40 s or more, and the pod
    tolerates the taint for :data:`AWAY_S` unless its template says otherwise.
    """
    if pod.deleting_at is None:
        raise ValueError(f"pod {pod.name} is not being deleted")
    waited_s = pod.grace_s + AWAY_S if pod.abandoned else 0.0
    return pod.deleting_at + timedelta(seconds=revision.death_s - waited_s)
