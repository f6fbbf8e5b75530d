"""Any quantity of Kubernetes: pods and quotas have more spellings than the fields of the spec (``units``)."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", 1)},
    **{name: Fraction(1024**power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
# Digits are bounded: the text comes from pod templates, which no schema bounds.
_AMOUNT = re.compile(
    r"([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE]([+-]?[0-9]{1,3})|([A-Za-z]{0,2}))"
)


def amount(text: str) -> Fraction:
    """The number that a quantity without a sign means, exactly: ``500m``, ``1e3``, ``2Ei``. Raises ValueError."""
    match = _AMOUNT.fullmatch(text)
    if match is None or (match[3] or "") not in _UNITS:
        raise ValueError(f"{text[:80]!r} is not a quantity; write it as 512Mi or 1Gi")
    number, exponent, unit = match.groups()
    factor = Fraction(10) ** int(exponent) if exponent is not None else _UNITS[unit]
    return Fraction(number) * factor
