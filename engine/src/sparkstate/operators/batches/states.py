"""State on columns, over the handles per key: the same overlay, the same stored forms, the same errors.

Values move as lists, one entry per key of the batch. Reading and writing them takes a loop over the keys, none over the
rows. Lists, maps and folded state go through the handle of the record path, entry by entry.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import errors
from sparkstate.backends import column_cells
from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import Flags, Values
from sparkstate.batches import keys as batch_keys
from sparkstate.batches import packed_columns, state
from sparkstate.batches.keys import BatchKeys
from sparkstate.operators.batches import arrow_types
from sparkstate.operators.batches.binding import Binding, chosen
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.state import collection_handles, handles
from sparkstate.operators.state.known_keys import Numbers
from sparkstate.serde import enums, packed, scalars
from sparkstate.serde.expiring import ttl_of

_AS_THEY_ARE = frozenset(
    (
        "BOOLEAN",
        "BYTE",
        "SHORT",
        "INT",
        "LONG",
        "FLOAT",
        "DOUBLE",
        "STRING",
        "SQL_DATE",
        "PRIMITIVE_ARRAY<BYTE>",
    )
)
"""Types of which every value that Arrow gives is a stored value already, once there is one NaN."""


class _ColumnState:
    """The common part: a handle per key, and the binding."""

    def __init__(self, handle: Any, binding: Binding) -> None:
        self._handle = handle
        self._binding = binding
        self._cursor = binding.cursor
        self._type = handle.value_type
        self._name = arrow_types.namer(self._type)
        ttl = ttl_of(handle.spec.value_type)
        self._in_event_time = ttl is not None and ttl.in_event_time
        try:
            self._arrow_type = arrow_types.arrow_type(self._type)
        except errors.StateError as error:
            raise errors.StateError(
                f"state {handle.spec.name!r} of operator {binding.uid!r}: {error}"
            ) from None

    def set_current_namespace(self, namespace: Hashable) -> None:
        self._handle.set_current_namespace(namespace)

    def clear(self, keys: BatchKeys, mask: Any = None) -> None:
        for _ in self._at_keys(keys, mask):
            self._handle.clear()

    def _at_keys(self, keys: BatchKeys, mask: Any = None, *, reads: bool = False) -> Iterator[int]:
        """The places of the chosen keys, the cursor at each in turn, to read its state or to write it."""
        cursor, numbers = self._cursor, self._binding.numbers(keys)
        flags = chosen(keys, mask)
        times = self._times(reads)
        for place, number in enumerate(numbers):
            if flags is None or flags[place]:
                cursor.number = number
                if times is not None:
                    cursor.stamp = times[number]
                yield place

    def _times(self, reads: bool) -> dict[int, int] | None:
        """The event time of each key, by its number; None: the state does not expire by it."""
        times = self._cursor.key_times
        if times is None or not self._in_event_time:
            return None
        return times.of_reads if reads else times.of_writes

    def _at_rows(self, keys: BatchKeys) -> Iterator[int]:
        """The number of each row, the cursor at its key."""
        cursor, numbers = self._cursor, self._binding.numbers(keys)
        if self._in_event_time:
            times = self._binding.row_times(keys)
            for row, code in enumerate(keys.codes.tolist()):
                cursor.number, cursor.stamp = numbers[code], times[row]
                yield row
            return
        for row, code in enumerate(keys.codes.tolist()):
            cursor.number = numbers[code]
            yield row

    def _named(self, values: list[Any]) -> list[Any]:
        """The values with names for members of enums."""
        name = self._name
        return values if name is None else [None if value is None else name(value) for value in values]

    def _array(self, values: list[Any], kind: pa.DataType | None) -> pa.Array:
        try:
            return pa.array(values, type=kind)
        except (pa.ArrowException, OverflowError) as error:
            spec = self._handle.spec
            raise errors.StateError(
                f"state {spec.name!r} of operator {spec.uid!r} holds a value that no Arrow array of {kind} can have: "
                f"{error}"
            ) from None

    def _values(self, array: pa.Array) -> list[Any]:
        return self._converted(array, self._type)

    def _converted(self, array: pa.Array, declared: Any) -> list[Any]:
        with self._naming_the_state():
            return arrow_types.to_values(array, declared)

    @contextlib.contextmanager
    def _naming_the_state(self) -> Iterator[None]:
        """An error tells which state it is about."""
        try:
            yield
        except errors.SerializationError as error:
            spec = self._handle.spec
            raise errors.SerializationError(
                f"state {spec.name!r} of operator {spec.uid!r}: {error}"
            ) from None


class ColumnValueState(_ColumnState, state.BatchValueState):
    """A value state."""

    _handle: handles.ValueStateHandle

    @property
    def _are_stored(self) -> bool:
        """Whether ``_entries`` gives stored values."""
        return self._type.describe() in _AS_THEY_ARE or isinstance(self._type, packed.PackedType)

    def get(self, keys: BatchKeys, default: Any = None, namespaces: Any = None) -> pa.Array:
        columns, spaces = self._handle.columns, self._spaces(keys, namespaces)
        if spaces is not None:
            values = self._get_in(keys, spaces)
        elif columns is not None:
            values = self._to_array(*columns.get(self._binding.number_array(keys)))
        else:
            entries = self._handle.entries_of(self._binding.numbers(keys))
            values = self._array(self._named(entries), self._arrow_type)
        if isinstance(default, enum.Enum) and isinstance(self._type, enums.EnumType):
            default = self._type.normalize(default)
        return values if default is None else _filled(values, keys, default)

    def _get_in(self, keys: BatchKeys, spaces: Longs) -> pa.Array:
        numbers, known = self._binding.number_array(keys), self._binding.overlay.known
        if self._handle.pairs is not None:
            return self._to_array(*self._handle.columns_in(numbers, spaces, known))
        entries = self._handle.entries_in(numbers, spaces.tolist(), known)
        return self._array(self._named(entries), self._arrow_type)

    def _to_array(self, found: Values, present: Flags) -> pa.Array:
        if found.dtype.kind == "V":
            return packed_columns.to_arrow(found, present)
        return pa.array(found, self._arrow_type, mask=None if present.all() else ~present)

    def _spaces(self, keys: BatchKeys, namespaces: Any) -> Longs | None:
        """The namespace of each key, where all are whole numbers and one call can answer for them."""
        if namespaces is None:
            if self._handle.is_spaced:
                raise errors.StateError(
                    f"state {self._handle.spec.name!r} of operator {self._binding.uid!r} was asked for with "
                    "in_namespaces=True; give each call namespaces="
                )
            space = self._handle.namespace
            is_whole = self._handle.pairs is not None and column_cells.is_number(space)
            return np.full(len(keys), space, np.int64) if is_whole else None
        array = batch_keys.per_key(keys, namespaces)
        if array.null_count or not (pa.types.is_integer(array.type) or not len(array)):
            raise errors.StateError(
                f"state {self._handle.spec.name!r} of operator {self._binding.uid!r}: namespaces are whole numbers, "
                f"one per key and none of them null; got an array of {array.type} with {array.null_count} nulls"
            )
        return array.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]

    def update(self, keys: BatchKeys, per_key: Any, mask: Any = None, namespaces: Any = None) -> None:
        numbers, flags = self._binding.number_array(keys), chosen(keys, mask)
        array, spaces = batch_keys.per_key(keys, per_key), self._spaces(keys, namespaces)
        if flags is not None:
            numbers, array = numbers[flags], array.filter(pa.array(flags))
            spaces = None if spaces is None else spaces[flags]
        if spaces is not None:
            self._set_in(numbers, spaces, array)
            return
        columns = self._handle.columns
        if columns is not None:
            columns.set(numbers, *self._column(array))
            return
        self._handle.set_entries(numbers.tolist(), self._entries(array), are_stored=self._are_stored)

    def update_new(self, keys: BatchKeys, per_key: Any, is_new: Flags, namespaces: Any) -> None:
        numbers, spaces = self._binding.number_array(keys), self._spaces(keys, namespaces)
        assert spaces is not None
        self._set_in(numbers, spaces, batch_keys.per_key(keys, per_key), is_new)

    def _set_in(self, numbers: Numbers, spaces: Longs, array: pa.Array, is_new: Flags | None = None) -> None:
        pairs = self._handle.pairs
        if pairs is not None:
            pairs.set(numbers, spaces, *self._column(array), is_new)
            return
        values = self._entries(array)
        self._handle.set_entries_in(numbers.tolist(), spaces.tolist(), values, are_stored=self._are_stored)

    def _entries(self, array: pa.Array) -> list[Any]:
        """Values for the handle per key: stored ones of those types whose values are stored as they are."""
        values = self._values(array)
        return arrow_rows.one_nan(values) if isinstance(self._type, scalars.FloatType) else values

    def clear(self, keys: BatchKeys, mask: Any = None, namespaces: Any = None) -> None:
        columns = self._handle.columns
        if self._spaces(keys, namespaces) is not None:
            self.update(keys, pa.nulls(len(keys)), mask, namespaces)
            return
        if columns is None:
            super().clear(keys, mask)
            return
        numbers, flags = self._binding.number_array(keys), chosen(keys, mask)
        columns.clear(numbers if flags is None else numbers[flags])

    def _column(self, array: pa.Array) -> tuple[Values, Flags]:
        """Values of the declared type, and whether there is one."""
        with self._naming_the_state():
            cast = arrow_types.cast(array, self._type)
        present = cast.is_valid().to_numpy(zero_copy_only=False)
        if isinstance(self._type, packed.PackedType):
            return packed_columns.of_arrow(cast), present
        return cast.fill_null(pa.scalar(0).cast(cast.type)).to_numpy(zero_copy_only=False), present


class ColumnListState(_ColumnState, state.BatchListState):
    """A list state."""

    _handle: collection_handles.ListStateHandle

    def get(self, keys: BatchKeys) -> pa.Array:
        lists = [self._named(self._handle.get()) for _ in self._at_keys(keys, reads=True)]
        return self._array(lists, pa.list_(self._arrow_type))

    def add(self, keys: BatchKeys, per_row: Any) -> None:
        values = self._values(keys.column(per_row))
        for row in self._at_rows(keys):
            self._handle.add(values[row])

    def add_all(self, keys: BatchKeys, per_key: Any) -> None:
        lists = self._lists(keys, per_key)
        for place in self._at_keys(keys):
            self._handle.add_all(lists[place] or ())

    def update(self, keys: BatchKeys, per_key: Any, mask: Any = None) -> None:
        lists = self._lists(keys, per_key)
        for place in self._at_keys(keys, mask):
            self._handle.update(lists[place] or ())

    def _lists(self, keys: BatchKeys, per_key: Any) -> list[list[Any] | None]:
        array = batch_keys.per_key(keys, per_key)
        if pa.types.is_null(array.type):
            return [None] * len(array)
        if not pa.types.is_list(array.type) and not pa.types.is_large_list(array.type):
            raise errors.StateError(
                f"state {self._handle.spec.name!r} of operator {self._handle.spec.uid!r}: an array of lists is needed, "
                f"not of {array.type}"
            )
        items = self._values(array.flatten())
        lengths = pc.fill_null(pc.list_value_length(array), -1).to_pylist()
        result: list[list[Any] | None] = []
        at = 0
        for length in lengths:
            result.append(None if length < 0 else items[at : at + length])
            at += max(0, length)
        return result


class ColumnMapState(_ColumnState, state.BatchMapState):
    """A map state."""

    _handle: collection_handles.MapStateHandle

    def get(self, keys: BatchKeys, fields: Any) -> pa.Array:
        names = self._fields(keys, fields)
        values = [self._handle.get(names[row]) for row in self._at_rows(keys)]
        return self._array(self._named(values), self._arrow_type)

    def contains(self, keys: BatchKeys, fields: Any) -> pa.Array:
        names = self._fields(keys, fields)
        return pa.array([self._handle.contains(names[row]) for row in self._at_rows(keys)], type=pa.bool_())

    def put(self, keys: BatchKeys, fields: Any, per_row: Any) -> None:
        names, values = self._fields(keys, fields), self._values(keys.column(per_row))
        for row in self._at_rows(keys):
            self._handle.put(names[row], values[row])

    def remove(self, keys: BatchKeys, fields: Any) -> None:
        names = self._fields(keys, fields)
        for row in self._at_rows(keys):
            self._handle.remove(names[row])

    def items(self, keys: BatchKeys) -> pa.Array:
        key_type = self._handle.spec.user_key_type
        assert key_type is not None
        kind = pa.map_(arrow_types.arrow_type(key_type), self._arrow_type)
        named: Any = arrow_types.pair_namer(key_type, self._type) or list
        return self._array([named(self._handle.items()) for _ in self._at_keys(keys, reads=True)], kind)

    def _fields(self, keys: BatchKeys, fields: Any) -> list[Any]:
        return self._converted(keys.column(fields), self._handle.spec.user_key_type)


class ColumnAppendingState(_ColumnState, state.BatchAppendingState):
    """A reducing or an aggregating state."""

    _handle: handles.ReducingStateHandle | handles.AggregatingStateHandle

    def get(self, keys: BatchKeys) -> pa.Array:
        values = [self._handle.get() for _ in self._at_keys(keys, reads=True)]
        if isinstance(self._handle, handles.ReducingStateHandle):
            return self._array(self._named(values), self._arrow_type)
        # An aggregate's result is of no declared type, so Arrow finds one.
        classes = arrow_types.enum_classes(self._type)
        return self._array([each._name_ if type(each) in classes else each for each in values], None)

    def add(self, keys: BatchKeys, per_row: Any) -> None:
        array = keys.column(per_row)
        is_declared = isinstance(self._handle, handles.ReducingStateHandle)
        values = self._values(array) if is_declared else array.to_pylist()
        for row in self._at_rows(keys):
            self._handle.add(values[row])


def _filled(values: pa.Array, keys: BatchKeys, default: Any) -> pa.Array:
    if values.null_count == 0:
        return values
    if isinstance(default, (pa.Array, pa.ChunkedArray)):
        return pc.coalesce(values, batch_keys.per_key(keys, default).cast(values.type))
    return values.fill_null(pa.scalar(default, type=values.type))
