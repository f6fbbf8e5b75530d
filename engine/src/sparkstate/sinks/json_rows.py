"""Rows as lines of JSON, which Spark reads back under the columns' own types (``docs/formats.md`` has the table).

The type of a column decides its form, so a column whose values JSON has anyway costs nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from sparkstate.sinks import far_times

Form: TypeAlias = Callable[[Any], Any]
"""From a value as Arrow gives it, not null, to one for JSON."""


def lines(batch: pa.RecordBatch) -> Iterator[str]:
    """One object for each row, without its end of line."""
    names = batch.schema.names
    columns = [_column(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield _ENCODER.encode(dict(zip(names, row, strict=True)))


def _column(column: pa.Array) -> list[Any]:
    try:
        return _values(column.to_pylist(), _form(column.type))
    except OverflowError:  # a date or a timestamp in a year that Python does not have
        numbers = column.cast(far_times.numbers(column.type))
        return _values(numbers.to_pylist(), _form(column.type, numbers=True))


def _text(value: Any) -> str:
    """A value for which JSON has no form of its own."""
    isoformat = getattr(value, "isoformat", None)
    if isoformat is not None:
        return str(isoformat())
    return value.hex() if isinstance(value, bytes) else str(value)


# Python writes NaN by that bare name if it may, and readers other than Python's refuse the line.
_ENCODER: Final = json.JSONEncoder(default=_text, ensure_ascii=False, allow_nan=False)


def _values(values: Iterable[Any], form: Form | None) -> list[Any]:
    if form is None:
        return list(values)
    return [None if value is None else form(value) for value in values]


def _form(kind: pa.DataType, numbers: bool = False) -> Form | None:
    """The form of values of a type; None where the encoder takes them as they are. With ``numbers``, dates and times
    come as those."""
    if numbers and far_times.is_time(kind):
        return _of_number(kind)
    if pa.types.is_floating(kind):
        return lambda value: value if math.isfinite(value) else _float_text(value)
    if pa.types.is_map(kind):
        return _of_map(_key_form(kind.key_type, numbers), _form(kind.item_type, numbers))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _form(kind.value_type, numbers)
        return None if element is None else lambda values: _values(values, element)
    if pa.types.is_struct(kind):
        forms = {field.name: _form(field.type, numbers) for field in kind}
        return _of_struct({name: form for name, form in forms.items() if form is not None})
    return None


def _of_number(kind: pa.DataType) -> Form:
    """The text that a date or a timestamp has as Python's, and beyond those the one that Spark writes and reads."""
    if pa.types.is_date32(kind):
        return far_times.date_text
    zone = "" if kind.tz is None else "+00:00"  # the engine has all of Spark's in UTC
    return lambda value: far_times.timestamp_text(value) + zone


def _of_map(key: Form, item: Form | None) -> Form:
    """Arrow gives pairs. Of several with one key the last one counts, as with most readers of JSON."""

    def form(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        items = _values((value for _, value in pairs), item)
        return {key(name): value for (name, _), value in zip(pairs, items, strict=True)}

    return form


def _of_struct(forms: dict[str, Form]) -> Form | None:
    if not forms:
        return None

    def form(fields: dict[str, Any]) -> dict[str, Any]:
        changed = {name: made(fields[name]) for name, made in forms.items() if fields[name] is not None}
        return fields | changed

    return form


def _key_form(kind: pa.DataType, numbers: bool) -> Callable[[Any], str]:
    """The text of a key: that of Spark's writer, except where it writes bytes of its memory, days or microseconds."""
    if pa.types.is_floating(kind):
        return _narrow_float_text if kind.bit_width < 64 else _float_text
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if numbers and far_times.is_time(kind):
        return _of_number(kind)
    if pa.types.is_nested(kind):
        form = _form(kind, numbers)
        return _ENCODER.encode if form is None else lambda value: _ENCODER.encode(form(value))
    return _text


def _narrow_float_text(value: float) -> str:
    return _float_text(np.float32(value))


def _float_text(value: Any) -> str:
    """The text that Java has for a number, by the fewest digits (before Java 19, some have more): ``1.0E20``."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="0", exp_digits=1).replace("e+", "E").replace("e", "E")
