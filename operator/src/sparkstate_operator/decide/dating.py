"""Times in the status by a clock that was ahead: of the operator that led before, or of this one before it was set.

Such a time would hold the job for as long as that clock was ahead. It becomes a time by the present clock, and what
waits for it waits as long as it was meant to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sparkstate_operator import clock
from sparkstate_operator.decide import unconfirmed
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.decide.snapshot_draft import SnapshotDraft
from sparkstate_operator.model.status import Condition
from sparkstate_spec.periodic import SOON_S


def mend(draft: Draft) -> None:
    """Before anything is decided: no act has begun later than now, nothing has failed later than now, and nobody waits
    longer for a lost driver than it can do harm."""
    _mend_intent(draft)
    _mend_restarts(draft)
    unconfirmed.mend(draft, SOON_S)


def mend_snapshot(draft: SnapshotDraft) -> None:
    """The same of a snapshot: it was asked for, and its deletion has begun, no later than now."""
    for name in ("triggeredTime", "deletionStartedTime"):
        moment = clock.parse(draft.status.get(name))
        if moment is not None and clock.is_ahead(moment, draft.seen.now):
            draft.put(name, clock.text(draft.seen.now))


def mended(conditions: Sequence[Condition], now: datetime) -> list[Condition]:
    """The same conditions, none of which has changed later than now."""
    return [
        one.model_copy(update={"last_transition_time": now})
        if clock.is_ahead(one.last_transition_time, now)
        else one
        for one in conditions
    ]


def _mend_intent(draft: Draft) -> None:
    since = clock.parse(draft.intent.get("since"))
    if since is None or not clock.is_ahead(since, draft.now):
        return
    begin = clock.parse(draft.intent.get("notBefore"))
    moved = {} if begin is None else {"notBefore": draft.later((begin - since).total_seconds())}
    draft.status["intent"] = {**draft.intent, "since": clock.text(draft.now), **moved}


def _mend_restarts(draft: Draft) -> None:
    """Such a failure or fence was younger than every limit until its time had come, and so it always counted."""
    counts = draft.status.get("restarts") or {}
    for name in ("recent", "fenced"):
        times = [moment for text in counts.get(name) or () if (moment := clock.parse(text)) is not None]
        if times and clock.is_ahead(max(times), draft.now):
            moved = [clock.text(moment) for moment in _moved(times, draft.now)]
            draft.status["restarts"] = counts = {**counts, name: moved}


def _moved(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """In order, the newest now. Those that the same clock told, as far as anybody can see, keep their distances."""
    ahead = max(times) - now
    return sorted(moment - ahead if clock.is_ahead(moment, now) else moment for moment in times)
