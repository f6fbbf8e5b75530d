"""Keys of maps that Python takes for equal and shows differently: one form, in the epoch that put them and later."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import Any

import pytest

from sparkstate.functions import KeyedProcessFunction
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.serde.types import TypeInformation, Types
from sparkstate.state.descriptors import MapStateDescriptor
from sparkstate.testing import KeyedProcessHarness

PAIR = Types.TUPLE([Types.DOUBLE(), Types.STRING()])
DEEP = Types.TUPLE([Types.TUPLE([Types.LONG(), Types.FLOAT()])])
CASES = [
    pytest.param(Types.DOUBLE(), -0.0, "0.0", id="double"),
    pytest.param(Types.FLOAT(), -0.0, "0.0", id="float"),
    pytest.param(Types.DOUBLE(), -1.5, "-1.5", id="another double"),
    pytest.param(Types.DOUBLE(), float("nan"), "nan", id="no number"),
    pytest.param(PAIR, (-0.0, "x"), "(0.0, 'x')", id="pair"),
    pytest.param(DEEP, ((1, -0.0),), "((1, 0.0),)", id="pair in a tuple"),
    pytest.param(Types.BIG_DEC(), decimal.Decimal("1.50"), "Decimal('1.5')", id="decimal"),
    pytest.param(Types.BIG_DEC(), decimal.Decimal("1E+2"), "Decimal('100')", id="decimal with an exponent"),
    pytest.param(Types.BIG_DEC(), decimal.Decimal("-0.00"), "Decimal('0')", id="decimal zero"),
]


class Keys(KeyedProcessFunction):
    """Puts the keys that come, and yields those that are there."""

    def __init__(self, kind: TypeInformation) -> None:
        self._kind = kind

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_map_state(MapStateDescriptor("map", self._kind, Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value is not None:
            self.map.put(value[0], 1)
        yield repr(list(self.map.keys())), repr(list(self.map.items()))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("kind", "key", "shown"), CASES)
def test_a_key_of_a_map_reads_alike_in_its_epoch_and_after_a_restore(
    kind: TypeInformation, key: Any, shown: str, backend: Any
) -> None:
    with KeyedProcessHarness(
        Keys(kind), key=lambda row: 1, key_type=Types.LONG(), backend=backend
    ) as harness:
        harness.process_elements([((key,), None), (None, None)])
        harness.process_element(None)
        harness.restore(harness.snapshot())
        harness.process_element(None)
        harness.process_element((key,))
        assert set(harness.output()) == {(f"[{shown}]", f"[({shown}, 1)]")}


@pytest.mark.parametrize(("kind", "key", "shown"), CASES)
def test_so_does_a_key_of_broadcast_state(kind: TypeInformation, key: Any, shown: str) -> None:
    states = OperatorStates("op")
    with states.at_once():
        rules = states.get_broadcast_state(MapStateDescriptor("rules", kind, Types.LONG()))
        rules.put(key, 1)
        rules.put(key, 2)
        assert repr(list(rules.items())) == f"[({shown}, 2)]"
        assert rules.contains(key)
