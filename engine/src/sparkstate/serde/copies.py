"""Rows as they were when the user's code put them out.

Rows become a batch some thousands at a time. A function that goes on to change a list that it has yielded would change
the rows before as well: each row of a running list had all of its elements. Flink serialises a row when it is put out,
so there it stays as it was.
"""

from __future__ import annotations

import datetime
import decimal
import functools
from collections.abc import Callable, MutableSequence, Sequence, ValuesView
from typing import Any, Final, TypeAlias

import numpy as np

from sparkstate.serde.row import Row, row_class

FIXED: Final[frozenset[type]] = frozenset(
    {
        int, float, str, bool, bytes, type(None), decimal.Decimal,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, frozenset,
        np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
        np.float16, np.float32, np.float64, np.str_, np.bytes_, np.datetime64, np.timedelta64,
    }
)  # fmt: skip
"""Types whose values nobody can change."""

_Copy: TypeAlias = Callable[[Any], Any]


def copied(item: Any) -> Any:
    """The row or value, with copies of all in it that can be changed and that a column takes: lists and whatever is
    like one (deques, ``array.array``), dicts, sets, arrays, series and buffers. Any other object stays."""
    kind: type = type(item)
    if kind is tuple:
        for value in item:
            if type(value) not in FIXED:
                return (*[each if type(each) in FIXED else copied(each) for each in item],)
        return item
    if kind is list:
        return _elements(item)
    return item if kind in FIXED else _copy_of(kind)(item)


@functools.lru_cache(maxsize=1024)
def _copy_of(kind: type) -> _Copy:
    """How values of a class are copied; a search for each value took several times as long as the copy."""
    if issubclass(kind, tuple):
        return _copy_of_tuple(kind)
    for base, copy in _COPIES:
        if issubclass(kind, base):
            return copy
    # Series and indexes of pandas.
    is_array = hasattr(kind, "__array__") and hasattr(kind, "copy") and not issubclass(kind, np.generic)
    return (lambda item: item.copy()) if is_array else (lambda item: item)


def _copy_of_tuple(kind: type) -> _Copy:
    # Each of pyspark's rows has names of its own. Tuples of other classes count by the positions of their values.
    make: _Copy = kind if issubclass(kind, Row) else getattr(kind, "_make", tuple)

    def copy(item: Any) -> Any:
        for value in item:
            if type(value) not in FIXED:
                names = () if make is kind else getattr(item, "__fields__", ())
                return (row_class(names) if names else make)(_elements(item))
        return item

    return copy


def _elements(item: Any) -> list[Any]:
    if FIXED.issuperset(map(type, item)):
        return list(item)
    return [value if type(value) in FIXED else copied(value) for value in item]


_COPIES: Final[Sequence[tuple[type, _Copy]]] = (
    (list, _elements),
    (dict, lambda item: {key: copied(value) for key, value in item.items()}),
    (set, set),
    (bytearray, bytes),
    (memoryview, lambda item: bytes(item) if item.format == "B" and item.ndim == 1 else item.tolist()),
    (np.ndarray, lambda item: item.copy() if item.dtype != object else copied(item.tolist())),
    (MutableSequence, _elements),
    (ValuesView, _elements),
)
