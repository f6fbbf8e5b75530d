"""Reads from the spec which state an attempt starts from.

Reading changes nothing. Waiting for state that is missing is a step of its own (``wait_for``), so that a rule can ask
for the start instruction before any step is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate_operator import actions, dependants
from sparkstate_operator.core import job_life
from sparkstate_operator.decide.draft import IDLE, Draft
from sparkstate_operator.plan import Revision

POLL_S = 30.0
"""The operator looks this often whether the missing state is there."""
_INSTRUCTIONS = ("startEmpty", "restoreFrom")


@dataclass(frozen=True, slots=True)
class MissingState:
    """The spec names state that is not there (yet)."""

    message: str


def instruction(draft: Draft, wanted: Revision, *, fresh: bool = False) -> actions.Start | MissingState:
    """The spec's instruction about the state to start from."""
    if wanted.get("startEmpty"):
        return actions.Start(empty=True)
    if wanted.get("restoreFrom.latest"):
        return actions.Start(latest=True)
    uri = wanted.get("restoreFrom.uri")
    reference = wanted.get("restoreFrom.snapshotRef.name")
    if reference:
        found = next((one for one in draft.seen.snapshots if one.name == reference), None)
        uri = found.status.get("uri") if found is not None and dependants.can_be_restored(found) else None
        if uri is None:
            told = f"is {found.phase or 'new'}, not Completed" if found is not None else "does not exist"
            return MissingState(
                f"spec.restoreFrom.snapshotRef: StateSnapshot {reference} {told}; the job waits for it"
            )
    return actions.Start(uri=uri, fresh=fresh) if uri else actions.Start()


def changed(
    draft: Draft, old: Revision | None, wanted: Revision, present: actions.Start | None = None
) -> actions.Start | MissingState:
    """A start instruction counts again if it was changed. Otherwise the present one goes on, unless it is void.
    ``present``: that of ``old``, by default the one in the status."""
    told = draft.start if present is None else present
    if not is_changed(old, wanted):
        return told
    found = instruction(draft, wanted, fresh=True)
    # A spec that names no state any more goes on from the job's own. Until there is a checkpoint of its own, that is
    # still what it was restored from, and a snapshot with that data goes by this instruction. The same holds if nothing
    # could be restored: the driver begins its lineage before it restores. An attempt without an instruction would take
    # that lineage for the job's own, and begin empty.
    return told if found == actions.Start() and told.uri else found


def is_changed(old: Revision | None, wanted: Revision) -> bool:
    """Whether two specs name different states to start from; False where the old one was lost."""
    return old is not None and given(old) != given(wanted)


def given(revision: Revision) -> dict[str, object]:
    """The fields of a spec that say which state to start from."""
    return {name: revision.get(name) for name in _INSTRUCTIONS}


def note_pending(draft: Draft, asked: Revision | None) -> None:
    """Write down whether the spec, ``asked``, names state from which a job that rests has to start when it goes on.
    Nothing else in the status tells: a suspended job's spec is accepted at once. An attempt that has begun was told.
    A spec that does not count takes nothing back: the job still waits for what an earlier one named. ``asked`` is None
    where the spec cannot run."""
    rests = draft.attempt > 0 and draft.phase in IDLE and not draft.intent
    waits = bool(draft.status.get("restorePending")) and not draft.accepted
    named = asked is not None and bool(asked.get("restoreFrom.uri") or asked.get("restoreFrom.snapshotRef"))
    ahead = asked is not None and (draft.revision is None or is_changed(draft.revision, asked))
    draft.put("restorePending", True if rests and (waits or (named and ahead)) else None)


def wait_for(draft: Draft, missing: MissingState) -> None:
    """A job without a driver waits in the phase ``RestoreBlocked``."""
    if draft.pod is not None:
        put_off(draft, missing)
        return
    _ask_again(draft)
    draft.happened(job_life.NOT_THERE)
    draft.say(missing.message)


def put_off(draft: Draft, missing: MissingState) -> None:
    """The spec that names the state waits for it, while an earlier one is carried out."""
    _ask_again(draft)
    draft.degraded = draft.degraded or ("RestoreBlocked", missing.message)


def _ask_again(draft: Draft) -> None:
    """The generation counts as not yet judged, so that the next look asks again. It may have been accepted before the
    state went missing: nobody would ask for it any more."""
    job = draft.seen.job
    judged = job.status.get("observedGeneration")
    draft.put("observedGeneration", job.generation - 1 if judged == job.generation else judged)
    draft.wait(POLL_S)
