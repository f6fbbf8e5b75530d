"""Times in the status by a clock that was ahead: of the operator that led before, or of this one before it was set.

Such a time would hold the job for as long as that clock was ahead. It becomes a time by the present clock, and what
waits for it waits as long as it was meant to.
"""

from __future__ import annotations

from datetime import timedelta

from sparkstate_operator import clock
from sparkstate_operator.decide import unconfirmed
from sparkstate_operator.decide.draft import Draft
from sparkstate_spec.periodic import SOON_S


def mend(draft: Draft) -> None:
    """Before anything is decided: an act cannot have begun later than now, and nobody waits longer for a lost driver
    than it can do harm."""
    _mend_intent(draft)
    unconfirmed.mend(draft, SOON_S)


def _mend_intent(draft: Draft) -> None:
    since = clock.parse(draft.intent.get("since"))
    if since is None or since <= draft.now + timedelta(seconds=SOON_S):
        return
    begin = clock.parse(draft.intent.get("notBefore"))
    moved = {} if begin is None else {"notBefore": draft.later((begin - since).total_seconds())}
    draft.status["intent"] = {**draft.intent, "since": clock.text(draft.now), **moved}
