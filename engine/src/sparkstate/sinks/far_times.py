"""Texts of dates and timestamps in years that Python's ``datetime`` does not have: those before 1 and after 9999.

Spark has them, in 32 bits of days and 64 bits of microseconds. The calendar repeats itself after 400 years, so the text
is that of a year which Python has, with another number in place of the year. The year 0 is the one before the year 1.
"""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute

_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_DAY_US: Final = 86_400_000_000
_UNIX_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = datetime.date.min.toordinal() - _UNIX_DAY
_LAST_DAY: Final = datetime.date.max.toordinal() - _UNIX_DAY


def date_text(days: int, plus: str = "+") -> str:
    """``2026-01-02``, from days since 1970-01-01. ``plus`` stands before years of more than four digits."""
    cycles, day = divmod(days, _CYCLE_DAYS)
    found = datetime.date.fromordinal(_UNIX_DAY + day)
    year = found.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else plus if year > datetime.MAXYEAR else ""
    return f"{sign}{abs(year):04d}-{found:%m-%d}"


def timestamp_text(micros: int, between: str = "T", plus: str = "+", timespec: str = "auto") -> str:
    """``2026-01-02T03:04:05.123456``, from microseconds since 1970-01-01. ``timespec`` is that of Python."""
    days, rest = divmod(micros, _DAY_US)
    clock = (datetime.datetime.min + datetime.timedelta(microseconds=rest)).time()
    return f"{date_text(days, plus)}{between}{clock.isoformat(timespec)}"


def is_time(kind: pa.DataType) -> bool:
    """Whether it is one of the types that Spark's dates and timestamps have in Arrow."""
    return bool(pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def numbers(kind: pa.DataType) -> pa.DataType:
    """The type with whole numbers in place of all dates and timestamps, at any depth."""
    if is_time(kind):
        return pa.int32() if pa.types.is_date32(kind) else pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(numbers(kind.key_type), _numbers_of(kind.item_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_numbers_of(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_numbers_of(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_numbers_of(kind.value_field))
    return pa.struct([_numbers_of(field) for field in kind]) if pa.types.is_struct(kind) else kind


def _numbers_of(field: pa.Field) -> pa.Field:
    return field.with_type(numbers(field.type))


def has_far_times(column: pa.ChunkedArray) -> bool:
    """Whether a column of dates or timestamps has one in a year that Python does not have."""
    unit = 1 if pa.types.is_date32(column.type) else _DAY_US
    range_ = pa.compute.min_max(column.cast(numbers(column.type)))
    least, largest = range_["min"].as_py(), range_["max"].as_py()
    return least is not None and (least // unit < _FIRST_DAY or largest // unit > _LAST_DAY)


def csv_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts that Arrow gives the values of such a column in CSV, even where it knows none: beyond the year 32767 it
    tells a wrong year, or writes that the value is out of range."""
    values = column.cast(numbers(column.type)).to_pylist()
    if pa.types.is_date32(column.type):
        texts = [None if value is None else date_text(value, plus="") for value in values]
    else:
        zone = "" if column.type.tz is None else "Z"
        texts = [None if value is None else _csv_text(value) + zone for value in values]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _csv_text(micros: int) -> str:
    return timestamp_text(micros, between=" ", plus="", timespec="microseconds")
