"""Changes as columns, of tables of ``cells``."""

from __future__ import annotations

import numpy as np
from support.backends.cells import VALUES, group_of

from sparkstate.backends import long_index
from sparkstate.backends.base import TableChanges
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.backends.value_columns import ValueColumns


def columns(keys, value=1, present=True, spaces=None, is_new=None):
    """Changes that write one value for all of these keys, or delete it."""
    keys = np.array(keys, np.int64)
    groups = np.array([group_of(key) for key in keys.tolist()], np.int32)
    known = None if is_new is None else np.full(len(keys), not is_new)
    cells_of = keys if spaces is None else long_index.pairs(keys, np.full(len(keys), spaces))
    return ValueColumns(
        cells_of, groups, np.full(len(keys), value, np.int64), np.full(len(keys), present), known
    )


def marks(stamp, keys, registered=True):
    keys = np.array(keys, np.int64)
    groups = np.array([group_of(key) for key in keys.tolist()], np.int32)
    return TimerColumns(np.full(len(keys), stamp), keys, groups, np.full(len(keys), registered))


def put(store, keys, value=1, **rest):
    store.commit([TableChanges(VALUES, columns=columns(keys, value, **rest))], {})


def read(store, keys, spec=VALUES):
    groups = np.array([group_of(key) for key in keys], np.int32)
    values, present = store.table(spec).get_columns(groups, np.array(keys, np.int64))
    return [
        value if is_there else None for value, is_there in zip(values.tolist(), present.tolist(), strict=True)
    ]
