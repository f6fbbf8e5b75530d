"""Columns have the bytes that their values have one by one, and every other byte is left to the values' own decoder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.backends import column_codec, value_columns
from sparkstate.serde import scalars
from sparkstate.serde.packed import PackedType
from sparkstate.serde.types import Types

POWERS = [2**bits + more for bits in (0, 5, 7, 8, 15, 16, 31, 32, 62) for more in (-1, 0, 1)]
EDGES = [sign * power for power in POWERS for sign in (1, -1)]
EDGES += [0, 2**63 - 1, -(2**63), -33, -32, -31, -129, -128]
BOUNDS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}


def whole(bits):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.integers(low, high) | st.sampled_from([edge for edge in EDGES if low <= edge <= high])


TYPES = {
    **{name: (getattr(Types, name)(), whole(bits)) for name, bits in BOUNDS.items()},
    "DOUBLE": (Types.DOUBLE(), st.floats()),
    "FLOAT": (Types.FLOAT(), st.floats()),
    "BOOLEAN": (Types.BOOLEAN(), st.booleans()),
    "PACKED": (PackedType(["a"], [Types.LONG()]), st.binary(min_size=9, max_size=9)),
    "WIDE": (
        PackedType(list(map(str, range(40))), [Types.LONG()] * 40),
        st.integers(0, 255).map(lambda each: bytes([each, 0] * 162 + [0])),
    ),
}


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_a_column_has_the_bytes_of_its_values(name, data):
    declared, values = TYPES[name]
    drawn = [declared.freeze(value) for value in data.draw(st.lists(values, max_size=30))]
    array, _ = value_columns.to_columns(drawn, value_columns.dtype_of(declared))
    stored = [declared.encode(value) for value in drawn]
    assert column_codec.encode(array) == stored
    read = column_codec.decode(stored, array.dtype)
    assert read.dtype == array.dtype
    assert list(map(repr, read.tolist())) == list(map(repr, drawn))


def test_every_nan_has_the_bytes_of_the_one():
    bits = np.array([0xFFF8 << 48, 0x7FF8 << 48, (0x7FF8 << 48) + 1], np.uint64)
    assert column_codec.encode(bits.view(np.float64)) == [Types.DOUBLE().encode(scalars.NAN)] * 3


@given(st.sampled_from(list(TYPES)), st.lists(st.binary(max_size=11), min_size=1, max_size=3))
def test_bytes_that_are_read_are_those_that_the_type_reads(name, stored):
    declared, _ = TYPES[name]
    read = column_codec.decode(stored, value_columns.dtype_of(declared))
    if read is not None:
        assert list(map(repr, read.tolist())) == [repr(declared.decode(each)) for each in stored]


@pytest.mark.parametrize(
    ("stored", "dtype"),
    [
        ([b""], np.int64),
        ([b"\0"], np.int64),
        ([b"\1\5"], np.int64),
        ([b"\0\5\5"], np.int64),
        ([b"\0\xcd\0", b"\0\xcc\0\0"], np.int64),
        ([b"\0\xc3"], np.int64),
        ([b"\0\5"], np.bool_),
        ([b"\0\5"], np.float64),
        ([b"\0\xcb" + bytes(8)], np.int64),
        ([b"\0\xa1a"], np.int64),
        ([b"\0\xcf" + b"\xff" * 8], np.int64),
        ([b"\0\xcd\xff\xff"], np.int8),
        ([b"\0\xc4\2abc"], "V2"),
        ([b"\0\xc4\3ab"], "V2"),
        ([b"\1\xc4\2ab"], "V2"),
    ],
)
def test_other_bytes_are_not_read(stored, dtype):
    assert column_codec.decode(stored, dtype) is None
