"""``sum``, ``min`` and ``max``: a running value per key, one output row for each row.

As in Flink, an output row is the key's first row with one field replaced: by the sum, the least or the greatest value
of that field so far. So two states are kept for each key: the value, and the other columns of the first row (none where
there are no columns but the keys and the field). Nulls count as no value. For the least and the greatest value, a NaN
does not count either.

Numbers of 64 bits and less are computed on Arrow batches. Decimals, texts and times are computed row by row, with the
same states and the same results.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import errors
from sparkstate.batches.functions import BatchContext, BatchRuntimeContext, KeyedBatchFunction
from sparkstate.batches.keys import BatchKeys, to_array
from sparkstate.functions import Context, KeyedProcessFunction, RuntimeContext
from sparkstate.serde import lost_numbers, scalars
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor

How = Literal["sum", "min", "max"]
_EXACT: Final = decimal.Context(prec=76)
"""Python's default context rounds to 28 digits."""


def _sum(before: Any, given: Any) -> Any:
    return _EXACT.add(before, given) if isinstance(given, decimal.Decimal) else before + given


def _by(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The least or greatest of two values. A NaN does not count, as for Arrow."""

    def fold(before: Any, given: Any) -> Any:
        if before != before:  # noqa: PLR0124 - finds NaN
            return given
        return before if given != given else choose(before, given)  # noqa: PLR0124

    return fold


_FOLDS: Final[dict[How, Callable[[Any, Any], Any]]] = {"sum": _sum, "min": _by(min), "max": _by(max)}
_NUMBERS: Final = ("BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE")
"""Arrow adds and compares them by itself."""
_LARGEST_FLOAT: Final = float(np.finfo(np.float32).max)
_ORDERED: Final = (*_NUMBERS, "BIG_DEC", "STRING", "SQL_DATE", "INSTANT", "SQL_TIMESTAMP")


@dataclass(frozen=True, kw_only=True)
class Rolling:
    """One ``sum(field)``, ``min(field)`` or ``max(field)``."""

    how: How
    field: str
    columns: tuple[str, ...]
    """Of a row."""
    keys: tuple[str, ...]
    types: tuple[TypeInformation, ...]
    """Of the columns."""
    decimals: tuple[int, int] | None = None
    """Precision and scale of a field of decimals. A harness knows none, and holds all of them."""

    @property
    def _declared(self) -> TypeInformation:
        """The type of the field."""
        return self.types[self.columns.index(self.field)]

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are taken from a key's first row."""
        return tuple(name for name in self.columns if name not in (*self.keys, self.field))

    @property
    def premises(self) -> Mapping[str, str]:
        """A sum and the greatest value have one type, and neither goes on where the other was."""
        return {"running value": self.how}

    def value_descriptor(self) -> ValueStateDescriptor:
        """The state of the running value. Whole numbers and floats are kept with 64 bits."""
        declared = self._declared
        wide = {"BYTE": Types.LONG(), "SHORT": Types.LONG(), "INT": Types.LONG(), "FLOAT": Types.DOUBLE()}
        return ValueStateDescriptor("value", wide.get(declared.describe(), declared))

    def first_descriptor(self) -> ValueStateDescriptor:
        """The state of the other columns."""
        kinds = [self.types[self.columns.index(name)] for name in self.others]
        return ValueStateDescriptor("first", Types.ROW_NAMED(list(self.others), kinds))

    def limit(self) -> Callable[[Any], object] | None:
        """A function that raises an error for a running value that the field's column cannot hold, where the state is
        wider than that; None: it is not."""
        declared = self._declared
        if self.decimals is not None:
            precision, scale = self.decimals
            exact = decimal.Context(prec=precision, traps=[decimal.InvalidOperation, decimal.Inexact])
            unit = decimal.Decimal(1).scaleb(-scale)
            return lambda value: exact.quantize(value, unit)
        if declared.describe() == "FLOAT":
            return _require_float
        is_widened = isinstance(declared, scalars.IntegerType) and declared != Types.LONG()
        return declared.normalize if is_widened else None

    def refusal(self, why: str) -> errors.StateError:
        """The error for a running value that the field's column cannot hold."""
        if self.decimals is not None:
            wider = "a wider decimal"
        else:
            wider = "double" if self._declared.describe() == "FLOAT" else "bigint"
        return errors.StateError(
            f"{self.how}({self.field!r}) does not fit the column's type: {why}; cast the column to {wider} before "
            "keyed()"
        )

    def function(self, on_error: str = "fail") -> RollingRows | RollingBatches:
        """The function that runs it: on batches if the field is a number and no row may be rejected by itself."""
        is_number = self._declared.describe() in _NUMBERS
        return RollingBatches(self) if is_number and on_error == "fail" else RollingRows(self)


def named(field: object, columns: Sequence[str], keys: Sequence[str], where: str) -> str:
    """The column that ``field`` names, by its name or its place. Raises ``SpecInvalid``, beginning with ``where``, if
    there is none, or it is a key."""
    found = field
    if isinstance(field, int) and not isinstance(field, bool) and 0 <= field < len(columns):
        found = columns[field]
    if not isinstance(found, str) or found not in columns:
        raise errors.SpecInvalid(
            f"{where}: there is no such column; the columns are {list(columns)}, from 0; give another name or place"
        )
    if found in keys:
        raise errors.SpecInvalid(f"{where}: {found!r} is a key column; give another one")
    return found


def check_type(how: How, kind: TypeInformation, shown: str, where: str) -> None:
    """Raise ``SpecInvalid`` for a column that cannot be summed, or not be compared. ``shown`` is its type in words."""
    found = kind.describe()
    if how == "sum" and found not in (*_NUMBERS, "BIG_DEC"):
        raise errors.SpecInvalid(f"{where} is {shown}; give a column of numbers")
    if found not in _ORDERED:
        raise errors.SpecInvalid(
            f"{where} is {shown}; give a column of numbers, strings, dates or timestamps"
        )


def _require_float(value: float) -> None:
    """Raise ``SerializationError`` for a finite number that is infinite with 32 bits."""
    if abs(value) <= _LARGEST_FLOAT or not math.isfinite(value):
        return
    with np.errstate(over="ignore"):
        if np.isinf(np.float32(value)):  # one that is hardly larger is rounded to the largest
            raise errors.SerializationError(f"{value} would become infinite in float")


class RollingRows(KeyedProcessFunction):
    """Row by row."""

    def __init__(self, rolling: Rolling) -> None:
        self._rolling = rolling
        self._at = rolling.columns.index(rolling.field)
        self._others_at = [rolling.columns.index(name) for name in rolling.others]
        self._fold = _FOLDS[rolling.how]

    @property
    def state_premises(self) -> Mapping[str, str]:
        return self._rolling.premises

    def open(self, ctx: RuntimeContext) -> None:
        self._value = ctx.get_state(self._rolling.value_descriptor())
        self._first = ctx.get_state(self._rolling.first_descriptor()) if self._others_at else None
        self._limit = self._rolling.limit()

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any]:
        row = list(value)
        before, given = self._value.value(), row[self._at]
        after = given if before is None else before if given is None else self._fold(before, given)
        if self._limit is not None and after is not None:
            self._check(after, self._limit)
        if after is not before:
            self._value.update(after)
        row[self._at] = after
        if self._first is not None:
            first = self._first.value()
            if first is None:
                self._first.update(tuple(row[at] for at in self._others_at))
            else:
                for at, other in zip(self._others_at, first, strict=True):
                    row[at] = other
        return (row,)

    def _check(self, value: Any, limit: Callable[[Any], object]) -> None:
        """Here the row can still be rejected; where rows become columns, the whole epoch fails."""
        try:
            limit(value)
        except errors.SerializationError as error:
            raise self._rolling.refusal(str(error)) from None
        except decimal.DecimalException:
            precision, scale = self._rolling.decimals or (0, 0)
            raise self._rolling.refusal(f"{value} is not a decimal({precision},{scale})") from None


