"""A size as the command line gives it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors, sizing


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("50000,10000000,200", sizing.Size(50_000, 10_000_000, 200)),
        ("50k,10M,200b", sizing.Size(50_000, 10_000_000, 200)),
        ("50000rows/s,10000000keys,200bytes", sizing.Size(50_000, 10_000_000, 200)),
        ("1.5k rows/s, 2Ki keys, 1Ki bytes", sizing.Size(1_500, 2_048, 1_024)),
        ("1,1,1", sizing.Size(1, 1, 1)),
    ],
)
def test_numbers_have_the_units_of_the_spec_and_may_say_what_they_count(text: str, size: sizing.Size) -> None:
    assert sizing.parse(text) == size


@given(st.integers(1, 10**9), st.integers(1, 10**13), st.integers(1, 2**31 - 1))
def test_every_size_within_the_bounds_is_read_back(rows: int, keys: int, key_bytes: int) -> None:
    assert sizing.parse(f"{rows},{keys},{key_bytes}") == sizing.Size(rows, keys, key_bytes)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("50k,10M", "2 value(s) instead of three"),
        ("", "1 value(s) instead of three"),
        ("1,2,3,4", "4 value(s) instead of three"),
        ("fast,10M,200", "rows/s is 'fast', not a number"),
        ("50k,,200", "keys is '', not a number"),
        ("50k,10M,-1", "bytes is '-1', not a number"),
        ("50k,10Mrows/s,200", "keys is '10Mrows/s', not a number"),
        ("0,10M,200", "rows/s is '0'; it must lie between 1 and 1,000,000,000"),
        ("50k,0keys,200", "keys is '0keys'; it must lie between 1 and"),
        ("50k,10M,3G", "bytes is '3G'; it must lie between 1 and 2,147,483,647"),
        (f"{'9' * 400},10M,200", "it must lie between 1 and"),
    ],
)
def test_a_wrong_size_is_refused_with_the_part_the_value_and_the_remedy(text: str, part: str) -> None:
    with pytest.raises(errors.SpecInvalid) as caught:
        sizing.parse(text)
    assert str(caught.value).startswith("--size")
    assert part in str(caught.value)
    assert len(str(caught.value)) < 400
