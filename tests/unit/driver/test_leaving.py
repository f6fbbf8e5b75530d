"""What a driver that is asked to end saves, and what it leaves to the next attempt."""

from __future__ import annotations

import pytest

from sparkstate.driver.leaving import AT_ONCE_S, LAST_TAKES, is_worth_its_time


@pytest.mark.parametrize(
    ("repeat_s", "usual_s", "under_way_s", "worth"),
    [
        pytest.param(0.1, None, 0.0, True, id="no-checkpoint-yet"),
        pytest.param(0.0, AT_ONCE_S / LAST_TAKES, 0.0, True, id="a-small-job-saves-always"),
        pytest.param(3.0, 4.0, 0.0, False, id="to-repeat-is-quicker"),
        pytest.param(4.0 * LAST_TAKES, 4.0, 0.0, False, id="no-difference"),
        pytest.param(60.0, 4.0, 0.0, True, id="to-save-is-quicker"),
        pytest.param(3.0, 4.0, 3.0, False, id="one-that-has-begun"),
        pytest.param(3.0, 4.0, 6.5, True, id="one-that-is-nearly-complete"),
        pytest.param(0.1, 4.0, 600.0, True, id="one-that-is-late"),
    ],
)
def test_whoever_waits_for_a_last_checkpoint_saves_time_by_it(
    repeat_s: float, usual_s: float | None, under_way_s: float, worth: bool
) -> None:
    assert is_worth_its_time(repeat_s, usual_s, under_way_s) is worth