class RollingBatches(KeyedBatchFunction):
    """On Arrow batches."""

    def __init__(self, rolling: Rolling) -> None:
        self._rolling = rolling

    @property
    def state_premises(self) -> Mapping[str, str]:
        return self._rolling.premises

    def open(self, ctx: BatchRuntimeContext) -> None:
        self._value = ctx.get_state(self._rolling.value_descriptor())
        self._first = ctx.get_state(self._rolling.first_descriptor()) if self._rolling.others else None

    def process_batch(self, batch: pa.RecordBatch, keys: BatchKeys, ctx: BatchContext) -> Iterable[Any]:
        rolling = self._rolling
        running = getattr(keys, f"cumulative_{rolling.how}")
        given = batch.column(rolling.field)
        wide = given.cast(pa.float64() if pa.types.is_floating(given.type) else pa.int64())
        after = running(wide, start=self._value.get(keys))
        self._value.update(keys, after.take(pa.array(keys.last_rows())))
        found = dict(zip(rolling.others, self._firsts(batch, keys), strict=True))
        found[rolling.field] = self._narrowed(after, given.type)
        arrays = [found.get(name, batch.column(name)) for name in batch.schema.names]
        made = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
        return (ctx.with_timestamps(made, ctx.timestamps()),)

    def _firsts(self, batch: pa.RecordBatch, keys: BatchKeys) -> Sequence[pa.Array]:
        """The other columns, each row with the values of its key's first one."""
        if self._first is None:
            return ()
        stored = self._first.get(keys)
        rows = pa.array(keys.first_rows())
        others = self._rolling.others
        fresh = pa.StructArray.from_arrays([batch.column(n).take(rows) for n in others], list(others))
        is_new = pc.is_null(stored)
        self._first.update(keys, fresh, mask=is_new)
        each = [
            pc.if_else(is_new, *_in_one_type(fresh.field(name), to_array(pc.struct_field(stored, name))))
            for name in others
        ]
        return [keys.take(column) for column in each]

    def _narrowed(self, after: pa.Array, kind: pa.DataType) -> pa.Array:
        # A harness finds the types by itself: none for nulls, and whole numbers for floats without a fraction.
        if pa.types.is_null(kind) or (pa.types.is_floating(after.type) and pa.types.is_integer(kind)):
            return after
        try:
            made = after.cast(kind, safe=not pa.types.is_floating(kind))
        except pa.ArrowInvalid as error:
            raise self._rolling.refusal(f"{kind} ({error})") from None
        if (lost := lost_numbers.first_infinite(after, made)) is not None:
            raise self._rolling.refusal(f"{lost} would become infinite in {kind}")
        return made


def _in_one_type(fresh: pa.Array, stored: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both in the type of the column. A harness finds that by itself: it has none for a column of nulls, and may find
    one that earlier values do not fit. Both are in the type of the state then."""
    try:
        return fresh, stored.cast(fresh.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return fresh.cast(stored.type), stored
