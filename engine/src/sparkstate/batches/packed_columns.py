"""Packed rows of numbers (``serde.packed``) as arrays: to and from Arrow, and to and from a column for each field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.serde.packed import WIDTHS, PackedType

Flags: TypeAlias = npt.NDArray[np.bool_]

_FORMS: Final[dict[str, tuple[str, pa.DataType, pa.DataType]]] = {
    "BOOLEAN": ("?", pa.bool_(), pa.bool_()),
    "LONG": ("<i8", pa.int64(), pa.int64()),
    "DOUBLE": ("<f8", pa.float64(), pa.float64()),
    "SQL_DATE": ("<i4", pa.int32(), pa.date32()),
    "SQL_TIMESTAMP": ("<i8", pa.int64(), pa.timestamp("us")),
    "INSTANT": ("<i8", pa.int64(), pa.timestamp("us", "UTC")),
}
"""Of each type: NumPy's, Arrow's for the plain number, and Arrow's."""


def to_arrow(values: npt.NDArray[Any], present: Flags) -> pa.Array:
    """An array of binary values of a fixed width; ``values`` are of NumPy's type ``void``, and are not copied."""
    values = np.ascontiguousarray(values)
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    kind = pa.binary(values.dtype.itemsize)
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


def of_arrow(array: pa.Array) -> npt.NDArray[Any]:
    """The inverse, without copying; anything where the array is null."""
    kind, (_, data) = np.dtype((np.void, array.type.byte_width)), array.buffers()
    if data is None or not len(array):
        return np.zeros(len(array), kind)
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)


class Packing:
    """Columns into packed rows and back. The first field says whether a row is there."""

    def __init__(self, declared: PackedType) -> None:
        self._forms = [_FORMS[field.describe()] for field in declared.fields]
        widths = [WIDTHS[field.describe()] for field in declared.fields]
        offsets = np.cumsum([declared.flag_bytes, *widths])
        names = [str(number) for number in range(len(widths))]
        self._record = np.dtype(
            {
                "names": ["flags", *names],
                "formats": [(np.uint8, (declared.flag_bytes,)), *(form for form, _, _ in self._forms)],
                "offsets": [0, *offsets[:-1].tolist()],
                "itemsize": declared.width,
            }
        )

    def pack(self, columns: Sequence[pa.Array]) -> pa.Array:
        """A packed row for each entry; null where the first column is null."""
        records, there = np.zeros(len(columns[0]), self._record), None
        for number, (array, (_, plain, kind)) in enumerate(zip(columns, self._forms, strict=True)):
            values, present = _numbers(array.cast(kind), plain)
            records[str(number)] = values
            records["flags"][:, number // 8] |= present.view(np.uint8) << np.uint8(number % 8)
            there = present if there is None else there
        assert there is not None
        return to_arrow(records.view((np.void, self._record.itemsize)), there)

    def unpack(self, packed: pa.Array) -> list[pa.Array]:
        """A column for each field; null in all of them where there is no row."""
        there = packed.is_valid().to_numpy(zero_copy_only=False)
        records = of_arrow(packed).view(self._record)
        flags = records["flags"]
        if packed.null_count:
            flags = np.where(there[:, None], flags, np.uint8(0))
        return [
            _array(
                records[str(number)], (flags[:, number // 8] >> np.uint8(number % 8) & 1).view(np.bool_), form
            )
            for number, form in enumerate(self._forms)
        ]


def _numbers(array: pa.Array, plain: pa.DataType) -> tuple[npt.NDArray[Any], Flags]:
    """Values as plain numbers, 0 where there is none, and whether there is one."""
    present = array.is_valid().to_numpy(zero_copy_only=False)
    if array.type != plain:
        array = array.cast(plain)
    if array.null_count:
        array = array.fill_null(pa.scalar(0).cast(plain))
    values = array.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(plain):
        # One NaN for all: equal state gives equal bytes.
        values = np.where(np.isnan(values), np.nan, values)
    return values, present


def _array(values: npt.NDArray[Any], present: Flags, form: tuple[str, pa.DataType, pa.DataType]) -> pa.Array:
    _, plain, kind = form
    array = pa.array(np.ascontiguousarray(values), plain, mask=None if present.all() else ~present)
    return array if plain == kind else array.cast(kind)
