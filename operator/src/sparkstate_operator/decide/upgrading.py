"""The newest valid spec is not the one that runs: which step leads to it.

A running attempt is given up last. Before it is asked to end, the change has to need that, the state to go on from has
to be there, and the API server has to take the new pod.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sparkstate_operator import actions
from sparkstate_operator.core import revisions, settings
from sparkstate_operator.decide import (
    checking,
    failover,
    history,
    instructing,
    precedence,
    redirecting,
    refusing,
    starting,
    stopping,
)
from sparkstate_operator.decide.draft import IDLE, TERMINAL, Draft
from sparkstate_operator.model.base import ChangeKind
from sparkstate_operator.plan import Revision
from sparkstate_spec import built_in


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The revision that runs, the one that is wanted, and what lies between them."""

    old: Revision | None
    """None where it was lost. Nobody can tell then what has changed."""
    wanted: Revision
    paths: tuple[str, ...]
    """Fields that differ."""
    strongest: ChangeKind | None
    """The strongest kind of change among them."""
    start: actions.Start | instructing.MissingState
    """The state that the next attempt would start from."""


Step = Callable[[Draft, Upgrade], None]


def go_on(draft: Draft, wanted: Revision) -> None:
    """One step towards ``wanted``."""
    upgrade = between(draft, draft.revision, wanted)
    step = precedence.first(STEPS, draft, upgrade) or _replace
    step(draft, upgrade)


def between(draft: Draft, old: Revision | None, wanted: Revision) -> Upgrade:
    """The changes between two revisions."""
    change = revisions.change(old.resolved, wanted.resolved) if old is not None else None
    paths = tuple(change.paths) if change else ()
    return Upgrade(old, wanted, paths, revisions.strongest(paths), instructing.changed(draft, old, wanted))


# -- which step, in this order -----------------------------------------------------------------------------------------


def _needs_no_attempt(_: Draft, upgrade: Upgrade) -> Step | None:
    """First, because nothing has to be there for it, neither state nor room for a pod."""
    return _adopt if upgrade.old is not None and upgrade.strongest in redirecting.KEEPS_RUNNING else None


def _state_is_missing(_: Draft, upgrade: Upgrade) -> Step | None:
    """Before anything is stopped or started: an attempt that runs goes on while its successor could not be restored."""
    start = upgrade.start
    return partial(_wait_for_state, missing=start) if isinstance(start, instructing.MissingState) else None


def _nothing_runs(draft: Draft, _: Upgrade) -> Step | None:
    """Before the dry run's answer: without a predecessor there is nothing to keep, and the start tells a refusal."""
    return _begin if draft.pod is None or draft.phase in TERMINAL else None


def _key_groups_are_too_few(draft: Draft, upgrade: Upgrade) -> Step | None:
    """Before the API server is asked: a version that gives the state up would begin with fewer key groups than it has
    shards. Its driver refused that, when the one that ran had been stopped for it. After the rule about nothing that
    runs: there the version goes on from the state, which brings its own key groups."""
    found = settings.beyond_default(upgrade.wanted.resolved) if _begins_empty(draft, upgrade) else []
    return partial(_keep_state, why="; ".join(map(str, found))) if found else None


def _pod_is_refused(draft: Draft, _: Upgrade) -> Step | None:
    """Before the check of the state, which needs such a pod. A pod that a quota alone refuses, and that fits once the
    old pods are gone, is not refused: waiting would never give it room."""
    return _stay if draft.seen.refused and not refusing.fits_when_stopped(draft) else None


def _state_is_unproven(draft: Draft, upgrade: Upgrade) -> Step | None:
    """After the dry run, because only a pod that may be made can check the state; last before the stop."""
    start = upgrade.start
    if isinstance(start, instructing.MissingState):
        return None
    check = checking.Check(upgrade.wanted, start, upgrade.strongest, _begins_empty(draft, upgrade))
    found = checking.answer(draft, check)
    match found.verdict:
        case checking.Verdict.FITS:
            return None
        case checking.Verdict.UNKNOWN:
            return partial(_replace_unchecked, why=found.why)
    return partial(_ask, check=check, found=found)


