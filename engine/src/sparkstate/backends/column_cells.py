"""Single cells that have a place in columns (``value_columns``), and the columns that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparkstate.backends import long_index, value_columns
from sparkstate.backends.base import DELETED, Cell, NamespacedCell
from sparkstate.backends.value_columns import ValueColumns


def is_pair(cell: Cell) -> bool:
    """Whether key and namespace of a cell are whole numbers."""
    return type(cell) is NamespacedCell and type(cell.key) is int and is_number(cell.namespace)


def is_number(namespace: Any) -> bool:
    """Whether a namespace is a whole number. It may be a member of an ``IntEnum``, which is stored as its number; a
    truth value has a place of its own (``composite.NAMESPACES``)."""
    return type(namespace) is int or (isinstance(namespace, int) and not isinstance(namespace, bool))


def pairs_of(cells: Sequence[NamespacedCell]) -> Any:
    """Such cells as an array of ``long_index.PAIR``."""
    keys = np.fromiter((cell.key for cell in cells), np.int64, len(cells))
    return long_index.pairs(keys, np.fromiter((cell.namespace for cell in cells), np.int64, len(cells)))


def plain_columns(values: Mapping[int, Any], kgs: Mapping[Any, int], dtype: Any) -> ValueColumns:
    """Changes of whole-number keys in the default namespace."""
    groups = np.fromiter(map(kgs.__getitem__, values), np.int32, len(values))
    return ValueColumns(np.fromiter(values, np.int64, len(values)), groups, *_values(values, dtype))


def pair_columns(values: Mapping[NamespacedCell, Any], kgs: Mapping[Any, int], dtype: Any) -> ValueColumns:
    """Changes of cells whose keys and namespaces are whole numbers."""
    groups = np.fromiter((kgs[cell.key] for cell in values), np.int32, len(values))
    return ValueColumns(pairs_of(list(values)), groups, *_values(values, dtype))


def _values(values: Mapping[Any, Any], dtype: Any) -> tuple[value_columns.Values, value_columns.Flags]:
    given = [None if value is DELETED else value for value in values.values()]
    return value_columns.to_columns(given, dtype)
