"""Puts the stored states of a snapshot beside those that a job declares. Pure.

A state that both have is judged by the rules that the stores use too (``serde.evolution``). :func:`judge` is the place
for further rules about such a pair, as the expiry of its entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sparkstate import errors
from sparkstate.backends.base import TIMER_KINDS, StateKind
from sparkstate.compatibility.declaration import DeclaredOperator
from sparkstate.compatibility.report import Outcome, StateFinding
from sparkstate.handles import StateMeta
from sparkstate.serde import evolution, expiring
from sparkstate.serde.evolution import Declaration, StateTypes, VerdictKind
from sparkstate.serde.typeinfo import TypeInformation

_KEYED: Final = frozenset(kind.value for kind in StateKind)
_OUTCOMES: Final[Mapping[VerdictKind, Outcome]] = {
    VerdictKind.AS_IS: Outcome.AS_IT_IS,
    VerdictKind.ON_READ: Outcome.ON_READ,
    VerdictKind.FULL_PASS: Outcome.FULL_PASS,
    VerdictKind.REFUSED: Outcome.REFUSED,
}
StateKey = tuple[str, str, bool]
"""Uid, name, and whether it is keyed: keyed state and operator state have names of their own."""


def compare(
    stored: Iterable[StateMeta], declared: Sequence[DeclaredOperator], *, backend: str, may_drop: bool
) -> tuple[StateFinding, ...]:
    """A finding for every state of either side: the job's operators in their order, then operators that are gone.

    ``backend`` is the job's: ``hashmap``, ``rocksdb`` or ``custom``. ``may_drop`` says that state without an operator
    may go, as the spec's ``allowNonRestoredState`` does.
    """
    before = {_key(meta): meta for meta in stored}
    found: list[StateFinding] = []
    for operator in declared:
        own = {key: meta for key, meta in before.items() if key[0] == operator.uid}
        found += _of_operator(operator, own, backend)
    known = {operator.uid for operator in declared}
    gone = [meta for meta in before.values() if meta.uid not in known]
    heirs = {uid: _heirs(uid, gone, declared, before) for uid in {meta.uid for meta in gone}}
    return (*found, *(_gone(meta, known, heirs[meta.uid], may_drop) for meta in gone))


def _of_operator(
    operator: DeclaredOperator, own: Mapping[StateKey, StateMeta], backend: str
) -> Iterator[StateFinding]:
    asked = {_key(state): state for state in operator.states}
    # Timers are registered after open(), so all that is known of them is the type of their keys.
    timers = {_key(state): state for state in operator.timers}
    for key, state in asked.items():
        yield judge(own[key], state, backend, operator.takes_ttl) if key in own else _new(state)
    for key, meta in own.items():
        if key in timers:
            yield judge(meta, timers[key], backend)
        elif key not in asked:
            yield _left(meta)


def judge(meta: StateMeta, declared: Declaration, backend: str, takes_ttl: bool = True) -> StateFinding:
    """The finding about a state that the snapshot has and the job declares. ``takes_ttl``: as of the operator."""
    kind, name, now = str(declared.kind), declared.name, described(declared)
    try:
        stored = types_of(meta)
    except (errors.CorruptData, errors.UnknownFormat) as error:
        return StateFinding(
            operator=declared.uid,
            state=name,
            kind=kind,
            outcome=Outcome.REFUSED,
            declared=now,
            message=f"state {name!r} of operator {declared.uid!r}: {error}; use the sparkstate that wrote it",
        )
    reads_all = backend != "rocksdb" or meta.kind not in _KEYED
    verdict = evolution.compare(stored, declared, reads_all=reads_all)
    if not (takes_ttl or verdict.is_refused) and _life(stored) != _life(declared):
        verdict = replace(
            verdict, kind=VerdictKind.REFUSED, part="time-to-live", remedy=evolution.KEEPS_LIVES
        )
    refused = verdict.is_refused
    return StateFinding(
        operator=declared.uid,
        state=name,
        kind=kind,
        outcome=_OUTCOMES[verdict.kind],
        field=(verdict.field or verdict.part or None) if refused else None,
        stored=(verdict.before or "none") if refused else described(stored),
        declared=(verdict.now or "none") if refused else now,
        message=verdict.message if refused else "; ".join(verdict.changes) or None,
    )


def _life(state: Declaration) -> expiring.TimeToLive | None:
    return expiring.ttl_of(state.value_type)


def types_of(meta: StateMeta) -> StateTypes:
    """A stored state. Raises ``CorruptData`` for a type that cannot be read."""
    return StateTypes.parse(
        meta.uid,
        meta.name,
        meta.kind,
        meta.key_type,
        meta.value_type,
        meta.user_key_type,
        meta.namespace_type,
    )


def _key(state: StateMeta | Declaration) -> StateKey:
    return state.uid, state.name, str(state.kind) in _KEYED


def _new(state: Declaration) -> StateFinding:
    return StateFinding(
        operator=state.uid,
        state=state.name,
        kind=str(state.kind),
        outcome=Outcome.NEW,
        declared=described(state),
        message="it is not in the snapshot, and begins empty",
    )


def _left(meta: StateMeta) -> StateFinding:
    return StateFinding(
        operator=meta.uid,
        state=meta.name,
        kind=meta.kind,
        outcome=Outcome.NOT_DECLARED,
        stored=_shown(meta),
        message="open() does not declare it; it stays in every later snapshot, and nothing reads it",
    )


def _gone(meta: StateMeta, known: Collection[str], heirs: Sequence[str], may_drop: bool) -> StateFinding:
    if may_drop:
        return StateFinding(
            operator=meta.uid,
            state=meta.name,
            kind=meta.kind,
            outcome=Outcome.DROPPED,
            stored=_shown(meta),
            message="the job has no such operator, and allowNonRestoredState lets its state go",
        )
    renamed = f"; {' or '.join(map(repr, heirs))} is new and declares the same states" if heirs else ""
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
            f"(it has {', '.join(sorted(known))}{renamed}); give the operator its old uid, or set "
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
    lost = {(meta.name, meta.kind) for meta in gone if meta.uid == uid and meta.kind not in TIMER_KINDS}
    return [
        each.uid
        for each in declared
        if lost
        and each.uid not in stored
        and lost <= {(state.name, str(state.kind)) for state in each.states}
    ]


def _shown(meta: StateMeta) -> str:
    try:
        return described(types_of(meta))
    except (errors.CorruptData, errors.UnknownFormat):
        return meta.kind


def described(state: Declaration) -> str:
    """Kind and types of a state, as a report shows them."""
    if state.kind in TIMER_KINDS:
        return f"timers of {_text(state.key_type)}"
    value = _text(state.value_type)
    of = f"{_text(state.user_key_type)} to {value}" if state.user_key_type else value
    return f"{state.kind} of {of}" + (f" by {_text(state.key_type)}" if state.key_type else "")


def _text(given: TypeInformation | None) -> str:
    return given.describe() if given is not None else "none"
