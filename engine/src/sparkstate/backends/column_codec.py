"""Numbers and booleans to and from their stored bytes, a whole column at a time.

The bytes are those of ``TypeInformation.encode``: a schema id, then msgpack in its shortest form (a test compares). The
first byte of msgpack says how long a value is, so the values of one length are read and written as one array. Packed
rows are all of one length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import Values
from sparkstate.serde import scalars
from sparkstate.serde.typeinfo import SCHEMA_ID, SCHEMA_PREFIX, TypeInformation, pack_bytes

_FLOAT, _FALSE, _TRUE = 0xCB, 0xC2, 0xC3
_UNSIGNED: Final = {0xCC: ">u1", 0xCD: ">u2", 0xCE: ">u4", 0xCF: ">u8"}
_SIGNED: Final = {0xD0: ">i1", 0xD1: ">i2", 0xD2: ">i4", 0xD3: ">i8"}
_NUMBERS: Final = {**_UNSIGNED, **_SIGNED, _FLOAT: ">f8"}
_LEAST_NEGATIVE_BYTE: Final = 0xE0
"""From here on the byte is the number itself, less 256; below 0x80 it is the number."""
_WIDEST: Final = 10


def _lengths() -> Longs:
    """Bytes of a value with its schema id, by the byte that begins it; 0: no number begins so."""
    lengths = np.zeros(256, np.int64)
    lengths[:0x80] = lengths[_LEAST_NEGATIVE_BYTE:] = lengths[[_FALSE, _TRUE]] = 2
    for tag, kind in _NUMBERS.items():
        lengths[tag] = 2 + np.dtype(kind).itemsize
    return lengths


_LENGTHS: Final = _lengths()


def decode(stored: Sequence[bytes], dtype: Any) -> Values | None:
    """The values as an array of a type; None if one of them is not of that type, so that its own decoder has to say
    what is wrong with it."""
    if np.dtype(dtype).kind == "V":
        return _decode_packed(stored, np.dtype(dtype))
    lengths = np.fromiter(map(len, stored), np.int64, len(stored))
    if not len(stored) or lengths.min() < 2:
        return np.zeros(0, dtype) if not len(stored) else None
    data = np.frombuffer(b"".join(stored), np.uint8)
    starts = np.cumsum(lengths) - lengths
    tags = data[starts + 1]
    if (data[starts] != SCHEMA_ID).any() or (_LENGTHS[tags] != lengths).any():
        return None
    kind = np.dtype(dtype).kind
    if kind == "b":
        return tags == _TRUE if np.isin(tags, (_FALSE, _TRUE)).all() else None
    if np.isin(tags, (_FALSE, _TRUE)).any() or ((tags == _FLOAT) != (kind == "f")).any():
        return None
    values = _plain(tags, dtype)
    for tag, wire in _NUMBERS.items():
        places = np.flatnonzero(tags == tag)
        if len(places):
            width = np.dtype(wire).itemsize
            read = data[starts[places, None] + np.arange(2, 2 + width)].reshape(-1).view(wire)
            values[places] = read
            if kind != "f" and not _is_same(values[places], read):
                return None
    return values


def _head(width: int) -> bytes:
    """The stored bytes before those of a packed row."""
    return SCHEMA_PREFIX + pack_bytes(bytes(width))[:-width]


def _decode_packed(stored: Sequence[bytes], kind: np.dtype[Any]) -> Values | None:
    head = _head(kind.itemsize)
    width = len(head) + kind.itemsize
    if set(map(len, stored)) - {width}:
        return None
    rows = np.frombuffer(b"".join(stored), np.uint8).reshape(-1, width)
    if (rows[:, : len(head)] != np.frombuffer(head, np.uint8)).any():
        return None
    return np.ascontiguousarray(rows[:, len(head) :]).reshape(-1).view(kind)


def _encode_packed(values: Values) -> list[bytes]:
    head, inner = _head(values.dtype.itemsize), values.dtype.itemsize
    width = len(head) + inner
    rows = np.empty((len(values), width), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    rows[:, len(head) :] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, inner)
    data = rows.tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]


def _is_same(values: Values, read: Values) -> bool:
    """Whether no number was too large for its type."""
    return bool((values.astype(read.dtype) == read).all() and ((values < 0) == (read < 0)).all())


def decode_all(stored: Sequence[bytes], declared: TypeInformation, dtype: Any) -> Values:
    """The values as an array. Raises the errors of ``declared.decode`` for bytes that are not of that type."""
    values = decode(stored, dtype)
    return np.array([declared.decode(each) for each in stored], dtype) if values is None else values


def _plain(tags: npt.NDArray[np.uint8], dtype: Any) -> Values:
    """The small numbers, which are their own tags; anything elsewhere."""
    return tags.view(np.int8).astype(dtype)


def encode(values: Values) -> list[bytes]:
    """The stored bytes of each value."""
    if values.dtype.kind == "V":
        return _encode_packed(values)
    if values.dtype.kind == "b":
        forms = (bytes([SCHEMA_ID, _FALSE]), bytes([SCHEMA_ID, _TRUE]))
        return [forms[value] for value in values.tolist()]
    if values.dtype.kind == "f":
        # One NaN for all: arrays have others, such as 0 / 0 gives, and equal state gives equal bytes.
        values = np.where(np.isnan(values), scalars.NAN, values)
    rows = np.full((len(values), _WIDEST), SCHEMA_ID, np.uint8)
    tags = np.full(len(values), _FLOAT, np.uint8) if values.dtype.kind == "f" else _tags(values)
    rows[:, 1] = tags
    for tag, wire in _NUMBERS.items():
        places = np.flatnonzero(tags == tag)
        if len(places):
            width = np.dtype(wire).itemsize
            rows[places, 2 : 2 + width] = values[places].astype(wire).view(np.uint8).reshape(-1, width)
    return _cut(rows, _LENGTHS[tags])


def _cut(rows: npt.NDArray[np.uint8], lengths: Longs) -> list[bytes]:
    """The beginning of each row, by its length. If they are of one length, NumPy makes bytes of untyped fields in a
    fraction of the time that slices take."""
    found = np.empty(len(rows), object)
    for length in range(2, _WIDEST + 1):
        places = np.flatnonzero(lengths == length)
        if not len(places):
            continue
        untyped = np.dtype((np.void, length))
        cut: list[bytes] = np.ascontiguousarray(rows[places, :length]).view(untyped)[:, 0].tolist()
        if len(cut) == len(rows):
            return cut
        found[places] = np.fromiter(cut, object, len(cut))
    values: list[bytes] = found.tolist()
    return values


def _tags(values: Values) -> npt.NDArray[np.uint8]:
    """The byte that begins the shortest form of each whole number."""
    tags = values.astype(np.int8).view(np.uint8)  # small ones are their own tags
    for limits, forms in (
        ((0x80, 0x100, 1 << 16, 1 << 32), _UNSIGNED),
        ((33, 0x81, 0x8001, (1 << 31) + 1), _SIGNED),
    ):
        distance = values.astype(np.int64) if forms is _UNSIGNED else -values.astype(np.int64)
        for limit, tag in zip(limits, forms, strict=True):
            tags[distance >= limit] = tag
    if values.dtype == np.int64:
        tags[values == np.iinfo(np.int64).min] = 0xD3  # it has no opposite
    return tags
