"""One way to read a length of time, whoever asks for it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from sparkstate import durations, errors
from sparkstate.durations import Time


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (Time.minutes(5), 300_000),
        (Time.seconds(-3), -3000),
        (datetime.timedelta(hours=-1), -3_600_000),
        ("90 minutes", 5_400_000),
        (" -5 min ", -300_000),
        ("- 20ms", -20),
        ("0 days", 0),
        (-7, -7),
    ],
    ids=str,
)
def test_a_length_may_be_time_text_timedelta_or_milliseconds_and_negative(given: Any, wanted: int) -> None:
    assert durations.milliseconds(given, "between(lower)") == wanted


@pytest.mark.parametrize(
    "given",
    ["soon", "", "--5 ms", "5", "5 weeks", "9" * 5000 + " s", "9" * 19 + " d", True, None, 1.5, b"5 s", [5]],
    ids=lambda given: repr(given)[:20],
)
def test_what_is_no_length_is_refused_with_the_argument(given: Any) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"^keyed\(delay=…\) is "):
        durations.not_negative_ms(given, "keyed(delay=…)")


@pytest.mark.parametrize("given", [-1, "-1 ms", Time.milliseconds(-1)], ids=str)
def test_a_delay_is_not_negative(given: Any) -> None:
    assert durations.not_negative_ms(0, "keyed(delay=…)") == 0
    with pytest.raises(errors.SpecInvalid, match="it must be 0 ms or more"):
        durations.not_negative_ms(given, "keyed(delay=…)")
