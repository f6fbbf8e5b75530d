"""Floating-point numbers in a narrower type. Arrow's cast makes an infinity of a number that is too large for it,
without a word."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def first_infinite(given: pa.Array, made: pa.Array) -> Any:
    """The first finite number of an array, at any depth, that is infinite in ``made``, the array in another type;
    None: there is none."""
    if pa.types.is_floating(made.type):
        return _lost(given, made) if pa.types.is_floating(given.type) else None
    if pa.types.is_struct(made.type):
        pairs = _fields(given, made)
    elif pa.types.is_map(made.type):
        pairs = list(zip(_entries(given), _entries(made), strict=True))
    elif hasattr(made, "flatten"):  # a list
        pairs = [(given.flatten(), made.flatten())]
    else:
        return None
    found = (first_infinite(*pair) for pair in pairs)
    return next((value for value in found if value is not None), None)


def _lost(given: pa.Array, made: pa.Array) -> float | None:
    if made.type.bit_width >= given.type.bit_width or not pc.any(pc.is_inf(made)).as_py():
        return None
    lost = given.filter(pc.and_(pc.is_inf(made), pc.is_finite(given)))
    return float(lost[0].as_py()) if len(lost) else None


def _entries(array: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and the items of all maps. Arrow flattens no maps, and gives those around a slice as well."""
    offsets = array.offsets
    begin, end = offsets[0].as_py(), offsets[-1].as_py()
    return array.keys.slice(begin, end - begin), array.items.slice(begin, end - begin)


def _fields(given: pa.Array, made: pa.Array) -> list[tuple[pa.Array, pa.Array]]:
    before = dict(zip([field.name for field in given.type], given.flatten(), strict=True))
    after = zip([field.name for field in made.type], made.flatten(), strict=True)
    return [(before[name], array) for name, array in after if name in before]
