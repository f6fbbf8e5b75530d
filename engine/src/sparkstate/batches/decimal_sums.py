"""Sums of decimals per key that never wrap around.

Arrow adds decimals as whole numbers of 128 or 256 bits and does not check for overflow: three times 9e37 gives -7e37.
So a column whose sums could exceed 38 digits is added in 256 bits, and the result is checked when it is narrowed again.
There is nothing wider than decimal256, so there the largest value and the number of rows bound the sums.
"""

from __future__ import annotations

import decimal

import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import errors

_DIGITS_128 = 38
_DIGITS_256 = 76
_EXACT = decimal.Context(prec=2 * _DIGITS_256)


def widened(values: pa.Array, most: int) -> pa.Array:
    """The values in a type in which Arrow adds up to ``most`` of them without an overflow. Raises ``StateError`` where
    no type is wide enough."""
    given = values.type
    digits = given.precision + len(str(most))
    if digits <= _DIGITS_128 and not pa.types.is_decimal256(given):
        return values.cast(pa.decimal128(_DIGITS_128, given.scale))
    if digits <= _DIGITS_256:
        return values.cast(pa.decimal256(_DIGITS_256, given.scale))
    limits = pc.min_max(values).as_py()
    largest = max((one.copy_abs() for one in limits.values() if one is not None), default=decimal.Decimal(0))
    if _EXACT.multiply(_EXACT.scaleb(largest, given.scale), decimal.Decimal(most)) >= 10**_DIGITS_256:
        raise errors.StateError(
            f"the sum of {most} values up to {largest} may have more than the 76 digits of {given}; cast the column "
            "to a type with fewer digits behind the point first"
        )
    return values


def narrowed(sums: pa.Array, given: pa.DataType) -> pa.Array:
    """The sums in the type that a column of type ``given`` has for them. Raises ``StateError`` if a sum has too many
    digits for it."""
    if pa.types.is_decimal256(given):
        return sums
    kind = pa.decimal128(_DIGITS_128, given.scale)
    try:
        return sums.cast(kind)
    except pa.ArrowInvalid as error:
        limits = pc.min_max(sums).as_py()
        largest = max((one for one in limits.values() if one is not None), key=decimal.Decimal.copy_abs)
        wider = pa.decimal256(_DIGITS_256, given.scale)
        raise errors.StateError(
            f"the sum of a key is {largest}, more than the 38 digits of {kind} can hold; cast the column to {wider} "
            "first"
        ) from error
