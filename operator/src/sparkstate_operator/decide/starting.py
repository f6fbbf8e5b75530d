"""A new attempt: its number, its start instruction, and when its pod may be made.

An attempt's number is written into the status before anything of it exists, and never used again. Its pod is made
when every older driver is known to be dead, or is about to end, or has had the time after which it can do no more harm.
Beside one that is about to end, the new driver prepares itself, and claims the state only when the old one has
released it, or is known to be dead, or has had that time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sparkstate_operator import actions, clock
from sparkstate_operator.core import job_life
from sparkstate_operator.decide import (
    instructing,
    precedence,
    predecessors,
    progress,
    redirecting,
    unconfirmed,
)
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision

Step = Callable[[Draft], None]


def begin(
    draft: Draft, revision: Revision, start: actions.Start, *, delay_s: float = 0.0, above: int = 0
) -> None:
    """Take the next number for ``revision``. ``above``: the number must be larger than this one too."""
    number = max(draft.attempt, above) + 1
    draft.status["attempt"] = number
    _take(draft, revision)
    _instruct(draft, start)
    counts = dict(draft.status.get("restarts") or {})
    progress.put_restarts(draft, {**counts, "attemptKubelet": 0, "attemptEngine": 0})
    draft.begin(
        "start",
        attempt=number,
        revision=revision.name,
        notBefore=draft.later(delay_s) if delay_s > 0 else None,
    )
    draft.happened(job_life.BEGUN)


def begin_where_none_runs(draft: Draft, revision: Revision, start: actions.Start) -> None:
    """The same where no attempt is meant to run. If nobody knows whether the newest one's driver has ended, its
    successor waits until that driver can do no more harm."""
    judged = draft.revision or revision
    delay_s = predecessors.unconfirmed_s(draft, judged)
    if delay_s > 0:
        unconfirmed.lose(draft, judged)
    begin(draft, revision, start, delay_s=delay_s)


def _take(draft: Draft, revision: Revision) -> None:
    """The attempt is one of ``revision``. Failures of an earlier one say nothing about it, and were perhaps counted for
    another restart strategy."""
    if draft.status.get("revision") != revision.name:
        counts = dict(draft.status.get("restarts") or {})
        progress.put_restarts(draft, {**counts, "recent": []})
        draft.put("revision", revision.name)


def _instruct(draft: Draft, start: actions.Start) -> None:
    """A new instruction is given to the newest attempt; one that is carried on keeps its number."""
    if start.document() and not start.since:
        start = replace(start, since=draft.attempt)
    draft.put("start", start.document() or None)


def go_on(draft: Draft) -> None:
    """The intent is ``start``: make the pod, or say what it waits for."""
    _follow_spec(draft)
    step = precedence.first(STEPS, draft) or _make
    step(draft)


def _follow_spec(draft: Draft) -> None:
    """The spec changed again before anything of the attempt was made: it starts as it is wanted now. If the state for
    that is missing, the attempt is made as it was wanted before, and the change waits. So it is if the change would
    begin without state, with too few key groups for its shards: its driver would only refuse it."""
    wanted = draft.wanted
    if draft.pod is not None or wanted is None or not _is_changed(draft):
        return
    start = redirecting.start(draft, wanted)
    if isinstance(start, instructing.MissingState):
        instructing.put_off(draft, start)
    elif _may_give_way(draft) and redirecting.refuse(draft, wanted, start):
        draft.wanted = draft.revision
    elif not _left_a_trace(draft):
        _instruct(draft, start)
        _take(draft, wanted)
        draft.status["intent"] = {**draft.intent, "revision": wanted.name}


# -- which step, in this order -----------------------------------------------------------------------------------------


def _is_made(draft: Draft) -> Step | None:
    """First, because its pod is there, whatever is wanted by now."""
    return _end_act if draft.pod is not None else None


def _is_refused_and_changed(draft: Draft) -> Step | None:
    """Its pod was refused, and will be as long as it is asked for in the same way. An attempt's ConfigMap holds its
    spec and cannot be changed, so the newest spec takes another number, unless the state for it is missing."""
    wanted = draft.wanted
    if wanted is None or not _is_changed(draft) or draft.seen.never_made != draft.attempt:
        return None
    start = redirecting.start(draft, wanted)
    if isinstance(start, instructing.MissingState):
        return None
    return partial(_renumber, revision=wanted, start=start)


def _may_have_lived(draft: Draft) -> Step | None:
    """Before older drivers are asked to end: to skip the number needs nothing of them, and the next one waits for them
    and for whatever ran under this one."""
    return _burn if _used(draft) else None


def _older_may_write(draft: Draft) -> Step | None:
    """Before the pause of the restart strategy: an older driver that nobody has asked to end is asked now, so that it
    ends during the pause."""
    clear = predecessors.are_harmless(draft, _revision(draft), or_terminating=True)
    return _end_older if not clear else None


def _pauses(draft: Draft) -> Step | None:
    """Last: nothing but the time is missing."""
    begin_at = clock.parse(draft.intent.get("notBefore"))
    return (
        partial(Draft.wait_until, moment=begin_at) if begin_at is not None and draft.now < begin_at else None
    )


STEPS = (_is_made, _is_refused_and_changed, _may_have_lived, _older_may_write, _pauses)
"""None of them: its pod is made."""


def _is_changed(draft: Draft) -> bool:
    return draft.wanted is not None and draft.status.get("revision") != draft.wanted.name


def _left_a_trace(draft: Draft) -> bool:
    return any(child.attempt == draft.attempt for child in draft.seen.config_maps)


def _may_give_way(draft: Draft) -> bool:
    """Whether the newest spec takes this attempt's place: nothing of it is there, or its pod was refused, so that
    another number follows. Any other attempt is followed by an upgrade, which is judged by then."""
    return not _left_a_trace(draft) or draft.seen.never_made == draft.attempt


def _used(draft: Draft) -> bool:
    """Whether a pod of this number may have lived: its ConfigMap exists, and it is not known that none was made.

    After a creation without a clear answer, neither this look nor the watch has shown the pod. Creating it under the
    same name makes it at most once.
    """
    seen, number = draft.seen, draft.attempt
    if seen.never_made == number or (seen.unanswered == number and number not in seen.sightings):
        return False
    return _left_a_trace(draft)


def _revision(draft: Draft) -> Revision:
    revision = draft.revision
    if revision is None:
        raise LookupError(
            f"the revision {draft.status.get('revision')!r} of attempt {draft.attempt} was not read"
        )
    return revision


# -- the steps ---------------------------------------------------------------------------------------------------------


def _end_act(draft: Draft) -> None:
    if draft.start.begins_lineage:
        # Those of the state that it leaves; its driver reports those of its own. Not before its pod is there: until
        # then a suspension may take the instruction back, and the state is the job's as before.
        draft.put("shards", None)
    draft.end_act()
    draft.happened(job_life.MADE)
    draft.say("")
    draft.wait(0.0)


def _renumber(draft: Draft, revision: Revision, start: actions.Start) -> None:
    """A request before the refused one may have had no answer, and its pod may run unseen."""
    delay_s = 0.0
    if not draft.seen.never_had_pod(draft.attempt):
        delay_s = _revision(draft).death_s
        unconfirmed.lose(draft, _revision(draft))
    begin(draft, revision, start, delay_s=delay_s)


def _burn(draft: Draft) -> None:
    """Skip a number whose pod may have run unseen: the operator was restarted between ConfigMap and pod, or the pod
    came and went. Two pods of one number would be two drivers that the storage cannot tell apart."""
    revision = _revision(draft)
    draft.note(
        "AttemptSkipped",
        f"nobody knows whether a pod of attempt {draft.attempt} ran; its number is not used again",
        warning=True,
    )
    unconfirmed.lose(draft, revision)
    begin(draft, revision, draft.start, delay_s=revision.death_s)


def _end_older(draft: Draft) -> None:
    predecessors.end(draft, _revision(draft), or_terminating=True)


def _make(draft: Draft) -> None:
    revision = _revision(draft)
    draft.acts.append(actions.EnsureChildren(revision.name))
    predecessor_s = predecessors.longest_wait_s(draft, revision)
    draft.acts.append(actions.StartAttempt(draft.attempt, revision.name, draft.start, predecessor_s))
    draft.note("AttemptStarted", f"attempt {draft.attempt} starts{_told(draft.start)}")
    draft.wait(1.0)


def _told(start: actions.Start) -> str:
    if start.uri:
        return f" from {start.uri}"
    return " without state, as requested" if start.empty else ""
