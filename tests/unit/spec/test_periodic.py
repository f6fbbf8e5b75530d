"""The time between two periodic savepoints."""

from __future__ import annotations

import pytest

from sparkstate_spec import periodic


@pytest.mark.parametrize(
    ("told_s", "counts_s"), [(0.001, 1), (0.999, 1), (1.0, 1), (1.4, 1), (90.6, 91), (21_600.0, 21_600)]
)
def test_an_interval_is_whole_seconds_and_one_at_least(told_s: float, counts_s: int) -> None:
    assert periodic.interval_s(told_s) == counts_s
