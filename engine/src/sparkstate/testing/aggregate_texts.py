"""Reads built-in aggregates from text: ``sum(amount)`` for what a job's code says as ``F.sum("amount")``.

PySpark's columns exist only beside a Spark session, so a test without Spark writes the SQL of an aggregate instead.
Results have the types that Spark gives them by default: a sum that does not fit is an error, and a ``BIG_DEC`` column
is a ``decimal(38, 18)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.aggregate import Aggregate
from sparkstate.aggregates.deviations import Deviation
from sparkstate.aggregates.distinct import DistinctCount
from sparkstate.aggregates.ends import EndValue
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.sums import Average, Count, Sum
from sparkstate.serde.typeinfo import TypeInformation

_TEXT: Final = re.compile(
    r"\s*(?P<function>\w+)\s*\(\s*(?:(?P<rows>[*1])|(?P<plain>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`)"
    r"\s*(?:,\s*(?P<option>[\w.]+)\s*)?\)\s*"
)
_COLUMN_TYPES: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BIG_DEC": pa.decimal128(38, 18),
    "STRING": pa.string(),
    "SQL_DATE": pa.date32(),
    "INSTANT": pa.timestamp("us", "UTC"),
    "SQL_TIMESTAMP": pa.timestamp("us"),
    "PRIMITIVE_ARRAY<BYTE>": pa.binary(),
}
"""Of the columns that a job may aggregate, as Arrow brings them from Spark."""


def outputs(aggregates: Mapping[str, str], row: Mapping[str, TypeInformation]) -> tuple[Output, ...]:
    """One column of the result for each aggregate, by its name. ``row`` has the types of a row's columns. Raises
    ``SpecInvalid`` for all that cannot be done."""
    if not aggregates:
        raise errors.SpecInvalid('agg(): give at least one aggregate, such as total="sum(amount)"')
    return tuple(_output(name, text, row) for name, text in aggregates.items())


def _output(name: str, text: object, row: Mapping[str, TypeInformation]) -> Output:
    where = f"agg({name}={text!r})"
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise errors.SpecInvalid(
            f'{where}: write one aggregate of one column, such as "sum(amount)", "first(name, true)" or "count(*)"'
        )
    function, option = found["function"].lower(), found["option"]
    if found["rows"]:
        if function != "count" or option:
            raise errors.SpecInvalid(
                f"{where}: only count(*) is possible of whole rows; give a column's name"
            )
        return Output(name, "count", Count(of_rows=True), None, definition="count(*)")
    if function not in _AGGREGATES:
        raise errors.SpecInvalid(
            f"{where}: {function} is not possible in a window; use {', '.join(sorted(_AGGREGATES))}"
        )
    column = found["plain"] or found["quoted"].replace("``", "`")
    try:
        kind = _column_type(column, row)
        state, make = _AGGREGATES[function]
        made, kind = make(kind, option)
    except errors.SpecInvalid as error:
        raise errors.SpecInvalid(f"{where}: {error}") from None
    argument = column if found["plain"] else columns.quoted(column)
    return Output(name, state, made, column, kind, f"{state}({argument}{made.options})")


def _column_type(column: str, row: Mapping[str, TypeInformation]) -> pa.DataType:
    if column not in row:
        raise errors.SpecInvalid(f"the rows have no column {column!r}; give one of {list(row)}")
    kind = _COLUMN_TYPES.get(row[column].describe())
    if kind is None:
        raise errors.SpecInvalid(
            f"values of type {row[column].describe()} are not possible in a window; give a column of numbers, strings, "
            "booleans, dates, timestamps, decimals or binary"
        )
    return kind


def _plain(made: Callable[[pa.DataType], Aggregate]) -> _Make:
    """Without an option, of values of the column's own type."""

    def make(kind: pa.DataType, option: str | None) -> tuple[Aggregate, pa.DataType]:
        if option is not None:
            raise errors.SpecInvalid(f"it takes a column alone; leave {option!r} out")
        return made(kind), kind

    return make


def _deviation(*, is_sample: bool, is_root: bool) -> _Make:
    def make(kind: pa.DataType, option: str | None) -> tuple[Aggregate, pa.DataType]:
        _summed(kind)
        return _plain(lambda _: Deviation(is_sample, is_root))(pa.float64(), option)

    return make


def _end(*, is_last: bool) -> _Make:
    def make(kind: pa.DataType, option: str | None) -> tuple[Aggregate, pa.DataType]:
        if option is not None and option.lower() not in ("true", "false"):
            raise errors.SpecInvalid(f"whether nulls are ignored is {option!r}; write true or false")
        return EndValue(kind, is_last, option is not None and option.lower() == "true"), kind

    return make


def _distinct(kind: pa.DataType, option: str | None) -> tuple[Aggregate, pa.DataType]:
    if option is None:
        return DistinctCount(), kind
    try:
        return DistinctCount(float(option)), kind
    except ValueError:
        raise errors.SpecInvalid(f"the deviation is {option!r}; write a number such as 0.05") from None


def _summed(kind: pa.DataType) -> pa.DataType:
    """The type of a sum."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return kind
    raise errors.SpecInvalid(f"values of type {kind} cannot be summed; give a column of numbers")


def _average(kind: pa.DataType) -> pa.DataType:
    """The type of an average: four digits more behind the point, where decimals have them."""
    return pa.decimal128(38, kind.scale + 4) if pa.types.is_decimal(_summed(kind)) else pa.float64()


_Make = Callable[[pa.DataType, str | None], tuple[Aggregate, pa.DataType]]
"""From the type of a column, and the text of a second argument, to the aggregate and the type that its values take."""
_SAMPLE_DEVIATION: Final = ("stddev", _deviation(is_sample=True, is_root=True))
_SAMPLE_VARIANCE: Final = ("variance", _deviation(is_sample=True, is_root=False))
_MEAN: Final = ("avg", _plain(lambda kind: Average(_average(kind))))
_AGGREGATES: Final[Mapping[str, tuple[str, _Make]]] = {
    "count": ("count", _plain(lambda kind: Count())),
    "sum": ("sum", _plain(lambda kind: Sum(_summed(kind)))),
    "avg": _MEAN,
    "mean": _MEAN,
    "min": ("min", _plain(lambda kind: Extreme(kind, is_greatest=False))),
    "max": ("max", _plain(lambda kind: Extreme(kind, is_greatest=True))),
    "first": ("first", _end(is_last=False)),
    "last": ("last", _end(is_last=True)),
    "stddev": _SAMPLE_DEVIATION,
    "stddev_samp": _SAMPLE_DEVIATION,
    "stddev_pop": ("stddev_pop", _deviation(is_sample=False, is_root=True)),
    "variance": _SAMPLE_VARIANCE,
    "var_samp": _SAMPLE_VARIANCE,
    "var_pop": ("var_pop", _deviation(is_sample=False, is_root=False)),
    "approx_count_distinct": ("approx_count_distinct", _distinct),
}
"""By the function's name: the name of the state, which functions of several names share, and the maker."""
