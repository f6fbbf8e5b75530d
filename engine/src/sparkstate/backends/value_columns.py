"""Values of many keys as columns: which tables can have them, and how they travel between overlays and stores.

A table is *columnar* when its keys are whole numbers in one column and its values are numbers, truth values or packed
rows of them: then keys and values fit in NumPy arrays. The default namespace has columns, and all namespaces that are
whole numbers have columns together, by key and namespace. A null key has no place in an array, so it travels as a
single value, like the cells of other namespaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkstate.backends.long_index import Longs
from sparkstate.serde import packed, scalars
from sparkstate.serde.typeinfo import TypeInformation

Values: TypeAlias = npt.NDArray[Any]
KeyGroups: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]

_DTYPES: Final[dict[str, Any]] = {
    "BOOLEAN": np.bool_,
    "BYTE": np.int8,
    "SHORT": np.int16,
    "INT": np.int32,
    "LONG": np.int64,
    "FLOAT": np.float64,
    "DOUBLE": np.float64,
}
"""FLOAT has 64 bits, as everywhere in stored state."""
_SIGN: Final = np.uint64(1 << 63)
LEAST_LONG: Final = -(1 << 63)
"""The smallest number of 64 bits."""


@dataclass(frozen=True)
class ValueColumns:
    """Changes of a columnar table, one entry per key; no key twice."""

    keys: Any
    """Whole numbers; for namespaces that are whole numbers too, keys with their namespaces (``long_index.PAIR``)."""
    key_groups: KeyGroups
    values: Values
    present: Flags
    """False: the value is deleted, and what ``values`` has there means nothing."""
    may_be_stored: Flags | None = None
    """False: the store had no value before, as somebody has read. None: nobody knows."""

    def __len__(self) -> int:
        return len(self.keys)

    def select(self, places: Any) -> ValueColumns:
        """Those at these places."""
        known = self.may_be_stored
        return ValueColumns(
            self.keys[places],
            self.key_groups[places],
            self.values[places],
            self.present[places],
            None if known is None else known[places],
        )


def to_ordered(keys: Longs) -> npt.NDArray[np.uint64]:
    """Keys as unsigned numbers in the same order: those whose bytes a row key has (``serde.composite``)."""
    return keys.view(np.uint64) + _SIGN


def of_ordered(numbers: npt.NDArray[Any]) -> Longs:
    """The keys of :func:`to_ordered`; ``numbers`` may be big endian."""
    return (numbers.astype(np.uint64, copy=False) - _SIGN).view(np.int64)


def dtype_of(declared: TypeInformation | None) -> Any:
    """The NumPy type of values of a declared type; None where they have no such type."""
    if isinstance(declared, packed.PackedType):
        return np.dtype((np.void, declared.width))
    return None if declared is None else _DTYPES.get(declared.describe())


def filler(dtype: Any) -> Any:
    """The number, or the bytes, that a column has where there is no value."""
    return np.zeros(1, dtype).tolist()[0]


def has_long_keys(key_type: TypeInformation) -> bool:
    """Whether the keys fit in an array of 64-bit numbers, null keys apart."""
    return isinstance(key_type, scalars.IntegerType)


def row_order(keys: Any, key_groups: KeyGroups) -> npt.NDArray[np.int64]:
    """The places of keys, with or without namespaces, in the order of their stored rows."""
    # Three times as fast as ``lexsort`` with all columns: NumPy sorts numbers with the processor's vector instructions,
    # and short ones in one pass.
    order = np.argsort(keys) if keys.dtype.names is None else _pair_order(keys["key"], keys["space"])
    return order[np.argsort(key_groups[order].astype(np.uint16), kind="stable")]


def _pair_order(keys: Longs, spaces: Longs) -> npt.NDArray[np.int64]:
    """The places of keys with namespaces, by key and then by namespace. Quick sorts again: one by key, and one by the
    ranks of key and namespace, where a key has several."""
    order = np.argsort(keys)
    ordered, spaces = keys[order], spaces[order]
    is_same = ordered[1:] == ordered[:-1]
    if not (is_same & (spaces[1:] < spaces[:-1])).any():
        return order
    key_ranks = np.concatenate([np.zeros(1, np.int64), np.cumsum(~is_same)])
    levels = np.unique(spaces)
    return order[np.argsort(key_ranks * len(levels) + np.searchsorted(levels, spaces))]


def with_room(array: Any, used: int, room: int) -> Any:
    """A longer array with ``room`` entries, of which the first ``used`` are those of the array."""
    grown = np.empty(room, array.dtype)
    grown[:used] = array[:used]
    return grown


def to_objects(values: Values, present: Flags) -> list[Any]:
    """Stored values, None where there is none."""
    found: list[Any] = values.tolist()
    if values.dtype.kind == "f":
        for place in np.flatnonzero(np.isnan(values)):
            found[place] = scalars.NAN
    if not present.all():
        for place in np.flatnonzero(~present):
            found[place] = None
    return found


def to_columns(values: Sequence[Any], dtype: Any) -> tuple[Values, Flags]:
    """The inverse of :func:`to_objects`."""
    if None not in values:
        return np.fromiter(values, dtype, len(values)), np.ones(len(values), np.bool_)
    present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    nothing = filler(dtype)
    return np.fromiter((nothing if value is None else value for value in values), dtype, len(values)), present


def long_keys(keys: Sequence[Any]) -> Longs | None:
    """Keys as an array; None if one of them is null, or a cell of a namespace."""
    try:
        return np.fromiter(keys, np.int64, len(keys))
    except (TypeError, ValueError):
        return None
