"""The states that a job's functions declare, found by opening each function over stores that are empty.

An operator of the real kind is made, as in the first slot of a job that starts without state, and opened; its stores
then have a table for every state that ``open`` has asked for. No row is processed, and nothing stored is read. Every
state of a function is known then, because contexts refuse a state that is first asked for later.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from sparkstate import clock as clocks
from sparkstate.backends import loader
from sparkstate.backends.base import TableSpec
from sparkstate.backends.expiring import ExpiringStore
from sparkstate.checkpoint import operator_parts
from sparkstate.functions import TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.spec import JobFacts, KeyedSpec
from sparkstate.operators.state.tables import TIMER_TABLES
from sparkstate.serde.evolution import Declaration, StateTypes
from sparkstate.settings import StateBackendSettings

S = TypeVar("S", TableSpec, StateTypes)
EITHER: Final = StateBackendSettings(type="hashmap")
"""HashMap and RocksDB take the same states: tables are declared before anything knows how they are kept."""


@dataclass(frozen=True)
class DeclaredOperator:
    """One operator with the states that it has asked for; ``timers`` are those that it may come to have."""

    uid: str
    states: tuple[Declaration, ...]
    timers: tuple[Declaration, ...]
    takes_ttl: bool = True
    """Whether its stores can give stored state a time-to-live, another one, or none."""


def of_operators(
    specs: Iterable[KeyedSpec],
    key_space: KeySpace,
    slots: int,
    parameters: Mapping[str, str],
    clock: clocks.Clock,
    backend: StateBackendSettings = EITHER,
) -> tuple[DeclaredOperator, ...]:
    """Open the function of each spec, note its states, and close it. ``slots`` may be at most the shards.
    ``backend`` is the job's where that is a class of its own, which may not take every state.

    Raises ``DeclarationError``, ``StateError`` and ``UserCodeError``, as the start of a slot does.
    """
    with tempfile.TemporaryDirectory(prefix="sparkstate-check-") as folder:
        return tuple(
            _opened(spec, key_space, slots, parameters, clock, Path(folder) / str(number), backend)
            for number, spec in enumerate(specs)
        )


def _opened(
    spec: KeyedSpec,
    key_space: KeySpace,
    slots: int,
    parameters: Mapping[str, str],
    clock: clocks.Clock,
    folder: Path,
    backend: StateBackendSettings,
) -> DeclaredOperator:
    factory = loader.create_store_factory(backend, folder)
    try:
        shards = key_space.shards_of_slot(0, slots)
        stores = {
            shard: factory.create(shard, key_space.key_groups_of_shard(shard), folder / str(shard))
            for shard in shards
        }
        facts = JobFacts(parameters=dict(parameters))
        operator = kinds.make(spec, stores, key_space, clock, 0, slots, facts=facts)
        operator.open()
        try:
            keyed = [_plain(spec) for spec in next(iter(stores.values())).tables()]
            of_operator = [
                _plain(replace(state, kind=operator_parts.KINDS[state.kind]))  # type: ignore[index]
                for state in operator.declared_operator_state()
            ]
        finally:
            operator.close()
            for store in stores.values():
                store.close()
    finally:
        factory.close()
    takes_ttl = all(isinstance(store, ExpiringStore) for store in stores.values())
    return DeclaredOperator(spec.uid, (*keyed, *of_operator), _timers(spec), takes_ttl)


def _plain(state: S) -> S:
    """Without classes of the job's, which the process that asks may not have."""
    value_type, user_key_type = (
        None if kind is None else kind.plain() for kind in (state.value_type, state.user_key_type)
    )
    return replace(state, value_type=value_type, user_key_type=user_key_type)


def _timers(spec: KeyedSpec) -> tuple[Declaration, ...]:
    return tuple(
        TableSpec(uid=spec.uid, name=name, kind=kind, key_type=spec.key_type)
        for name, kind in (TIMER_TABLES[domain] for domain in TimeDomain)
    )
