"""LONG states of functions on records whose entries are columns: handles that read and write them in C.

Theory. Entries in columns are those of functions on batches (``column_entries``), so reading ahead, spilling, weighing
and commit are theirs. The extension keeps no pointer into them: its ``LongColumns`` hold the arrays, and are told of
new ones when the entries grow. Values of an unusual form, the entries of namespaces, and the case that no key is set
are left to the handle in Python, for which the columns are a sequence like any other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkstate.operators.state import handles
from sparkstate.operators.state.column_entries import ColumnEntries
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.overlay import TableOverlay
from sparkstate.serde.typeinfo import TypeInformation


class CompiledEntries(ColumnEntries):
    """Columns of LONG that the extension reads and writes."""

    __slots__ = ("longs",)

    def __init__(self, longs: Any) -> None:
        """``longs``: ``LongColumns`` of the extension, which are told of the arrays."""
        super().__init__(np.int64)
        self.longs = longs

    def grow(self, count: int) -> None:
        super().grow(count)
        flags = self._present.view(np.uint8), self._changed.view(np.uint8)
        self.longs.refresh(self._values, *flags, self.count)


def value_handle_class_of(
    records: Any,
) -> Callable[[TypeInformation, bool], type[handles.ValueStateHandle]]:
    """The classes for value states of an operator with the compiled record path, whose stores take columns. ``records``
    is the extension."""

    def value_handle_class(
        value_type: TypeInformation, undoes_records: bool
    ) -> type[handles.ValueStateHandle]:
        if value_type.is_immutable and value_type.describe() == "LONG" and not undoes_records:
            return _long_handle_class(records)
        return handles.value_handle_class(value_type, undoes_records)

    return value_handle_class


@functools.cache
def _long_handle_class(records: Any) -> type[handles.ValueStateHandle]:
    # Made when it is asked for first, because without the extension it has no base.

    class CompiledLongHandle(records.LongHandle, handles.LongValueStateHandle):  # type: ignore[misc]
        """A value state of LONG. ``value``, ``update`` and ``clear`` are the extension's."""

        def __init__(self, spec: Any, number: int, cursor: Cursor, table_of: handles.TableOf) -> None:
            handles.LongValueStateHandle.__init__(self, spec, number, cursor, table_of)
            self.attach(records.Position(cursor, Cursor))

        def empty_columns(self) -> ColumnEntries | None:
            return CompiledEntries(records.LongColumns())

        def bind(self, table: TableOverlay) -> None:
            super().bind(table)
            self._to_columns()

        def unbind(self) -> None:
            self.point(None)
            super().unbind()

        def set_current_namespace(self, namespace: Any) -> None:
            super().set_current_namespace(namespace)
            if namespace is None:
                self._to_columns()
            else:
                self.point(None)

        def leave_namespace(self) -> None:
            super().leave_namespace()
            self._to_columns()

        def _to_columns(self) -> None:
            """The entries are those of the default namespace, if there is a key at all."""
            columns = self._table.columns
            self.point(None if columns is None else columns.longs)
            if columns is not None:
                self._entries = columns.longs

        # Written out: what the extension leaves to Python.

        def _value(self) -> Any:
            return handles.LongValueStateHandle.value(self)

        def _update(self, value: Any) -> None:
            handles.LongValueStateHandle.update(self, value)

        def _clear(self) -> None:
            handles.LongValueStateHandle.clear(self)

    return CompiledLongHandle
