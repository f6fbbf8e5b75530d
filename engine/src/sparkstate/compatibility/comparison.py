"""Puts the stored states of a snapshot beside those that a job declares. Pure.

:func:`judge` decides about one state that both have. A further rule about such a pair (the expiry of its entries, say)
belongs there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.backends.base import StateKind
from sparkstate.compatibility.declaration import DeclaredOperator
from sparkstate.compatibility.report import Outcome, StateFinding
from sparkstate.handles import StateMeta

_KEYED: Final = frozenset(kind.value for kind in StateKind)
_FIELDS: Final = ("kind", "key_type", "value_type", "user_key_type")
"""What makes two states of one name the same, in the order in which a difference is told."""

StateKey = tuple[str, str, bool]
"""Uid, name, and whether it is keyed: keyed state and operator state have names of their own."""


@dataclass(frozen=True)
class Judgement:
    """What becomes of a state that is stored and declared; the fields are those of ``StateFinding``."""

    outcome: Outcome
    field: str | None = None
    stored: str | None = None
    declared: str | None = None
    message: str | None = None


def compare(
    stored: Iterable[StateMeta], declared: Sequence[DeclaredOperator], *, may_drop: bool
) -> tuple[StateFinding, ...]:
    """A finding for every state of either side: the job's operators in their order, then operators that are gone.

    ``may_drop``: the spec's ``allowNonRestoredState``.
    """
    before = {_key(meta): meta for meta in stored}
    found: list[StateFinding] = []
    for operator in declared:
        now = {_key(meta): meta for meta in operator.states}
        possible = now | {_key(meta): meta for meta in operator.timers}
        own = {key: meta for key, meta in before.items() if key[0] == operator.uid}
        found += [_declared(meta, own.get(key)) for key, meta in now.items()]
        found += [_stored(meta, possible.get(key)) for key, meta in own.items() if key not in now]
    known = {operator.uid for operator in declared}
    gone = [meta for meta in before.values() if meta.uid not in known]
    heirs = {uid: _heirs(uid, gone, declared, before) for uid in {meta.uid for meta in gone}}
    return (*found, *(_gone(meta, known, heirs[meta.uid], may_drop) for meta in gone))


def judge(stored: StateMeta, declared: StateMeta) -> Judgement:
    """What becomes of a state that the snapshot has and the job declares."""
    differing = [name for name in _FIELDS if getattr(stored, name) != getattr(declared, name)]
    if not differing:
        return Judgement(Outcome.AS_IT_IS)
    field = differing[0]
    return Judgement(
        Outcome.REFUSED,
        field.replace("_", " "),
        getattr(stored, field) or "none",
        getattr(declared, field) or "none",
        _refusal(stored, declared, field),
    )


def _refusal(stored: StateMeta, declared: StateMeta, field: str) -> str:
    """As the restore would say it."""
    if {stored.kind, declared.kind} <= _KEYED:
        try:
            canonical.check_same_table(table_of(stored), table_of(declared))
        except (errors.StateMigrationError, errors.CorruptData, ValueError) as error:
            return str(error)
    return (
        f"state {declared.name!r} of operator {declared.uid!r}: its {field.replace('_', ' ')} was "
        f"{getattr(stored, field) or 'none'} when it was stored and is now {getattr(declared, field) or 'none'}; "
        "declare it as it was, or give the new state another name"
    )


def table_of(meta: StateMeta) -> canonical.TableSpec:
    """The table of a keyed state. Raises ``CorruptData`` for a type that cannot be read."""
    return canonical.parse_table(
        canonical.TableHeader(
            uid=meta.uid,
            name=meta.name,
            kind=meta.kind,
            key_type=meta.key_type,
            value_type=meta.value_type,
            user_key_type=meta.user_key_type,
            namespace_type=meta.namespace_type,
        )
    )


def _key(meta: StateMeta) -> StateKey:
    return meta.uid, meta.name, meta.kind in _KEYED


def _declared(meta: StateMeta, before: StateMeta | None) -> StateFinding:
    if before is None:
        message = "it is not in the snapshot, and begins empty"
        return StateFinding(
            operator=meta.uid,
            state=meta.name,
            kind=meta.kind,
            outcome=Outcome.NEW,
            declared=described(meta),
            message=message,
        )
    return _judged(before, meta)


def _judged(before: StateMeta, now: StateMeta) -> StateFinding:
    judgement = judge(before, now)
    return StateFinding(
        operator=now.uid,
        state=now.name,
        kind=now.kind,
        outcome=judgement.outcome,
        field=judgement.field,
        stored=judgement.stored or described(before),
        declared=judgement.declared or described(now),
        message=judgement.message,
    )


def _stored(meta: StateMeta, possible: StateMeta | None) -> StateFinding:
    """A stored state that ``open`` has not asked for: timers, which are registered later, or a state that is left."""
    if possible is not None:
        return _judged(meta, possible)
    return StateFinding(
        operator=meta.uid,
        state=meta.name,
        kind=meta.kind,
        outcome=Outcome.NOT_DECLARED,
        stored=described(meta),
        message="open() does not declare it: it stays in the storage, and nothing reads it",
    )


def _gone(meta: StateMeta, known: Collection[str], heirs: Sequence[str], may_drop: bool) -> StateFinding:
    if may_drop:
        message = "the job has no such operator, and allowNonRestoredState lets its state go"
        return StateFinding(
            operator=meta.uid,
            state=meta.name,
            kind=meta.kind,
            outcome=Outcome.DROPPED,
            stored=described(meta),
            message=message,
        )
    renamed = f" ({' or '.join(map(repr, heirs))} is new and declares the same states)" if heirs else ""
    return StateFinding(
        operator=meta.uid,
        state=meta.name,
        kind=meta.kind,
        outcome=Outcome.REFUSED,
        field="operator",
        stored=meta.uid,
        declared="none",
        message=(
            f"state {meta.name!r} belongs to operator {meta.uid!r}, which the job does not have "
            f"(it has {', '.join(sorted(known)) or 'none'}){renamed}; give the operator its old uid, or set "
            "allowNonRestoredState: true to drop that state"
        ),
    )


def _heirs(
    uid: str,
    gone: Sequence[StateMeta],
    declared: Sequence[DeclaredOperator],
    before: Mapping[StateKey, StateMeta],
) -> list[str]:
    """New operators with the states of one that is gone: most likely its uid was changed."""
    stored = {key[0] for key in before}
    lost = {(meta.name, meta.kind) for meta in gone if meta.uid == uid and not _is_timer(meta)}
    return [
        each.uid
        for each in declared
        if lost and each.uid not in stored and lost <= {(meta.name, meta.kind) for meta in each.states}
    ]


def _is_timer(meta: StateMeta) -> bool:
    return meta.kind in (StateKind.EVENT_TIMERS, StateKind.PROCESSING_TIMERS)


def described(meta: StateMeta) -> str:
    """Kind and types of a state, as a report shows them."""
    if _is_timer(meta):
        return f"timers of {meta.key_type}"
    of = f"{meta.user_key_type} to {meta.value_type}" if meta.user_key_type else meta.value_type
    return f"{meta.kind} of {of}" + (f" by {meta.key_type}" if meta.key_type else "")
