"""Changes of an enum: those that would lose a value are refused, those of map keys keep the keys where they are."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from support.backends.life import BACKENDS
from support.backends.own_backends import MemoryBackend

from sparkstate import errors
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness

ALL = [*BACKENDS, MemoryBackend]
LONG, TEXT = Types.LONG(), Types.STRING()


def harness(function: Any, backend: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(function, key=lambda row: row[0], key_type=TEXT, backend=backend)


class One(KeyedProcessFunction):
    """One state of a given type; keeps what a row brings."""

    def __init__(self, kind: Any, key: Any = None) -> None:
        self.kind, self.key = kind, key

    def open(self, ctx: Any) -> None:
        if self.key is not None:
            self.state = ctx.get_map_state(MapStateDescriptor("one", self.key, self.kind))
        else:
            self.state = ctx.get_state(ValueStateDescriptor("one", self.kind))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.key is not None:
            self.state.put(value[1], value[2])
        else:
            self.state.update(value[1])
        yield value


AB, BC = Types.ENUM("A", "B"), Types.ENUM("B", "C")


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        pytest.param(One(AB), One(Types.ENUM("B")), "'A' is gone: say in ENUM", id="dropped"),
        pytest.param(One(AB), One(BC), r"'A' is gone and 'C' is new: .*aliases=\{'C': 'A'\}", id="not renamed"),
        pytest.param(
            One(Types.ROW_NAMED(["s"], [Types.LIST(AB)])), One(Types.ROW_NAMED(["s"], [Types.LIST(BC)])),
            r"at s\[\], was ENUM<\"A\",\"B\"> when it was stored and is now ENUM<\"B\",\"C\">", id="deep",
        ),
        pytest.param(
            One(LONG, AB), One(LONG, Types.ENUM("B", "C", aliases={"C": "A"})),
            "its user key type was ENUM.* a key is stored by name, and 'A' is gone", id="renamed key",
        ),
        pytest.param(
            One(Types.MAP(AB, LONG)), One(Types.MAP(Types.ENUM("B", default="B"), LONG)),
            r"at \{\} \(key\), was ENUM.* two keys of a map would become one", id="keys that would meet",
        ),
        pytest.param(One(TEXT), One(AB), "was STRING when it was stored and is now ENUM", id="text to enum"),
    ],
)  # fmt: skip
def test_what_would_lose_a_value_is_refused_with_state_and_both_types(
    backend: Any, before: One, now: One, told: str
) -> None:
    with harness(before, backend) as first, harness(now, backend) as second:
        if before.key is not None:
            first.process_element(("a", "A", 1))
        taken = first.snapshot()
        with pytest.raises(errors.StateMigrationError, match=f"state 'one' of operator 'harness': .*{told}"):
            second.restore(taken)


@pytest.mark.parametrize("backend", ALL)
def test_map_keys_may_get_constants_change_their_order_and_become_text(backend: Any) -> None:
    lives = [
        (Types.TUPLE([AB, AB]), ("A", "B")),
        (Types.TUPLE([Types.ENUM("C", "B", "A"), AB]), ("C", "A")),
        (Types.TUPLE([TEXT, AB]), ("new", "B")),
    ]
    taken = None
    for number, (kind, key) in enumerate(lives):
        with harness(One(LONG, kind), backend) as made:
            if taken is not None:
                made.restore(taken)
            made.process_element(("a", key, number))
            made.process_element(("a", key, number))
            assert made.state("one", "a") == {each: at for at, (_, each) in enumerate(lives[: number + 1])}
            taken = made.snapshot()


@pytest.mark.parametrize("kind", [Types.ENUM(enum.Enum("Step", ["NEW"])), AB, Types.TUPLE([LONG, AB])])
def test_a_stream_is_not_keyed_by_an_enum(kind: Any) -> None:
    with pytest.raises(
        errors.StateError, match=r"operator 'harness': .*ENUM<.* keys.*key by the name, with Types.STRING"
    ):
        KeyedProcessHarness(One(LONG), key=lambda row: row[0], key_type=kind)
