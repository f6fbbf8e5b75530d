from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate_spec import units


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("500ms", 500),
        ("0s", 0),
        ("1h1s1ms", 3_601_001),
        ("90s", 90_000),
        ("1m1s1ms", 61_001),
        ("24h", 86_400_000),
    ],
)
def test_durations_are_gos(text: str, millis: int) -> None:
    assert units.duration_ms(text) == millis
    assert units.duration_s(text) == millis / 1000


@pytest.mark.parametrize("text", ["", "30", "30 s", "1d", "-5s", "1.5h", "s", "5m\n", "٣s"])
def test_other_durations_are_refused_with_the_value_and_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="it must be a duration such as 500ms, 30s") as raised:
        units.duration_ms(text)
    assert repr(text) in str(raised.value)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_formatted_duration_reads_back(millis: int) -> None:
    assert units.duration_ms(units.format_duration(millis)) == millis


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("256Mi", 256 * 2**20),
        ("1Gi", 2**30),
        ("1.5Gi", 3 * 2**29),
        ("1G", 10**9),
        ("500k", 500_000),
        ("4096", 4096),
        ("0", 0),
        ("0.1Ki", 103),
        ("1", 1),
        ("1000", 1000),
        ("0.1k", 100),
        ("2Ti", 2**41),
        ("3P", 3 * 10**15),
    ],
)
def test_quantities_are_kubernetes(text: str, size: int) -> None:
    assert units.quantity_bytes(text) == size


@pytest.mark.parametrize("text", ["", "64mb", "1 Gi", "1KB", "-1Mi", "1e3", "Mi", "01Mi"])
def test_other_quantities_are_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="it must be a quantity such as 512Mi or 1Gi"):
        units.quantity_bytes(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_a_formatted_quantity_reads_back(size: int) -> None:
    assert units.quantity_bytes(units.format_bytes(size)) == size


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("10 min", 600_000),
        ("10min", 600_000),
        ("500 ms", 500),
        ("3000", 3000),
        ("1 d", 86_400_000),
        ("2 Hours", 7_200_000),
    ],
)
def test_flinks_durations_are_read(text: str, millis: int) -> None:
    assert units.flink_duration_ms(text) == millis


@pytest.mark.parametrize(
    ("text", "size"), [("64mb", 64 * 2**20), ("20 kb", 20480), ("4096", 4096), ("1G", 2**30)]
)
def test_flinks_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert units.flink_bytes(text) == size


def test_flinks_spellings_are_not_guessed() -> None:
    with pytest.raises(ValueError, match="'soon'; it must be a Flink duration"):
        units.flink_duration_ms("soon")
    with pytest.raises(ValueError, match="'1 pound'; it must be a Flink memory size"):
        units.flink_bytes("1 pound")
