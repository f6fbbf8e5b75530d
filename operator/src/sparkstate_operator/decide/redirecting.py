"""Reads which state the next attempt starts from, where the spec changes again before that attempt is there.

The first change may have put a start instruction into the status: ``restoreFrom`` of its spec, or ``empty`` by its
``upgradeMode``. Nothing was started by it, so the second change is judged as if it were the only one: by the revision
and the instruction of the attempt that the next one follows. Without that, a second ``restoreFrom`` was lost, and a
change that was taken back still gave the state up.
"""

from __future__ import annotations

from sparkstate_operator import actions, observed
from sparkstate_operator.core import revisions, settings
from sparkstate_operator.decide import instructing, rebuilding, refusing
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.model.base import ChangeKind
from sparkstate_operator.plan import Revision

KEEPS_RUNNING = frozenset({None, ChangeKind.IGNORE})
"""Kinds of change that need no attempt of their own."""


def start(draft: Draft, wanted: Revision) -> actions.Start | instructing.MissingState:
    """The start instruction for ``wanted``, in place of the revision that would have come. Changes nothing."""
    old, before = _followed(draft)
    found = instructing.changed(draft, old, wanted, before)
    same = found == before and not instructing.is_changed(old, wanted)
    return actions.Start(empty=True) if same and _gives_state_up(draft, old, wanted) else found


def refuse(draft: Draft, wanted: Revision, start: actions.Start) -> bool:
    """Refuse ``wanted`` if it cannot begin as ``start`` says, and say whether it was refused. Without state, it would
    have fewer key groups than shards. The version before it is then started instead. A spec that suspends the job is
    not judged, for its state stays."""
    found = (
        []
        if draft.is_asked_to_rest or not _begins_empty(draft, start)
        else settings.beyond_default(wanted.resolved)
    )
    if found:
        why = "; ".join(map(str, found))
        refusing.of_key_groups(draft, wanted, why, goes_on="the version before it is started")
    return bool(found)


def _begins_empty(draft: Draft, start: actions.Start) -> bool:
    """Whether it is certain that nothing has begun by this instruction. One that is carried on has perhaps begun its
    lineage, which has its key groups."""
    return start.empty and (not start.since or (start.since == draft.attempt and not _is_made(draft)))


def present(draft: Draft) -> actions.Start:
    """The start instruction of the attempt that the status names. Its successor's may have taken its place in the
    status: that one has no number in ``since`` yet, or is empty because the next spec names no state any more."""
    told = draft.start
    if told.since:
        return told
    aim, revision = draft.aim, draft.revision
    same = aim is None or revision is None or instructing.given(aim) == instructing.given(revision)
    if same and not told.document():
        return told
    trace = _trace(draft)
    made = trace is not None and trace.attempt == draft.attempt
    return rebuilding.start_of(trace) if trace is not None and made else actions.Start()


def go_back(draft: Draft) -> None:
    """The job is suspended, so no attempt follows now. The one that does when the job goes on is judged by the attempt
    that has ended. Where nothing was made of the newest number, revision and start instruction become those of the
    attempt before it again: a change that was taken back during the suspension gave the state up, or began anew from
    the savepoint of long ago. That one may have left no trace, if a pod was refused whose ConfigMap is there: then at
    least ``upgradeMode`` gives nothing up. An attempt that is made keeps both: its driver may have begun a lineage."""
    older = _older(draft)
    if older is None:
        given_up = not _is_made(draft) and _is_emptied(draft)
        draft.put("start", None if given_up else present(draft).document() or None)
    elif _starts_otherwise(draft, older):
        draft.put("revision", rebuilding.revision_of(older) or draft.status.get("revision"))
        draft.put("start", rebuilding.start_of(older).document() or None)


def _older(draft: Draft) -> observed.Child | None:
    """The ConfigMap of the attempt before the newest one, if nothing is made of that one."""
    return None if _is_made(draft) else _trace(draft)


def _is_made(draft: Draft) -> bool:
    """Whether a pod of the newest attempt may have lived."""
    trace = _trace(draft)
    return draft.pod is not None or (trace is not None and trace.attempt == draft.attempt)


def _starts_otherwise(draft: Draft, older: observed.Child) -> bool:
    """Whether the newest attempt would start from other state than the one before it. If not, the instruction in the
    status is that one's, and may be void by now, which its ConfigMap does not tell. One without a number is nobody's:
    a change that came during the stop has put it there. A revision that was not read counts as another one."""
    name, revision = rebuilding.revision_of(older), draft.revision
    known = draft.revisions.get(name or "")
    unread = known is None or revision is None
    other = unread or (revision is not None and instructing.is_changed(known, revision))
    told = draft.start
    unasked = bool(told.document()) and told.since in (0, draft.attempt)
    return unasked or (name != draft.status.get("revision") and other)


def _followed(draft: Draft) -> tuple[Revision | None, actions.Start]:
    """The attempt that the next one follows: its revision, None where that was lost, and its start instruction."""
    revision, trace = draft.revision, _trace(draft)
    if revision is None:
        return None, draft.start
    if _is_made(draft):
        return revision, present(draft)
    # Nothing is made of the attempt that the status names, so its successor follows the one before it.
    known = draft.revisions.get(rebuilding.revision_of(trace) or "")
    if trace is not None and known is not None:
        return known, rebuilding.start_of(trace)
    told = draft.start
    return revision, told if told.since and not _is_emptied(draft) else actions.Start()


def _trace(draft: Draft) -> observed.Child | None:
    """The ConfigMap of the newest attempt whose pod may have lived."""
    seen = draft.seen
    traces = [child for child in seen.config_maps if child.attempt and child.attempt != seen.never_made]
    return max(traces, key=lambda child: child.attempt or 0, default=None)


def _gives_state_up(draft: Draft, old: Revision | None, wanted: Revision) -> bool:
    """Whether an upgrade is under way, and ``wanted`` makes it a stateless one. A change that is taken back does not
    count. Where the old revision was lost, nobody can tell, and the instruction in the status stays as it is."""
    upgrades = draft.intent.get("action") == "upgrade" or _is_emptied(draft)
    if not upgrades or old is None or wanted.effective("upgradeMode") != "stateless":
        return False
    return revisions.strongest(revisions.change(old.resolved, wanted.resolved).paths) not in KEEPS_RUNNING


def _is_emptied(draft: Draft) -> bool:
    """Whether the attempt that is being made would begin without state by its ``upgradeMode`` alone."""
    told, revision = draft.start, draft.revision
    given_up = told.empty and told.since == draft.attempt and draft.intent.get("action") == "start"
    return given_up and revision is not None and not revision.get("startEmpty")
