"""The time-to-live and the type of one state change together, in turn, and half-way: stamps stay, expired values go."""

from __future__ import annotations

import os
from typing import Any

import pytest
from support.backends import keeper
from support.backends.evolving import shown
from support.backends.life import BACKENDS, KEYS, Engine, Model, key_group

from sparkstate.serde.types import Types
from sparkstate.state.ttl import StateTtlConfig

KEY = KEYS["numbers"][1]
NAMES = ("value", "list", "map", "last", "folded")
SECOND, THIRD = 1_000, 2_000
"""When the second and the third version of the code start, in ms."""
TYPES = [
    Types.ROW_NAMED(["a"], [Types.INT()]),
    Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()], defaults={"b": "x"}),
    Types.ROW_NAMED(["b", "c"], [Types.STRING(), Types.DOUBLE()], defaults={"c": 1.5}, dropped=["a"]),
]
VALUES = [(1,), (2, "y"), ("z", 3.5)]
SECOND_VALUES, THIRD_VALUES = [(1, "x"), (2, "y")], [("x", 1.5), ("y", 1.5), ("z", 3.5)]
OFF, LONG, LONGER, EVENT = (
    None,
    StateTtlConfig.new_builder(5_000).build(),
    StateTtlConfig.new_builder(9_000).build(),
    StateTtlConfig.new_builder(5_000).use_event_time().build(),
)
LIVES = {
    "on": [OFF, LONG, LONG],
    "off": [LONG, LONG, OFF],
    "on and off": [OFF, LONG, OFF],
    "off and on": [LONG, OFF, LONG],
    "longer": [LONG, LONGER, LONGER],
    "shorter": [LONGER, LONGER, LONG],
    "always": [LONG, LONG, LONG],
    "other time": [LONG, EVENT, LONG],
}


@pytest.fixture
def engines(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds of small files
    made = {backend: Engine(backend, tmp_path / backend) for backend in BACKENDS}
    for engine in made.values():
        engine.keys = "numbers"
    yield made
    for engine in made.values():
        engine.close()


def start(engine: Engine, kind: Any, ttl: Any, now: int, in_canonical: bool | None = None) -> None:
    """A life of this code at that time, from a snapshot of the one before unless it is the first."""
    taken = None if in_canonical is None else engine.snapshot(in_canonical, Model())()
    engine.make_function = lambda: keeper.Keeper(kind, Types.LONG(), ttl)
    engine.now = now
    engine.start(2, taken)


def put(engine: Engine, place: str, value: Any, now: int) -> None:
    elements = [(KEY, place, *keeper.write(name, value)) for name in NAMES]
    engine.epoch(1, elements, 0, 0, True, now)


def found(engine: Engine, name: str, place: str) -> Any:
    held = engine.slot_of(KEY).operator.read_value(name, KEY, place, key_group(KEY))
    if held in (None, [], {}):
        return None
    return shown(
        {"list": lambda: held[0], "map": lambda: held["entry"], "folded": lambda: held[1]}.get(
            name, lambda: held
        )()
    )


@pytest.mark.parametrize(
    ("backend", "in_canonical"),
    [
        pytest.param(name, kind == "savepoint", id=f"{name}-{kind}", marks=marks)
        for name in BACKENDS
        for kind in ("checkpoint", "savepoint")
        for marks in [[] if (kind == "savepoint") == (name != BACKENDS[-1]) else [pytest.mark.extra]]
    ],
)
@pytest.mark.parametrize("lives", LIVES)
def test_values_of_three_types_under_three_times_to_live(engines, backend, lives, in_canonical):
    engine, ttls = engines[backend], LIVES[lives]
    start(engine, TYPES[0], ttls[0], 0)
    put(engine, "first", VALUES[0], 0)
    start(engine, TYPES[1], ttls[1], SECOND, in_canonical)
    put(engine, "second", VALUES[1], SECOND)
    for name in NAMES:
        assert [found(engine, name, place) for place in ("first", "second")] == list(
            map(shown, SECOND_VALUES)
        )
    start(engine, TYPES[2], ttls[2], THIRD, in_canonical)
    put(engine, "third", VALUES[2], THIRD)
    for again in (None, False, True):
        if again is not None:
            start(engine, TYPES[2], ttls[2], THIRD, again)
        for name in NAMES:
            seen = [found(engine, name, place) for place in ("first", "second", "third")]
            assert seen == list(map(shown, THIRD_VALUES)), (name, again)


@pytest.mark.parametrize("in_canonical", [False, True], ids=["checkpoint", "savepoint"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_migrated_value_is_as_old_as_before(engines, backend, in_canonical):
    """Half migrated, with rows of two schema ids: each goes at its own time, and a savepoint leaves it out."""
    engine = engines[backend]
    start(engine, TYPES[0], LONG, 0)
    put(engine, "first", VALUES[0], 0)
    start(engine, TYPES[1], LONG, SECOND, in_canonical)
    put(engine, "second", VALUES[1], SECOND)
    places = ("first", "second")
    for now, wanted in ((4_999, SECOND_VALUES), (5_000, [None, (2, "y")]), (6_000, [None, None])):
        engine.epoch(2, [], 0, 0, True, now)
        engine.epoch(2, [], 0, 0, True, now)  # a sweep looks at what the one before has left
        start(engine, TYPES[1], LONG, now, True)
        for name in NAMES:
            seen = [found(engine, name, place) for place in places]
            assert seen == [None if value is None else shown(value) for value in wanted], (name, now)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_expired_before_it_lost_its_time_to_live_is_gone_in_the_new_type(engines, backend):
    engine = engines[backend]
    start(engine, TYPES[0], LONG, 0)
    put(engine, "first", VALUES[0], 0)
    start(engine, TYPES[1], LONG, SECOND, False)
    put(engine, "second", VALUES[1], SECOND)
    start(engine, TYPES[2], OFF, 5_500, False)
    for name in NAMES:
        assert [found(engine, name, place) for place in ("first", "second")] == [None, shown(THIRD_VALUES[1])]
