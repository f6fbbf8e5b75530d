"""Windows under random programs and rows: what they put out is what a model in plain Python says
(``support/windows/model.py``), epoch by epoch, through restores and changes of backend, and nothing is left."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.backends import own_backends
from support.faults import tried
from support.windows import programs
from support.windows.model import EVENT, PROCESSING, Model, Program

from sparkstate.functions import MAX_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

KINDS = ("tumbling", "sliding", "session", "dynamic", "global", "count", "slidingcount")


@st.composite
def any_program(draw: Any) -> Program:
    kind = draw(st.sampled_from(KINDS))
    time = draw(st.sampled_from((EVENT, EVENT, PROCESSING)))
    slide = draw(st.integers(1, 12))
    size = draw(st.integers(1, 15))
    bound = slide if kind == "sliding" else size
    in_event_time = time == EVENT and kind in ("tumbling", "sliding", "session", "dynamic")
    triggers = [None, ("count", draw(st.integers(1, 4))), ("processing every", draw(st.integers(1, 9)))]
    if time == EVENT:
        triggers.append(("event every", draw(st.integers(1, 9))))
    evictors = st.one_of(
        st.none(),
        st.tuples(st.just("count"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("time"), st.integers(1, 9), st.booleans()),
    )
    return Program(
        windows=kind,
        time=time,
        size=size,
        slide=slide,
        offset=draw(st.integers(1 - bound, bound - 1)) if kind in ("tumbling", "sliding") else 0,
        trigger=draw(st.sampled_from(triggers)),
        purging=draw(st.booleans()),
        evictor=draw(evictors),
        lateness=draw(st.sampled_from((0, 0, 3, 20))) if in_event_time else 0,
    )


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.integers(-10, 60)), max_size=6)
EPOCHS = st.lists(
    st.tuples(ROWS, st.none() | st.integers(-5, 60), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=8,
)

THREE_SESSIONS_BECOME_ONE = [("a", 0, 0), ("a", 7, 3), ("a", 14, 6), ("a", 6, 0)]
"""By the last row, whose gap is 7 ms; those of the others are 1 ms."""


def harness(program: Program, by: str, backend: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        programs.function(program, by), key=lambda row: row.key, key_type=Types.STRING(), backend=backend
    )


class Run:
    """A program in two harnesses, of which one goes on where the other was stopped."""

    def __init__(self, program: Program, by: str, backends: tuple[Any, Any]) -> None:
        self.stack = contextlib.ExitStack()
        self.sides = [self.stack.enter_context(harness(program, by, backend)) for backend in backends]
        self.now = 0

    def change_sides(self) -> None:
        self.sides.reverse()
        self.sides[0].restore(self.sides[1].snapshot())

    def epoch(self, rows: Any, watermark: int | None, now: int) -> tuple[list[Any], list[Any]]:
        side = self.sides[0]
        side.clear_output()
        side._clock.set(now)
        side.process_elements([(programs.row(key, value), at) for key, value, at in rows], watermark)
        late = [(row.key, row.value) for row in side.side_output(programs.LATE)]
        return sorted(side.output()), sorted(late)


def check(program: Program, epochs: Any, by: str, backends: tuple[Any, Any] = ("hashmap", "hashmap")) -> None:
    model, run = Model(program, reduces=by == "reduce"), Run(program, by, backends)
    now = 0
    with run.stack:
        ends = [([], MAX_WATERMARK, 200, False), ([], None, 200, False), ([], None, 200, False)]
        for rows, watermark, passed, stops in [*epochs, *ends]:
            now += passed
            model.epoch(rows, watermark, now)
            out, late = run.epoch(rows, watermark, now)
            assert out == sorted(model.out)
            assert late == sorted((key, value) for key, value, _ in model.late)
            if stops:
                run.change_sides()
        side = run.sides[0]
        left = [pane for panes in model.panes.values() for pane in panes]
        assert (side.num_event_timers() + side.num_processing_timers() == 0) == (
            not any(pane.timers for pane in left)
        )
        if not left and not program.by_count:
            assert sum(store.stats().rows for store in side._stores.values()) == 0


@settings(max_examples=tried(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(program=any_program(), epochs=EPOCHS, by=st.sampled_from(("process", "apply", "aggregate", "reduce")))
@example(Program("session", size=5), [([("a", 1, 0), ("a", 2, 10), ("a", 3, 5)], 8, 0, True)], "aggregate")
@example(Program("tumbling", evictor=("count", 0, False)), [([("a", 1, 0)], None, 0, False)], "aggregate")
@example(Program("tumbling", evictor=("count", 0, False)), [([("a", 1, 0)], None, 0, False)], "reduce")
@example(Program("dynamic"), [(THREE_SESSIONS_BECOME_ONE, None, 0, False)], "reduce")
@example(
    Program("dynamic", evictor=("count", 4, False)), [(THREE_SESSIONS_BECOME_ONE, None, 0, False)], "reduce"
)
def test_results_are_those_of_the_model(program: Program, epochs: Any, by: str) -> None:
    check(program, epochs, by)


@settings(max_examples=tried(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(program=any_program(), epochs=EPOCHS, by=st.sampled_from(("process", "aggregate", "reduce")))
def test_results_are_those_of_the_model_while_the_backend_changes(
    program: Program, epochs: Any, by: str
) -> None:
    pytest.importorskip("rocksdict")
    stopping = [(*epoch[:3], True) for epoch in epochs]
    check(program, stopping, by, ("hashmap", "rocksdb"))
    check(program, stopping, by, (own_backends.MemoryBackend, "hashmap"))
