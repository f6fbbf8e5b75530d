"""Quantities of pods and quotas."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate_spec import quantities, units


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("500m", Fraction(1, 2)),
        ("1n", Fraction(1, 10**9)),
        ("3u", Fraction(3, 10**6)),
        (".5", Fraction(1, 2)),
        ("1", 1),
        ("2Gi", 2**31),
        ("1.5k", 1500),
        ("0", 0),
        ("3E", 3 * 10**18),
        ("1.", Fraction(1)),
        ("1e3", Fraction(1000)),
        ("12E-1", Fraction(6, 5)),
        ("2E", Fraction(2 * 10**18)),
        ("2Ei", Fraction(2**61)),
    ],
)
def test_pods_and_quotas_have_more_spellings_of_a_quantity(text: str, exact: Fraction | int) -> None:
    assert quantities.amount(text) == exact


@pytest.mark.parametrize(
    "text", ["", "x", "1X", "-1", "1mi", "4GB", "1e", "Mi", "1 Gi", "1ki", "1e1000", "9" * 41, "nan", "٣"]
)
def test_what_kubernetes_does_not_read_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity; write it as 512Mi or 1Gi"):
        quantities.amount(text)


@given(st.from_regex(units.QUANTITY, fullmatch=True).filter(lambda text: len(text) < 40))
def test_a_field_of_the_spec_reads_as_the_same_quantity_rounded_up(text: str) -> None:
    exact = quantities.amount(text)
    assert exact <= units.quantity_bytes(text) < exact + 1
