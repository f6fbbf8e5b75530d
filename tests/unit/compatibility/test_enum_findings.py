"""A check tells changes of an enum by its constants."""

from __future__ import annotations

import pytest

from sparkstate.compatibility import comparison
from sparkstate.compatibility.report import Outcome
from sparkstate.handles import StateMeta
from sparkstate.serde.evolution import StateTypes
from sparkstate.serde.types import TypeInformation, Types

STORED = StateMeta(
    uid="orders", name="step", kind="value", key_type="LONG", namespace_type="", value_type='ENUM<"A","B">'
)


@pytest.mark.parametrize(
    ("declared", "outcome", "told"),
    [
        (Types.ENUM("A", "B", "C"), Outcome.AS_IT_IS, "'C' is new"),
        (Types.ENUM("B", "A"), Outcome.ON_READ, "its constants change their order"),
        (Types.ENUM("B", default="B"), Outcome.ON_READ, "'A' becomes 'B'"),
        (Types.ENUM("B", "C", aliases={"C": "A"}), Outcome.ON_READ, "'C' is the renamed 'A'"),
        (Types.STRING(), Outcome.ON_READ, "the enum becomes STRING"),
        (Types.ENUM("B"), Outcome.REFUSED, "say in ENUM which constant is the default= of values that have it"),
    ],
    ids=["added", "moved", "dropped-with-a-default", "renamed", "text", "dropped"],
)  # fmt: skip
def test_changes_of_an_enum_are_told_by_its_constants(
    declared: TypeInformation, outcome: Outcome, told: str
) -> None:
    state = StateTypes("orders", "step", "value", Types.LONG(), declared)
    found = comparison.judge(STORED, state, "rocksdb")
    assert found.outcome is outcome
    assert told in str(found.message)
    if outcome is Outcome.REFUSED:
        assert (found.stored, found.declared) == ('ENUM<"A","B">', 'ENUM<"B">')
        assert "state 'step' of operator 'orders'" in str(found.message)
    else:
        assert found.stored == 'value of ENUM<"A","B"> by LONG'
    on_hashmap = comparison.judge(STORED, state, "hashmap").outcome
    assert on_hashmap is (Outcome.FULL_PASS if outcome is Outcome.ON_READ else outcome)
