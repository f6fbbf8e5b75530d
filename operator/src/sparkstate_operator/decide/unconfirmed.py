"""Drivers whose pods are gone, although nobody has confirmed that their processes have ended.

The status has them with the time after which they can do no more harm. That time counts from the first look without the
pod. It is in the status because a suspension, a deletion or another operator must not forget it. A driver of an older
attempt is there without a time while its pod is, so that nobody overlooks that the pod has gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import clock
from sparkstate_operator.core import naming
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import DEFAULT_DEATH_S, Revision

_FIELD = "unconfirmed"


@dataclass(frozen=True, slots=True)
class Lost:
    """A driver whose pod is gone, and when it can do no more harm."""

    attempt: int
    harmless_at: datetime


def lose(draft: Draft, revision: Revision) -> None:
    """The newest attempt's pod is gone, and nobody has confirmed its end: the time begins, unless it has."""
    if _left_s(draft, draft.attempt) is None:
        _put(draft, {**_known(draft), draft.attempt: draft.later(revision.death_s)})


def left_s(draft: Draft, attempt: int, revision: Revision) -> float:
    """How long a driver whose pod is gone may still do harm; 0 or less where it cannot."""
    if _is_dead(draft, attempt):
        return 0.0
    left = _left_s(draft, attempt)
    return revision.death_s if left is None else left


def of_older(draft: Draft, revision: Revision) -> Lost | None:
    """Of the drivers of older attempts that are gone and may still do harm the one that may for longest."""
    there = {pod.attempt for pod in draft.seen.drivers}
    found = (
        Lost(attempt, draft.now + timedelta(seconds=left))
        for attempt in _known(draft)
        if attempt < draft.attempt and attempt not in there and (left := left_s(draft, attempt, revision)) > 0
    )
    return max(found, key=lambda one: one.harmless_at, default=None)


def remember(draft: Draft, dangerous: frozenset[int]) -> None:
    """At the end of a decision. ``dangerous``: the older attempts whose pods are there and may do harm. Should such a
    pod vanish before its end is confirmed, its time begins with the first look without it."""
    there = {pod.attempt for pod in draft.seen.drivers}
    known = {attempt: at for attempt, at in _known(draft).items() if attempt not in there}
    gone = {
        attempt: at or draft.later(_death_s(draft))
        for attempt, at in known.items()
        if not _is_dead(draft, attempt) and not _is_over(draft, attempt)
    }
    _put(draft, {**gone, **dict.fromkeys(dangerous)})


def attempts(draft: Draft) -> frozenset[int]:
    """The attempts of all these drivers. Their ConfigMaps stay, as traces for :func:`recover`."""
    return frozenset(_known(draft))


def recover(draft: Draft) -> None:
    """The status was lost. The time begins anew for each older attempt whose ConfigMap is there without a pod."""
    there = {pod.attempt for pod in draft.seen.drivers}
    traces = {child.attempt or naming.TRACE for child in draft.seen.config_maps}
    lost = {one for one in traces - there if naming.TRACE < one < draft.attempt and not _is_dead(draft, one)}
    if lost:
        _put(draft, {**dict.fromkeys(lost, draft.later(_death_s(draft))), **_known(draft)})


def mend(draft: Draft, soon_s: float) -> None:
    """No time lies further ahead than a driver can do harm; ``soon_s`` is allowed to another clock."""
    longest_s = _death_s(draft)
    far = [one for one in _known(draft) if (_left_s(draft, one) or 0.0) > longest_s + soon_s]
    if far:
        _put(draft, {**_known(draft), **dict.fromkeys(far, draft.later(longest_s))})


def _death_s(draft: Draft) -> float:
    revision = draft.revision or draft.wanted
    return DEFAULT_DEATH_S if revision is None else revision.death_s


def _is_over(draft: Draft, attempt: int) -> bool:
    """Whether the time of an older driver has passed. The newest one's stays in the status when it has, because a stop
    may wait for older drivers yet, and would begin it anew."""
    left = _left_s(draft, attempt)
    return attempt < draft.attempt and left is not None and left <= 0


def _is_dead(draft: Draft, attempt: int) -> bool:
    sighting = draft.seen.sightings.get(attempt)
    return sighting is not None and sighting.death is Death.CONFIRMED


def _left_s(draft: Draft, attempt: int) -> float | None:
    at = clock.parse(_known(draft).get(attempt))
    return None if at is None else (at - draft.now).total_seconds()


def _known(draft: Draft) -> dict[int, str | None]:
    return {int(one["attempt"]): one.get("harmlessAt") for one in draft.status.get(_FIELD) or ()}


def _put(draft: Draft, known: dict[int, str | None]) -> None:
    told: list[dict[str, Any]] = [
        {"attempt": attempt, **({"harmlessAt": at} if at else {})} for attempt, at in sorted(known.items())
    ]
    draft.put(_FIELD, told or None)
