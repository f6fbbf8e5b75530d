"""The handles of keyed state on columns.

They are declared by the same descriptors as those of ``sparkstate.state.api``, and stored in the same bytes. So a job
may change from a function per record to one per batch, and back, over one savepoint.

Every method takes the ``keys`` of the call at hand. ``per_key`` arrays have one entry for each key, ``per_row`` arrays
one for each row of the batch (for each timer, in ``on_timers``). A ``mask`` is boolean, one entry per key; where it is
false or null the key keeps what it has.

In value, reducing and aggregating states null stands for a missing value: ``get`` returns it for a key without a
value, and writing it removes the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.batches.keys import BatchKeys


class BatchState(ABC):
    """The operations of all states."""

    @abstractmethod
    def clear(self, keys: BatchKeys, mask: Any = None) -> None:
        """Remove everything under these keys."""

    @abstractmethod
    def set_current_namespace(self, namespace: Hashable) -> None:
        """Choose the namespace (str, number, bytes or a tuple of them) until the call ends;
        ``None`` is the default one."""


class BatchValueState(BatchState):
    """One value per key. ``namespaces`` are whole numbers, one per key, and stand for this call in the place of the
    current namespace: one call then reads and writes values of many namespaces."""

    @abstractmethod
    def get(self, keys: BatchKeys, default: Any = None, namespaces: Any = None) -> pa.Array:
        """One value per key, of the state's Arrow type; ``default`` where there is none."""

    @abstractmethod
    def update(self, keys: BatchKeys, per_key: Any, mask: Any = None, namespaces: Any = None) -> None:
        """Set one value per key. Raises ``SerializationError`` for values that do not fit the declared type."""

    def update_new(
        self, keys: BatchKeys, per_key: Any, is_new: npt.NDArray[np.bool_], namespaces: Any
    ) -> None:
        """The same by a caller who has read which of the keys have no value in their namespaces (``is_new``). Such a
        value is never written if it is removed before the epoch ends."""
        self.update(keys, per_key, namespaces=namespaces)

    @abstractmethod
    def clear(self, keys: BatchKeys, mask: Any = None, namespaces: Any = None) -> None:
        """Remove the values under these keys."""


class BatchListState(BatchState):
    """A list of values per key."""

    @abstractmethod
    def get(self, keys: BatchKeys) -> pa.Array:
        """One list per key, empty where there is none."""

    @abstractmethod
    def add(self, keys: BatchKeys, per_row: Any) -> None:
        """Append each row's value to the list of its key, in the order of the rows."""

    @abstractmethod
    def add_all(self, keys: BatchKeys, per_key: Any) -> None:
        """Append one list per key; null appends nothing."""

    @abstractmethod
    def update(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        """Replace the lists by these, one per key."""


class BatchMapState(BatchState):
    """A map per key. Single entries are named by the key of a row and a field, so ``fields`` has one entry per row."""

    @abstractmethod
    def get(self, keys: BatchKeys, fields: Any) -> pa.Array:
        """For each row the value of its entry, null where there is none."""

    @abstractmethod
    def contains(self, keys: BatchKeys, fields: Any) -> pa.Array:
        """For each row whether there is an entry; its value may be null."""

    @abstractmethod
    def put(self, keys: BatchKeys, fields: Any, per_row: Any) -> None:
        """Write one entry for each row, in the order of the rows. A null is stored as the entry's value."""

    @abstractmethod
    def remove(self, keys: BatchKeys, fields: Any) -> None:
        """Remove one entry for each row."""

    @abstractmethod
    def items(self, keys: BatchKeys) -> pa.Array:
        """All entries: one Arrow map per key, empty where there is none."""


class BatchAppendingState(BatchState):
    """A reducing or aggregating state: values are folded in by the descriptor's function, one call for each row."""

    @abstractmethod
    def get(self, keys: BatchKeys) -> pa.Array:
        """One value per key: what was folded, or the aggregate function's result; null where nothing was added."""

    @abstractmethod
    def add(self, keys: BatchKeys, per_row: Any) -> None:
        """Fold each row's value into the state of its key, in the order of the rows. Null clears it, as in PyFlink."""
