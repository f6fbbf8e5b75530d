"""A new attempt: its number, its start instruction, and when its pod may be made.

An attempt's number is written into the status before anything of it exists, and never used again. Its pod is made
only when every older driver is known to be dead, or has had the time after which it can do no more harm.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.decide import progress
from sparkstate_operator.decide.draft import TERMINAL, Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision


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
    if draft.phase not in ("Upgrading", "Failing"):
        draft.phase = "Starting"


def go_on(draft: Draft) -> None:
    """The intent is ``start``: make the pod, or say what it waits for."""
    if draft.pod is not None:
        draft.settle()
        draft.phase = "Starting"
        draft.say("")
        draft.wait(0.0)
        return
    _take_newest(draft)
    revision = draft.revision
    if revision is None:
        raise LookupError(
            f"the revision {draft.status.get('revision')!r} of attempt {draft.attempt} was not read"
        )
    if _used(draft):
        _burn(draft, revision)
        return
    if not _others_are_dead(draft, revision):
        return
    begun = clock.parse(draft.intent.get("notBefore"))
    if begun is not None and draft.now < begun:
        draft.wait_until(begun)
        return
    draft.acts.append(actions.EnsureChildren(revision.name))
    draft.acts.append(actions.StartAttempt(draft.attempt, revision.name, draft.start))
    draft.note("AttemptStarted", f"attempt {draft.attempt} starts{_told(draft.start)}")
    draft.wait(1.0)


def _told(start: actions.Start) -> str:
    if start.uri:
        return f" from {start.uri}"
    return " without state, as told" if start.empty else ""


def _take_newest(draft: Draft) -> None:
    """The spec changed again before the pod was made: it starts as it is wanted now."""
    if draft.wanted is None or draft.status.get("revision") == draft.wanted.name or _used(draft):
        return
    draft.put("revision", draft.wanted.name)
    draft.status["intent"] = {**draft.intent, "revision": draft.wanted.name}


def _used(draft: Draft) -> bool:
    """Whether a pod of this number may have lived: its ConfigMap exists, and no refusal of the pod is known."""
    if draft.seen.never_made == draft.attempt:
        return False
    return any(child.attempt == draft.attempt for child in draft.seen.config_maps)


def _burn(draft: Draft, revision: Revision) -> None:
    """The operator was restarted between the ConfigMap and the pod, or the pod came and went unseen."""
    draft.note(
        "AttemptSkipped",
        f"whether a pod of attempt {draft.attempt} ran is not known; its number is not used again",
        warning=True,
    )
    begin(draft, revision, draft.start, delay_s=revision.death_s)


def _others_are_dead(draft: Draft, revision: Revision) -> bool:
    clear = True
    for pod in draft.seen.drivers:
        if pod.attempt == draft.attempt or pod.death is Death.CONFIRMED:
            continue
        if pod.deleting_at is None:
            draft.acts.append(actions.DeletePod(pod, "another attempt is to run"))
            draft.wait(5.0)
            clear = False
            continue
        harmless = harmless_at(pod, revision)
        if draft.now < harmless:
            draft.say(
                f"attempt {draft.attempt} waits, until {clock.text(harmless)} at most: nobody has confirmed "
                f"that the driver of attempt {pod.attempt} on node {pod.node} has ended"
            )
            draft.wait_until(harmless)
            clear = False
    return clear


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
    """When a pod that is being deleted can do no more harm, though nobody confirms its end."""
    if pod.deleting_at is None:
        raise ValueError(f"pod {pod.name} is not being deleted")
    return pod.deleting_at + timedelta(seconds=revision.death_s)
