"""The last step of a decision: it makes the conditions, and decides which changes are worth a write now."""

from __future__ import annotations

from typing import Any

from sparkstate_operator import actions
from sparkstate_operator.core import conditions
from sparkstate_operator.decide import dating, lateness, memory_pressure, progress
from sparkstate_operator.decide.draft import TERMINAL, Draft
from sparkstate_operator.model.status import PROGRESS_FIELDS, Condition


def finished(draft: Draft) -> actions.Decision:
    """The decision, with conditions in its status. If only progress has changed, and the time to write progress has not
    come, the status stays as it was."""
    status = draft.status
    refused = status.get("refused")
    if refused and (draft.wanted is None or refused.get("revision") == status.get("revision")):
        status.pop("refused")
    # Each look says it anew: nobody else would take away the words of a driver that has ended.
    draft.put("progress", progress.under_way(draft))
    status["conditions"] = _conditions(draft)
    old = draft.seen.job.status
    changed = {name for name in {*old, *status} if old.get(name) != status.get(name)}
    if changed and changed <= set(PROGRESS_FIELDS) and not draft.seen.progress_due and not draft.intent:
        kept = {name: value for name, value in status.items() if name not in changed}
        return draft.decision({**kept, **{name: old[name] for name in changed if name in old}})
    return draft.decision(status)


def _conditions(draft: Draft) -> list[dict[str, Any]]:
    status = draft.status
    failure = status.get("lastFailure")
    refused = status.get("refused")
    degraded = draft.degraded or (("UpgradeRefused", refused["message"]) if refused else None)
    known = (Condition.model_validate(one) for one in draft.seen.job.status.get("conditions") or ())
    old = dating.mended(list(known), draft.now)
    anew = lateness.begins_anew(draft, old)
    facts = conditions.Facts(
        phase=status["phase"],
        generation=int(status.get("observedGeneration") or draft.seen.job.generation),
        message=str(status.get("message") or ""),
        invalid=conditions.Trouble("SpecInvalid", draft.invalid) if draft.invalid else None,
        degraded=conditions.Trouble(*degraded) if degraded else None,
        failure=_failure(draft, failure) if failure else None,
        pressure=memory_pressure.of(draft),
        late=lateness.of(draft, old, begins_anew=anew),
        begins_anew=anew,
    )
    found = conditions.of_job(facts, old, draft.now)
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found]


def _failure(draft: Draft, failure: dict[str, Any]) -> conditions.Trouble:
    message = str(draft.status.get("message") or "") if draft.phase in TERMINAL else ""
    return conditions.Trouble(
        str(failure.get("reason") or "Error"), message or str(failure.get("message") or "")
    )
