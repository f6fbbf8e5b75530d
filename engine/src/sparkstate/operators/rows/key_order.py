"""Rows of an epoch in the order in which a store has their keys: by key group and key.

Theory. Reads of neighbours find the same blocks, and a state that is larger than memory is then written once, in the
order of its rows (``backends.ordered_spill``). The order is a matter of speed alone: each key has its own rows in the
order in which they came, and that is all that a function may rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns
from sparkstate.operators.rows import sorting
from sparkstate.serde import scalars
from sparkstate.serde.containers import TupleType
from sparkstate.serde.typeinfo import TypeInformation

_MOST_ROWS: Final = 65_536
_LEAST_ROWS: Final = 64


def is_known(key_type: TypeInformation) -> bool:
    """Whether Arrow sorts such keys as a store does."""
    fields = key_type.fields if isinstance(key_type, TupleType) else (key_type,)
    return all(isinstance(each, scalars.IntegerType | scalars.StringType) for each in fields)


def by_key(
    batches: Iterable[pa.RecordBatch], key_columns: Sequence[str], part_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Batches in the order of key groups become batches in the order of keys. A part has about ``part_bytes`` and whole
    key groups. A group of four times as many is split, and its keys begin anew in the next part."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        part_rows = sorting.rows_in(part_bytes, size, count, _LEAST_ROWS, _MOST_ROWS)
        if count < part_rows:
            continue
        table = pa.Table.from_batches(waiting)
        end = _last_group(table)
        if end == 0 and count < 4 * part_rows:
            continue
        end = end or count
        yield from _sorted(table.slice(0, end), key_columns)
        waiting = table.slice(end).to_batches()
        count -= end
        size = sum(each.nbytes for each in waiting)
    if count:
        yield from _sorted(pa.Table.from_batches(waiting), key_columns)


def _last_group(table: pa.Table) -> int:
    """The row at which the last key group begins."""
    groups = table.column(columns.KEY_GROUP).to_numpy()
    return int(np.searchsorted(groups, groups[-1], "left"))


def _sorted(table: pa.Table, key_columns: Sequence[str]) -> list[pa.RecordBatch]:
    by = {columns.KEY_GROUP: table.column(columns.KEY_GROUP)}
    for name in key_columns:
        column = table.column(name)
        if column.null_count:  # a null key is before all others of its group
            by[f"{name} is there"] = column.is_valid()
        by[name] = column
    order = pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by])  # a stable sort
    return table.take(order).combine_chunks().to_batches()  # type: ignore[no-any-return]
