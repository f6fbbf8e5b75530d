"""Times in the status by a clock that was ahead: of the operator that led before, or of this one before it was set.

Such a time would hold the job for as long as that clock was ahead. It becomes a time by the present clock, and what
waits for it waits as long as it was meant to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sparkstate_operator import clock
from sparkstate_operator.decide import unconfirmed
from sparkstate_operator.decide.draft import Draft
from sparkstate_spec.periodic import SOON_S


def mend(draft: Draft) -> None:
    """Before anything is decided: no act has begun later than now, nothing has failed later than now, and nobody waits
    longer for a lost driver than it can do harm."""
    _mend_intent(draft)
    _mend_restarts(draft)
    unconfirmed.mend(draft, SOON_S)


def _mend_intent(draft: Draft) -> None:
    since = clock.parse(draft.intent.get("since"))
    if since is None or since <= draft.now + timedelta(seconds=SOON_S):
        return
    begin = clock.parse(draft.intent.get("notBefore"))
    moved = {} if begin is None else {"notBefore": draft.later((begin - since).total_seconds())}
    draft.status["intent"] = {**draft.intent, "since": clock.text(draft.now), **moved}


def _mend_restarts(draft: Draft) -> None:
    """Such a failure or fence counted as one of this very moment until its time had come."""
    counts = draft.status.get("restarts") or {}
    for name in ("recent", "fenced"):
        times = [moment for text in counts.get(name) or () if (moment := clock.parse(text)) is not None]
        if times and max(times) > draft.now + timedelta(seconds=SOON_S):
            moved = [clock.text(moment) for moment in _moved(times, draft.now)]
            draft.status["restarts"] = counts = {**counts, name: moved}


def _moved(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """In order, the newest now. Those that the same clock told, as far as anybody can see, keep their distances."""
    soon, ahead = now + timedelta(seconds=SOON_S), max(times) - now
    return sorted(moment - ahead if moment > soon else moment for moment in times)
