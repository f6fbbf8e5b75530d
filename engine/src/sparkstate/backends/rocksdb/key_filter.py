"""A Bloom filter of cells in columns: most cells that are looked for in a sorted run are not there.

Each cell has five bits in one word of 64, so that a look takes one access to memory. With 24 bits for each cell, one in
a thousand of the others is taken for one that is there.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkstate.backends.value_columns import Flags

BYTES_PER_CELL: Final = 3
_BITS: Final = 5
_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_HALF, _PLACE_BITS, _PLACE = np.uint64(32), np.uint64(6), np.uint64(63)
_ONE: Final = np.uint64(1)

_Words = npt.NDArray[np.uint64]


class KeyFilter:
    """For at most so many cells: whole-number keys, or those with namespaces (``long_index.PAIR``)."""

    def __init__(self, most: int) -> None:
        self._words: _Words = np.zeros(most * BYTES_PER_CELL // 8 + 1, np.uint64)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._words.nbytes)

    def add(self, keys: Any) -> None:
        """From now on these may be there."""
        places, bits = self._marks(keys)
        np.bitwise_or.at(self._words, places, bits)

    def may_have(self, keys: Any) -> Flags:
        """False where a cell was certainly not added."""
        places, bits = self._marks(keys)
        flags: Flags = (self._words[places] & bits) == bits
        return flags

    def _marks(self, keys: Any) -> tuple[npt.NDArray[np.int64], _Words]:
        """The word of each cell, and its bits in it."""
        mixed = _mixed(keys)
        bits = _ONE << (mixed & _PLACE)
        rest = mixed
        for _ in range(_BITS - 1):
            rest = rest >> _PLACE_BITS
            bits |= _ONE << (rest & _PLACE)
        return (((mixed >> _HALF) * np.uint64(len(self._words))) >> _HALF).view(np.int64), bits


def _mixed(keys: Any) -> _Words:
    """A number for each cell whose bits depend on all bits of the cell."""
    if keys.dtype.names is None:
        return _mix(keys.view(np.uint64) * _FACTORS[0])
    first = _mix(keys["key"].view(np.uint64) * _FACTORS[0])
    return _mix((first + keys["space"].view(np.uint64)) * _FACTORS[0])


def _mix(numbers: _Words) -> _Words:
    numbers ^= numbers >> _HALF
    numbers *= _FACTORS[1]
    numbers ^= numbers >> _HALF
    return numbers
