"""Reads from the spec which state an attempt starts from."""

from __future__ import annotations

from sparkstate_operator import actions
from sparkstate_operator.core import job_life
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision


def instruction(draft: Draft, wanted: Revision, *, fresh: bool = False) -> actions.Start | None:
    """What the spec says about the state to start from; None if that is not there (yet)."""
    if wanted.get("startEmpty"):
        return actions.Start(empty=True)
    if wanted.get("restoreFrom.latest"):
        return actions.Start(latest=True)
    uri = wanted.get("restoreFrom.uri")
    reference = wanted.get("restoreFrom.snapshotRef.name")
    if reference:
        found = next((one for one in draft.seen.snapshots if one.name == reference), None)
        uri = found.status.get("uri") if found is not None and found.phase == "Completed" else None
        if uri is None:
            told = f"is {found.phase or 'new'}, not Completed" if found is not None else "does not exist"
            _block(
                draft, f"spec.restoreFrom.snapshotRef: StateSnapshot {reference} {told}; the job waits for it"
            )
            return None
    return actions.Start(uri=uri, fresh=fresh) if uri else actions.Start()


def _block(draft: Draft, message: str) -> None:
    """The state to restore from is not there (yet). A running attempt goes on, and the generation counts as not yet
    judged, so that the next look asks again."""
    draft.put("observedGeneration", draft.seen.job.status.get("observedGeneration"))
    if draft.pod is None:
        draft.happened(job_life.NOT_THERE)
        draft.say(message)
    else:
        draft.degraded = ("RestoreBlocked", message)
    draft.wait(30.0)


def changed(draft: Draft, old: Revision | None, wanted: Revision) -> actions.Start | None:
    """A start instruction counts again if it was changed. Otherwise the present one goes on, unless it is void."""
    names = ("startEmpty", "restoreFrom")
    before = {name: old.get(name) for name in names} if old is not None else None
    if before is not None and before != {name: wanted.get(name) for name in names}:
        return instruction(draft, wanted, fresh=True)
    return draft.start
