"""The numbers of the keys of a batch's rows, which are read in stretches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sparkstate import columns
from sparkstate.operators.state.known_keys import Numbers
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables


class KeyNumbers:
    """Those of the rows of one batch, as an array or as a list."""

    def __init__(self, numbers: Numbers | list[int]) -> None:
        self._numbers = numbers

    @property
    def all(self) -> Numbers | list[int]:
        """Those of the whole batch."""
        return self._numbers

    def of(self, stretch: slice) -> list[int]:
        """Those of a stretch of the batch."""
        found = self._numbers[stretch]
        return found if isinstance(found, list) else found.tolist()


def number_rows(
    tables: OperatorTables,
    overlay: Overlay,
    batch: pa.RecordBatch,
    key_columns: Sequence[str],
    read_keys: Callable[[], list[Any]],
) -> KeyNumbers:
    """Number the keys of a batch, and read the state of new ones ahead. ``read_keys`` gives them as Python objects,
    where no array will do."""
    kgs = batch.column(columns.KEY_GROUP).to_numpy(zero_copy_only=False)
    if tables.indexes_longs:
        return KeyNumbers(tables.prefetch_longs(overlay, batch.column(key_columns[0]), kgs))
    return KeyNumbers(tables.prefetch(overlay, read_keys(), kgs))
