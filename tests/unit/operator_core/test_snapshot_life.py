"""The life of a StateSnapshot goes by its table, whatever is seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar, get_args

from hypothesis import given
from hypothesis import strategies as st
from support.scene import tables
from support.scene.snapshot_lives import Life

from sparkstate_operator import actions
from sparkstate_operator.config import Config
from sparkstate_operator.core import snapshot_life
from sparkstate_operator.decide import snapshot
from sparkstate_operator.model.snapshot import SnapshotPhase

T = TypeVar("T")
LIVES = 500
RARE = (12, 59, 69, 99, 105, 134, 228, 277, 1334, 1642)
"""Those of the lives that together take every step of the table."""


@given(data=st.data())
def test_no_life_takes_a_step_that_the_table_does_not_have(data: st.DataObject) -> None:
    def pick(of: Sequence[T]) -> T:
        return data.draw(st.sampled_from(of))

    phase = ""
    for step in Life(pick).steps(10):
        assert step.known and step.before == phase, (
            f"{step.before or 'new'} -> {step.after}: {step.cause.when}"
        )
        phase = step.after


def test_the_table_has_nothing_that_does_not_happen() -> None:
    # All of them only where the table has changed.
    lives = (Life(random.Random(seed).choice).steps(10) for seed in (*RARE, *range(LIVES)))
    missing = tables.untaken(tables.every(snapshot_life.TABLE), lives)
    assert [f"{step.before} -> {step.after}: {step.cause.when}" for step in missing] == []


def test_the_table_has_every_phase() -> None:
    assert {step.after for step in tables.every(snapshot_life.TABLE)} == set(get_args(SnapshotPhase))


def test_a_decision_tells_what_the_phase_went_through() -> None:
    seen = Life(random.Random(0).choice).around({"jobRef": {"name": "gone"}})
    decision: actions.Decision = snapshot.decide(seen, None, Config())
    assert [(step.before, step.after) for step in decision.steps][:1] == [("", "Pending")]
