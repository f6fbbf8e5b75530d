from __future__ import annotations

import pytest

from sparkstate_spec import executors


@pytest.mark.parametrize(("slots", "each", "count"), [(1, 2, 1), (2, 2, 1), (3, 2, 2), (5, 2, 3)])
def test_executors_are_as_many_as_the_slots_need(slots: int, each: int, count: int) -> None:
    assert executors.count(slots, each) == count
