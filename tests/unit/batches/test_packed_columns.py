"""Packed rows: columns come back as they were, in the bytes that docs/formats.md promises."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.batches import packed_columns
from sparkstate.batches.packed_columns import Packing
from sparkstate.serde.packed import PackedType
from sparkstate.serde.types import Types

UTC = datetime.UTC
FIELDS: list[tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = [
    (Types.LONG(), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (Types.DOUBLE(), pa.float64(), st.floats(allow_nan=False)),
    (Types.BOOLEAN(), pa.bool_(), st.booleans()),
    (Types.SQL_DATE(), pa.date32(), st.dates()),
    (Types.SQL_TIMESTAMP(), pa.timestamp("us"), st.datetimes()),
    (Types.INSTANT(), pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
]


@given(st.lists(st.sampled_from(range(len(FIELDS))), max_size=9), st.integers(0, 9), st.data())
def test_columns_come_back(kinds: list[int], count: int, data: st.DataObject) -> None:
    """Also of a part of a packed array. Where the first field is null there is no row, and nothing in any field."""
    fields = [FIELDS[0], *(FIELDS[kind] for kind in kinds)]
    declared = PackedType([str(number) for number in range(len(fields))], [field for field, _, _ in fields])
    rows = data.draw(st.lists(st.tuples(*(st.none() | values for _, _, values in fields)), min_size=count))
    columns = [pa.array([row[at] for row in rows], kind) for at, (_, kind, _) in enumerate(fields)]
    packed = Packing(declared).pack(columns)
    assert packed.type == pa.binary(declared.width)
    expected = [row if row[0] is not None else (None,) * len(fields) for row in rows]
    read = [declared.read(row) for row in packed.to_pylist() if row is not None]
    assert read == [dict(zip(declared.names, row, strict=True)) for row in rows if row[0] is not None]
    for part in (slice(None), slice(1, None), slice(2, 5)):
        found = Packing(declared).unpack(packed[part])
        assert [array.type for array in found] == [kind for _, kind, _ in fields]
        assert [tuple(array[at].as_py() for array in found) for at in range(len(rows[part]))] == expected[
            part
        ]
        values = packed_columns.of_arrow(packed[part])
        present = packed[part].is_valid().to_numpy(zero_copy_only=False)
        assert packed_columns.to_arrow(values, present).equals(packed[part])


def test_the_bytes_are_those_of_the_page_of_formats() -> None:
    """`docs/formats.md` has this row as its example."""
    declared = PackedType(["rows", "total", "seen", "day"], [
        Types.LONG(), Types.DOUBLE(), Types.BOOLEAN(), Types.SQL_DATE(),
    ])  # fmt: skip
    columns = [pa.array([3]), pa.array([None], pa.float64()), pa.array([True]), pa.array([258], pa.int32())]
    columns[3] = columns[3].cast(pa.date32())
    (row,) = Packing(declared).pack(columns).to_pylist()
    assert row.hex(" ") == "0d 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 02 01 00 00"
    assert declared.encode(row)[:3].hex(" ") == "00 c4 16"


def test_equal_state_gives_equal_bytes() -> None:
    """Of numbers that are not there, and of NaN, whose bits may differ."""
    packing = Packing(PackedType(["a", "b"], [Types.LONG(), Types.DOUBLE()]))
    nan, other = math.nan, -math.nan
    first = packing.pack([pa.array([1, 1]), pa.array([nan, None])])
    dirty = pa.Array.from_buffers(pa.float64(), 2, [pa.py_buffer(b"\1"), pa.array([other, 7.5]).buffers()[1]])
    assert packing.pack([pa.array([1, 1]), dirty]).equals(first)


@pytest.mark.parametrize("present", [[True] * 9, [False] * 9, [True, False] * 4 + [True]])
def test_rows_that_are_not_there_are_null(present: list[bool]) -> None:
    packing = Packing(PackedType(["a"], [Types.LONG()]))
    values = [number if is_there else None for number, is_there in enumerate(present)]
    assert packing.unpack(packing.pack([pa.array(values, pa.int64())]))[0].to_pylist() == values


def test_a_time_that_python_does_not_reach_is_shown_as_its_number() -> None:
    types = [Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.INSTANT()]
    declared = PackedType(["day", "time", "instant"], types)
    value = bytes([7]) + (2**31 - 1).to_bytes(4, "little") + 2 * (2**62).to_bytes(8, "little")
    assert declared.read(value) == {"day": 2**31 - 1, "time": 2**62, "instant": 2**62}
