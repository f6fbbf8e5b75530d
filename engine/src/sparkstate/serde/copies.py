"""Rows as they were when the user's code put them out.

Rows become a batch some thousands at a time. A function that goes on to change a list that it has yielded would change
the rows before as well: each row of a running list had all of its elements. Flink serialises a row when it is put out,
so there it stays as it was.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any, Final

import numpy as np

from sparkstate.serde.row import Row

FIXED: Final[frozenset[type]] = frozenset(
    {
        int, float, str, bool, bytes, type(None), decimal.Decimal,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
    }
)  # fmt: skip
"""Types whose values nobody can change. There are others: a value of those takes a look more."""


def copied(item: Any) -> Any:
    """The row or value, with copies of the lists, dicts, sets, arrays and buffers in it. Any other object stays."""
    if isinstance(item, tuple):
        for value in item:
            if type(value) not in FIXED:
                return _made_anew(item)
        return item
    if type(item) in FIXED:
        return item
    if isinstance(item, list):
        return [copied(value) for value in item]
    if isinstance(item, dict):
        return {key: copied(value) for key, value in item.items()}
    if isinstance(item, set):
        return set(item)
    if isinstance(item, bytearray):
        return bytes(item)
    return item.copy() if isinstance(item, np.ndarray) else item


def _made_anew(item: Any) -> Any:
    values = [copied(value) for value in item]
    kind = type(item)
    # Tuples of other classes, such as pyspark's rows, count by the positions of their values.
    return (
        kind(values)
        if issubclass(kind, Row)
        else kind._make(values)
        if hasattr(kind, "_make")
        else tuple(values)
    )
