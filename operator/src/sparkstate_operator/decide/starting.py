"""A new attempt: its number, its start instruction, and when its pod may be made.

An attempt's number is written into the status before anything of it exists, and never used again. Its pod is made
when every older driver is known to be dead, or is about to end, or has had the time after which it can do no more harm.
Beside one that is about to end, the new driver prepares itself, and claims the state only when the old one has
released it, or is known to be dead, or has had that time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.core import job_life
from sparkstate_operator.decide import progress
from sparkstate_operator.decide.draft import TERMINAL, Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import AWAY_S, Revision


def begin(
    draft: Draft, revision: Revision, start: actions.Start, *, delay_s: float = 0.0, above: int = 0
) -> None:
    """Take the next number for ``revision``. ``above``: the number must be larger than this one too."""
    number = max(draft.attempt, above) + 1
    draft.status["attempt"] = number
    draft.put("revision", revision.name)
    if start.document() and not start.since:
        start = replace(start, since=number)
    draft.put("start", start.document() or None)
    counts = dict(draft.status.get("restarts") or {})
    progress.put_restarts(draft, {**counts, "attemptKubelet": 0, "attemptEngine": 0})
    draft.begin(
        "start",
        attempt=number,
        revision=revision.name,
        notBefore=draft.later(delay_s) if delay_s > 0 else None,
    )
    draft.happened(job_life.BEGUN)


def go_on(draft: Draft) -> None:
    """The intent is ``start``: make the pod, or say what it waits for."""
    if draft.pod is not None:
        draft.settle()
        draft.happened(job_life.MADE)
        draft.say("")
        draft.wait(0.0)
        return
    if _take_newest(draft):
        return
    revision = draft.revision
    if revision is None:
        raise LookupError(
            f"the revision {draft.status.get('revision')!r} of attempt {draft.attempt} was not read"
        )
    if _used(draft):
        _burn(draft, revision)
        return
    if not others_are_over(draft, revision, or_terminating=True):
        return
    begun = clock.parse(draft.intent.get("notBefore"))
    if begun is not None and draft.now < begun:
        draft.wait_until(begun)
        return
    draft.acts.append(actions.EnsureChildren(revision.name))
    predecessor_s = _predecessor_s(draft, revision)
    draft.acts.append(actions.StartAttempt(draft.attempt, revision.name, draft.start, predecessor_s))
    draft.note("AttemptStarted", f"attempt {draft.attempt} starts{_told(draft.start)}")
    draft.wait(1.0)


def _told(start: actions.Start) -> str:
    if start.uri:
        return f" from {start.uri}"
    return " without state, as requested" if start.empty else ""


def _take_newest(draft: Draft) -> bool:
    """The spec changed again before the pod was made: it starts as it is wanted now. Whether that takes another number:
    an attempt's ConfigMap holds its spec and cannot be changed."""
    wanted = draft.wanted
    if wanted is None or draft.status.get("revision") == wanted.name:
        return False
    if not _left_a_trace(draft):
        draft.put("revision", wanted.name)
        draft.status["intent"] = {**draft.intent, "revision": wanted.name}
        return False
    if draft.seen.never_made != draft.attempt:
        return False
    begin(draft, wanted, draft.start)
    return True


def _left_a_trace(draft: Draft) -> bool:
    return any(child.attempt == draft.attempt for child in draft.seen.config_maps)


def _used(draft: Draft) -> bool:
    """Whether a pod of this number may have lived: its ConfigMap exists, and it is not known that none was made.

    After a creation without a clear answer, neither this look nor the watch has shown the pod. Creating it under the
    same name makes it at most once.
    """
    seen, number = draft.seen, draft.attempt
    if seen.never_made == number or (seen.unanswered == number and number not in seen.sightings):
        return False
    return _left_a_trace(draft)


def _burn(draft: Draft, revision: Revision) -> None:
    """Skip a number whose pod may have run unseen: the operator was restarted between ConfigMap and pod, or the pod
    came and went. Two pods of one number would be two drivers that the storage cannot tell apart."""
    draft.note(
        "AttemptSkipped",
        f"nobody knows whether a pod of attempt {draft.attempt} ran; its number is not used again",
        warning=True,
    )
    begin(draft, revision, draft.start, delay_s=revision.death_s)


def others_are_over(draft: Draft, revision: Revision, *, or_terminating: bool = False) -> bool:
    """Whether no driver of an older attempt can do any harm; asks those that nobody has asked yet to end.
    ``or_terminating``: one that terminates gracefully does not count."""
    clear = True
    for pod in older_alive(draft):
        if pod.deleting_at is None:
            draft.acts.append(actions.DeletePod(pod, "another attempt is to run"))
            draft.wait(5.0)
            clear = False
            continue
        harmless = harmless_at(pod, revision)
        if draft.now < harmless and not (or_terminating and pod.terminating_gracefully):
            draft.say(
                f"attempt {draft.attempt} waits until {clock.text(harmless)} at the latest: nobody has confirmed "
                f"that the driver of attempt {pod.attempt} on node {pod.node} has ended"
            )
            draft.wait_until(harmless)
            clear = False
    return clear


def others_are_harmless(draft: Draft, revision: Revision) -> bool:
    """Whether no driver of an older attempt can do any harm."""
    return all(
        pod.deleting_at is not None and draft.now >= harmless_at(pod, revision) for pod in older_alive(draft)
    )


def _predecessor_s(draft: Draft, revision: Revision) -> int:
    """How long the new driver has to wait at most for those that are about to end; it counts from its own begin, which
    is later than now."""
    left = [(harmless_at(pod, revision) - draft.now).total_seconds() for pod in older_alive(draft)]
    return math.ceil(max([0.0, *left]))


def older_alive(draft: Draft) -> list[observed.Pod]:
    """Drivers of older attempts that nobody has confirmed to be dead."""
    return [
        pod for pod in draft.seen.drivers if pod.attempt < draft.attempt and pod.death is not Death.CONFIRMED
    ]


def let_claim(draft: Draft) -> None:
    """A driver that waits for an older one's end hears of it, should that one have died without a word of its own."""
    pod, report = draft.pod, draft.seen.report
    if pod is None or report is None or report.waits_for is None:
        return
    last = draft.seen.sightings.get(report.waits_for)
    if last is not None and last.death is Death.CONFIRMED and not older_alive(draft):
        draft.acts.append(actions.LetClaim(pod))


def unconfirmed_s(draft: Draft, revision: Revision) -> float:
    """How long the newest attempt's driver may still do harm, where its pod is gone and nobody has said that its
    process ended; 0 where it cannot."""
    if draft.attempt == 0 or draft.pod is not None or draft.phase in (*TERMINAL, "Suspended"):
        return 0.0
    sighting = draft.seen.sightings.get(draft.attempt)
    if sighting is not None and sighting.death is Death.CONFIRMED:
        return 0.0
    return revision.death_s


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
