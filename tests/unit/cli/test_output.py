"""How values are printed."""

from __future__ import annotations

import pytest

from sparkstate.cli import output


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, None),
        (0, "1970-01-01 00:00:00Z"),
        (1_767_323_045_999, "2026-01-02 03:04:05Z"),
        (253_402_300_799_999, "9999-12-31 23:59:59Z"),
        (253_402_300_800_000, "253402300800000 ms"),
        (1_700_000_000_000_000, "1700000000000000 ms"),  # microseconds, taken for milliseconds
        (-70_000_000_000_000, "-70000000000000 ms"),
        (2**63 - 2, "9223372036854775806 ms"),
        (-(2**63) + 2, "-9223372036854775806 ms"),
    ],
)
def test_a_moment_is_a_time_or_the_number_that_no_calendar_has(ms: int | None, text: str | None) -> None:
    assert output.moment(ms) == text