STEPS = (
    _needs_no_attempt,
    _state_is_missing,
    _nothing_runs,
    _key_groups_are_too_few,
    _pod_is_refused,
    _state_is_unproven,
)
"""None of them: the attempt that runs is replaced."""


# -- the steps ---------------------------------------------------------------------------------------------------------


def _adopt(draft: Draft, upgrade: Upgrade) -> None:
    """The attempt that runs counts as one of the new revision."""
    draft.put("revision", upgrade.wanted.name)
    draft.wait(0.0)


def _wait_for_state(draft: Draft, upgrade: Upgrade, missing: instructing.MissingState) -> None:
    """The job goes on by its old revision: its attempt is watched, and replaced if it ends, and its savepoints are
    taken and let go. A job of which nothing is meant to run waits."""
    old, idle = upgrade.old, draft.phase in IDLE
    checking.end(draft)
    if old is not None:
        draft.wanted = old
        if not idle:
            failover.watch(draft, old)
        history.keep(draft, old)
    if idle:
        instructing.wait_for(draft, missing)
    else:
        instructing.put_off(draft, missing)


def _begin(draft: Draft, upgrade: Upgrade) -> None:
    starting.begin_where_none_runs(draft, upgrade.wanted, _start(upgrade))


def _keep_state(draft: Draft, upgrade: Upgrade, why: str) -> None:
    checking.end(draft)
    refusing.of_key_groups(draft, upgrade.wanted, why, goes_on="the old version runs on")


def _stay(draft: Draft, upgrade: Upgrade) -> None:
    checking.end(draft)
    refusing.of_pod(draft, upgrade.wanted)


def _ask(draft: Draft, upgrade: Upgrade, check: checking.Check, found: checking.Answer) -> None:
    """The new version may take ten minutes to answer. Meanwhile the job goes on by its old revision: its progress is
    noted, and its savepoints are taken and let go."""
    if upgrade.old is not None:
        failover.listen(draft, upgrade.old)
        history.keep(draft, upgrade.old)
    checking.go_on(draft, check, found)


def _replace_unchecked(draft: Draft, upgrade: Upgrade, why: str) -> None:
    told = f"the upgrade goes on without a check of the state: {why}"
    draft.note("StateNotChecked", told, warning=True)
    _replace(draft, upgrade)


def _replace(draft: Draft, upgrade: Upgrade) -> None:
    """Ask the attempt to end. The dry run of its successor's pod comes before that (``check``)."""
    checking.end(draft)
    refusing.drop_verdict(draft)
    start = _start(upgrade)
    draft.check = actions.StartAttempt(draft.attempt + 1, upgrade.wanted.name, start)
    mode = draft.seen.job.spec.get("upgradeMode", built_in.value("upgradeMode"))
    begins_empty = _begins_empty(draft, upgrade)
    draft.put("start", (actions.Start(empty=True) if begins_empty else start).document() or None)
    full = (
        "; the quota has no room for the new pod before the old one has ended" if draft.seen.refused else ""
    )
    told = ", ".join(upgrade.paths) if upgrade.old is not None else "the spec"
    draft.note("Upgrading", f"{told} changed; upgrade mode {mode}{full}")
    stopping.begin(draft, "upgrade", savepoint=mode == "savepoint", revision=upgrade.wanted.name)


# -- what steps have in common -----------------------------------------------------------------------------------------


def _start(upgrade: Upgrade) -> actions.Start:
    start = upgrade.start
    if isinstance(start, instructing.MissingState):
        raise LookupError(f"no attempt may begin: {start.message}")
    return start


def _begins_empty(draft: Draft, upgrade: Upgrade) -> bool:
    mode = draft.seen.job.spec.get("upgradeMode", built_in.value("upgradeMode"))
    return bool(mode == "stateless" and _may_drop_state(draft, upgrade))


def _may_drop_state(draft: Draft, upgrade: Upgrade) -> bool:
    """Whether a stateless upgrade begins empty. A savepoint that the change names is taken up. After a lost status
    nobody can tell whether a user asked for this change, and so whether state may be given up."""
    told = upgrade.start != draft.start or instructing.is_changed(upgrade.old, upgrade.wanted)
    names_state = upgrade.strongest is ChangeKind.SAVEPOINT and told
    lost = not draft.seen.job.status.get("observedGeneration")
    return not names_state and not lost
