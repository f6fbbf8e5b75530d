"""Due timers that are objects, of several namespaces, in the order of time for each key alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import timer_chunks
from support.operators.spilling import Side

from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK, TimeDomain
from sparkstate.operators.batches import timer_sets
from sparkstate.operators.common.due_timers import DueTimers
from sparkstate.operators.state.overlay import Overlay, TimerKey
from sparkstate.serde.types import Types

UNTIL = 15


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    opened = Side(
        Path(tmp_path_factory.mktemp("timers")),
        2**30,
        KeyedBatchFunction(),
        row_columns=("k",),
        key_columns=("k",),
        key_type=Types.STRING(),
        event_time_column=None,
        output_schema=pa.schema([("k", pa.string())]),
    )
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def overlay(side: Side) -> Iterator[Overlay]:
    opened = side.operator.begin(1, MIN_WATERMARK, 0)
    yield opened
    opened.close()


def due_timers(side: Side, overlay: Overlay) -> DueTimers:
    return DueTimers(side.operator._tables, None, overlay, TimeDomain.EVENT_TIME, UNTIL, lambda: None)


TIMERS = st.tuples(st.integers(0, UNTIL + 2), st.sampled_from("abcd"), st.sampled_from(["x", "y", "z", None]))


@settings(max_examples=tried(60), deadline=None)
@given(
    first=st.sets(TIMERS, max_size=24),
    changes=st.lists(st.lists(st.tuples(TIMERS, st.booleans()), max_size=4), max_size=8),
    at_once=st.sampled_from([1, 2, 8]),
    stretch=st.sampled_from([1, 2, 8]),
)
def test_each_key_fires_in_order_whatever_its_namespaces(
    side: Side, overlay: Overlay, first: set[TimerKey], changes: Any, at_once: int, stretch: int
) -> None:
    """Between two sets, timers are registered and deleted."""
    timers = overlay.timers[TimeDomain.EVENT_TIME]
    standing = set(first)
    for timer in first:
        timers.put(timer, True, None)
    with pytest.MonkeyPatch.context() as patch, due_timers(side, overlay) as due:
        timer_chunks.patch_batches(patch, at_once)
        patch.setattr(timer_sets, "_STRETCH", stretch)
        sets, todo = timer_sets.SetsByKey(due, timers), iter(changes)
        while found := sets.next_set():
            assert len({namespace for _, _, namespace in found}) == 1
            assert len({key for _, key, _ in found}) == len(found) <= at_once
            for timer in found:
                assert timer in standing
                assert timer[0] == min(time for time, key, _ in standing if key == timer[1])
            standing.difference_update(found)
            for timer, registered in next(todo, ()):
                timers.put(timer, registered, None)
                (standing.add if registered else standing.discard)(timer)
        assert all(time > UNTIL for time, _, _ in standing)
    timers.changes.clear()


class Counted(dict[TimerKey, bool]):
    """Counts how often somebody asks for a timer."""

    asked = 0

    def get(self, *arguments: Any) -> Any:
        self.asked += 1
        return super().get(*arguments)


def test_each_set_looks_at_the_keys_of_its_namespace_only(side: Side, overlay: Overlay) -> None:
    count = 200
    timers = overlay.timers[TimeDomain.EVENT_TIME]
    timers.changes = Counted()
    for time in range(count):
        timers.put((time % UNTIL, f"k{time}", f"n{time}"), True, None)
    with due_timers(side, overlay) as due:
        sets = timer_sets.SetsByKey(due, timers)
        assert [len(sets.next_set()) for _ in range(count + 1)] == [1] * count + [0]
    assert count <= timers.changes.asked < 10 * count
