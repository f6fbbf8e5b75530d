"""Rows of an epoch in the order in which a store has their keys: by key group and key.

Theory. Reads of neighbours find the same blocks, and a state that is larger than memory is then written once, in the
order of its rows (``backends.ordered_spill``). The order is a matter of speed alone: each key has its own rows in the
order in which they came, and that is all that a function may rely on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns
from sparkstate.operators.rows import large_groups, sorting
from sparkstate.operators.rows.files import WaitingRows
from sparkstate.serde import scalars
from sparkstate.serde.containers import TupleType
from sparkstate.serde.typeinfo import TypeInformation


def is_known(key_type: TypeInformation) -> bool:
    """Whether Arrow sorts such keys as a store does."""
    fields = key_type.fields if isinstance(key_type, TupleType) else (key_type,)
    return all(isinstance(each, scalars.IntegerType | scalars.StringType) for each in fields)


def by_key(
    batches: Iterable[pa.RecordBatch],
    key_columns: Sequence[str],
    part_bytes: int,
    new_rows: Callable[[], WaitingRows],
) -> Iterator[pa.RecordBatch]:
    """Batches in the order of key groups become batches in the order of keys. A part has about ``part_bytes`` and whole
    key groups. A group that is larger than memory becomes several parts, and its rows wait in files of ``new_rows``."""
    groups = large_groups.LargeGroups(partial(_order, key_columns=key_columns), part_bytes, new_rows)
    source = iter(batches)
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in source:
        waiting.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        part_rows = sorting.rows_in(part_bytes, size, count, large_groups.LEAST_ROWS, large_groups.MOST_ROWS)
        if count < part_rows:
            continue
        if _is_one_group(waiting):
            if groups.has_room(count, size):
                continue
            others: list[pa.RecordBatch] = []
            yield from groups.sort(_one_group(waiting, source, others))
            waiting = others
        else:
            whole, waiting = _cut(waiting)
            yield from _sorted(whole, key_columns)
            del whole  # not beside the rows of a large group
        count = sum(each.num_rows for each in waiting)
        size = sum(each.nbytes for each in waiting)
    if count:
        yield from _sorted(pa.Table.from_batches(waiting), key_columns)


def _is_one_group(batches: Sequence[pa.RecordBatch]) -> bool:
    first, last = batches[0].column(columns.KEY_GROUP), batches[-1].column(columns.KEY_GROUP)
    return bool(first[0] == last[-1])


def _one_group(
    waiting: list[pa.RecordBatch], source: Iterator[pa.RecordBatch], others: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows that wait, which are of one group, and those of the same group that follow. The first rows of another
    one are put into ``others``."""
    group = waiting[0].column(columns.KEY_GROUP)[0].as_py()
    waiting.reverse()
    while waiting:
        yield waiting.pop()
    for batch in source:
        end = int(np.searchsorted(batch.column(columns.KEY_GROUP).to_numpy(), group, "right"))
        if end:
            yield batch.slice(0, end)
        if end < batch.num_rows:
            others.append(batch.slice(end))
            return


def _cut(batches: Sequence[pa.RecordBatch]) -> tuple[pa.Table, list[pa.RecordBatch]]:
    """The rows before the last key group, and those of that group."""
    table = pa.Table.from_batches(batches)
    groups = table.column(columns.KEY_GROUP).to_numpy()
    end = int(np.searchsorted(groups, groups[-1], "left"))
    return table.slice(0, end), [each for each in table.slice(end).to_batches() if each.num_rows]


def _sorted(table: pa.Table, key_columns: Sequence[str]) -> list[pa.RecordBatch]:
    return table.take(_order(table, key_columns)).combine_chunks().to_batches()  # type: ignore[no-any-return]


def _order(table: pa.Table, key_columns: Sequence[str]) -> pa.Array:
    by = {columns.KEY_GROUP: table.column(columns.KEY_GROUP)}
    for name in key_columns:
        column = table.column(name)
        if column.null_count:  # a null key is before all others of its group
            by[f"{name} is there"] = column.is_valid()
        by[name] = column
    return pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by])  # a stable sort
