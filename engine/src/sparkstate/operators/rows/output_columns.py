"""Columns of an output, from the Python values that were yielded for them.

Arrow takes more than it should: it cuts the fraction off a number, takes a number as microseconds since 1970, and
leaves out what a struct has no field for. None of this raises an error, so each column is looked at here. Where values
have the usual types, that is one call for a batch, and one for each level of a nested type.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparkstate.serde import row

_SHOWN_CHARACTERS: Final = 500
_REFUSED: Final = (
    pa.ArrowException,
    TypeError,
    ValueError,
    OverflowError,
    LookupError,
    AttributeError,
)
_LISTS: Final = (Sequence, set, frozenset, pa.Array, pa.ChunkedArray)
_PAIR: Final = ("key", "value")
"""The names that Arrow gives the entries of a map."""


class OutputError(Exception):
    """A yielded row does not fit the output's columns; the message says which and why."""


class _ChangedValue(Exception):
    """A value that the column would hold as another one; the message is the rest of the sentence about it."""

    def __init__(self, value: Any, why: str) -> None:
        super().__init__(why)
        self.value = value


class _NamedRows(Exception):
    """A row in the place of a struct has its names in another order."""


def to_array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """One column. Raises :class:`OutputError` for a value that it cannot hold as it is."""
    try:
        try:
            return _made(values, field.type)
        except (_NamedRows, *_REFUSED):
            if not pa.types.is_nested(field.type):
                raise
            return _made([_arranged(value, field.type) for value in values], field.type)
    except _ChangedValue as changed:
        raise OutputError(f"{_misfit(changed.value, field)}: {changed}") from None
    except _REFUSED as error:
        raise _refusal(values, field, error) from error


def _made(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        _require_times(values, kind)
        return pa.array(values, type=kind)
    if _has_map(kind):
        for value in values:
            _require_pairs(value, kind)
    array = pa.array(values, type=kind)
    _require_kept(values, array)
    return array


@functools.lru_cache(maxsize=1024)
def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _require_pairs(value: Any, kind: pa.DataType) -> None:
    """Raise ``_ChangedValue`` for a map with None in the place of a pair: Arrow 26 ends the process there."""
    if pa.types.is_map(kind):
        if isinstance(value, (list, tuple)) and any(pair is None for pair in value):
            raise _ChangedValue(value, "None is not a pair of a map; yield a dict")
        if value is not None and _has_map(kind.item_type):
            for _, item in _pairs(value):
                _require_pairs(item, kind.item_type)
    elif pa.types.is_struct(kind):
        names = _names(kind)
        by_name = isinstance(value, dict)
        fields = value.items() if by_name else zip(row.names_of(value) or names, value or (), strict=False)
        for name, part in fields:
            if name in names and _has_map(kind.field(name).type):
                _require_pairs(part, kind.field(name).type)
    elif _has_map(kind):
        for item in value if isinstance(value, (list, tuple)) else ():
            _require_pairs(item, kind.value_type)


def _refusal(values: Sequence[Any], field: pa.Field, error: Exception) -> OutputError:
    """Of the first value that Arrow does not take even alone."""
    for value in values:
        try:
            pa.array([value], type=field.type)
        except _REFUSED:
            return OutputError(_misfit(value, field))
    return OutputError(f"column {field.name!r} of type {field.type}: {error}")


def shown(value: Any) -> str:
    """A value as an error shows it. The error travels to the driver, and into the status."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _misfit(value: Any, field: pa.Field) -> str:
    return (
        f"the value {shown(value)} (Python type {type(value).__qualname__}) does not fit column "
        f"{field.name!r} of type {field.type}"
    )


def _require_kept(values: Sequence[Any], array: pa.Array) -> None:
    """Raise ``_ChangedValue`` for a value that the array holds as another one. The array is what Arrow makes of these
    values, and maybe of others."""
    kind = array.type
    if pa.types.is_integer(kind):
        _require_whole(values, array)
    elif pa.types.is_temporal(kind):
        _require_times(values, kind)
    elif _is_suspect(array):
        if pa.types.is_float32(kind):
            _require_equal(values, kind, "declare it as double")
        else:
            _require_parts([value for value in values if value is not None], array)


def _is_suspect(array: pa.Array) -> bool:
    """Whether a value may have become another one. Of a float32, which is what embeddings are made of, the array itself
    tells it, so that nobody has to look at each number."""
    if pa.types.is_float32(array.type):
        return bool(np.isinf(array.to_numpy(zero_copy_only=False)).any())
    return _is_looked_at(array.type)


@functools.lru_cache(maxsize=1024)
def _is_looked_at(kind: pa.DataType) -> bool:
    """Whether a value of this type, or within it, may become another one."""
    if pa.types.is_map(kind):
        return _is_looked_at(kind.key_type) or _is_looked_at(kind.item_type)
    checks = (pa.types.is_integer, pa.types.is_float32, pa.types.is_temporal, pa.types.is_nested)
    return any(check(kind) for check in checks)


def _require_whole(values: Sequence[Any], array: pa.Array) -> None:
    # The quickest look at all of them: with a float, the sum is a float. Nulls are left out, and so are zeros.
    given = filter(None, values) if array.null_count else values
    with np.errstate(over="ignore"), contextlib.suppress(Exception):
        if type(sum(given)) is int:
            return
    if not all(each is type(None) or hasattr(each, "__index__") for each in set(map(type, values))):
        _require_equal(values, array.type, "yield int(value) or round(value), or declare it as double")


def _require_equal(values: Sequence[Any], kind: pa.DataType, remedy: str) -> None:
    for value, kept in zip(values, pa.array(values, kind).to_pylist(), strict=True):
        is_exact = hasattr(value, "__index__") or isinstance(value, pa.Scalar)
        if kept is not None and not is_exact and value != kept:
            raise _ChangedValue(value, f"it would become {kept!r}; {remedy}")


def _require_times(values: Sequence[Any], kind: pa.DataType) -> None:
    kinds = set(map(type, values))
    of_arrow = np.timedelta64 if pa.types.is_duration(kind) else ()
    counts = tuple(
        each for each in kinds if issubclass(each, numbers.Number) and not issubclass(each, of_arrow)
    )
    if counts:
        value = next(value for value in values if isinstance(value, counts))
        raise _ChangedValue(value, f"a number has no unit here; {_remedy(kind)}, or declare it as bigint")
    if pa.types.is_duration(kind) and any(hasattr(each, "as_unit") for each in kinds):
        for value in values:
            _require_fine_unit(value)


def _require_fine_unit(value: Any) -> None:
    """Arrow reads 0 of a pandas Timedelta that counts seconds or milliseconds."""
    if isinstance(value, datetime.timedelta) and getattr(value, "unit", "us") in ("s", "ms"):
        raise _ChangedValue(value, "it would become 0; yield value.as_unit('us')")


def _remedy(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "of milliseconds, yield datetime.fromtimestamp(ms / 1000, timezone.utc)"
    if pa.types.is_date(kind):
        return "yield a datetime.date"
    return "yield a datetime.timedelta" if pa.types.is_duration(kind) else "yield a datetime.time"


def _require_parts(values: Sequence[Any], array: pa.Array) -> None:
    """The same for lists, maps and structs; there is no null among them."""
    if pa.types.is_struct(array.type):
        _require_fields(values, array)
    elif pa.types.is_map(array.type):
        pairs = [pair for value in values for pair in _pairs(value)]
        for number, part in enumerate((array.keys, array.items)):
            if _is_suspect(part):
                _require_kept([pair[number] for pair in pairs], part)
    else:
        _require_elements(values, array.values)


def _pairs(value: Any) -> Iterable[Any]:
    """The entries of a value in the place of a map, as tuples of key and item."""
    if hasattr(value, "items") and not isinstance(value, pa.Scalar):
        return value.items()  # type: ignore[no-any-return]
    return [_pair(entry) for entry in value]


def _pair(entry: Any) -> Any:
    if isinstance(entry, (dict, pa.StructScalar)):
        return tuple(map(_fields_of(entry, _PAIR).get, _PAIR))
    return entry


def _require_elements(lists: Sequence[Any], made: pa.Array) -> None:
    kinds = set(map(type, lists))
    if any(issubclass(each, str) for each in kinds):
        text = next(value for value in lists if isinstance(value, str))
        raise _ChangedValue(text, "a list of its characters would be there; yield [value]")
    if not _is_suspect(made):
        return
    if any(hasattr(each, "dtype") for each in kinds):
        lists = [value for value in lists if not _has_kept_type(value, made.type)]
    _require_kept(list(itertools.chain.from_iterable(lists)), made)


def _has_kept_type(value: Any, kind: pa.DataType) -> bool:
    """Whether the type of a NumPy array or a Series says that its elements stay the same. Raises ``_ChangedValue`` if
    it says that they do not."""
    dtype: Any = getattr(value, "dtype", None)
    sort = getattr(dtype, "kind", "")
    if sort in ("m", "M") and isinstance(value, np.ndarray):
        _require_unit(value, kind)
        return True
    if sort == "f":
        return bool(pa.types.is_float32(kind) and dtype.itemsize * 8 <= kind.bit_width)
    return sort in ("i", "u", "b")  # Arrow takes none of them as times


def _require_unit(times: np.ndarray[Any, Any], kind: pa.DataType) -> None:
    """Arrow takes the numbers of such an array as they are, whatever its unit."""
    if not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)):
        raise _ChangedValue(times, f"its numbers would count in another unit; {_remedy(kind)} for each")
    right = f"{'datetime64' if pa.types.is_timestamp(kind) else 'timedelta64'}[{kind.unit}]"
    if times.dtype != np.dtype(right):
        why = f"its numbers would count as {right}; convert it from {times.dtype} by .astype({right!r})"
        raise _ChangedValue(times, why)


def _require_fields(structs: Sequence[Any], array: pa.StructArray) -> None:
    kind = array.type
    names = _names(kind)
    kinds = set(map(type, structs))
    is_by_position = _are_by_position(structs, kinds, names)
    if not is_by_position and not (kinds == {dict} and all(map(frozenset(names).issuperset, structs))):
        structs = [_fields_of(value, names) for value in structs]
    for number, field in enumerate(kind):
        made = array.field(number)
        if _is_suspect(made):
            _require_kept(_at(number if is_by_position else field.name, structs), made)


def _are_by_position(structs: Sequence[Any], kinds: set[type], names: tuple[str, ...]) -> bool:
    """Whether all are tuples without names, or rows of just these names. Each of PySpark's rows has its own."""
    if all(each is tuple or (issubclass(each, tuple) and row.names_of(each) == names) for each in kinds):
        return True
    return all(issubclass(each, tuple) for each in kinds) and all(
        row.names_of(value) in ((), names) for value in structs
    )


def _at(place: int | str, structs: Sequence[Any]) -> list[Any]:
    if isinstance(place, int):
        return [tuple.__getitem__(struct, place) for struct in structs]
    return [struct.get(place) for struct in structs]


@functools.lru_cache(maxsize=1024)
def _names(kind: pa.StructType) -> tuple[str, ...]:
    return tuple([field.name for field in kind])


def _fields_of(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """A value in the place of a struct, by the names of the fields."""
    if isinstance(value, tuple):
        arranged = row.arranged(value, names)
        if arranged is None:
            raise _ChangedValue(value, f"it has other names than the struct: {', '.join(names)}")
        if arranged is not value:
            raise _NamedRows
        return dict(zip(names, value, strict=True))
    fields = value if isinstance(value, dict) else dict(value)  # of pairs
    unknown = [str(name) for name in fields if name not in names]
    if unknown:
        raise _ChangedValue(
            value, f"the struct has no field {', '.join(unknown)}; it has: {', '.join(names)}"
        )
    return fields


def _arranged(value: Any, kind: pa.DataType) -> Any:
    """A value whose structs, at any depth, are tuples: Arrow takes no dicts beside tuples, and no rows by name."""
    if value is None or not pa.types.is_nested(kind) or isinstance(value, str):
        return value
    if pa.types.is_struct(kind):
        names = _names(kind)
        items = row.arranged(value, names) if isinstance(value, tuple) else None
        if items is None:
            items = list(map(_fields_of(value, names).get, names))
        return tuple([_arranged(item, field.type) for item, field in zip(items, kind, strict=True)])
    if pa.types.is_map(kind):
        return [_arranged_pair(pair, kind) for pair in _pairs(value)]
    if isinstance(value, _LISTS) or getattr(value, "ndim", 0) == 1:
        return [_arranged(item, kind.value_type) for item in value]
    return value  # no list: its keys, its columns or what else it yields are no elements


def _arranged_pair(pair: Any, kind: pa.MapType) -> Any:
    if not isinstance(pair, (tuple, list)):
        return pair
    key, item = pair
    return _arranged(key, kind.key_type), _arranged(item, kind.item_type)
