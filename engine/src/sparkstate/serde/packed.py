"""PACKED: a row of numbers in bytes of a fixed width, the form in which aggregates of windows are stored."""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Sequence
from typing import Any, Final

from sparkstate import errors
from sparkstate.serde.typeinfo import TypeInformation

_EPOCH: Final = datetime.datetime(1970, 1, 1)
WIDTHS: Final = {
    "BOOLEAN": 1,
    "LONG": 8,
    "DOUBLE": 8,
    "SQL_DATE": 4,
    "SQL_TIMESTAMP": 8,
    "INSTANT": 8,
}
"""Types that a field may have, by their descriptions, and bytes of each."""


class PackedType(TypeInformation):
    """Named fields of fixed widths, any of which may be null. A value is its bytes, all of them ``width`` long: a bit
    for each field that is there, the first field in the lowest bit of the first byte; then the fields, little endian
    and without gaps, zeros where one is null. Dates are days, and timestamps microseconds, since 1970-01-01."""

    wire = bytes

    def __init__(self, names: Sequence[str], fields: Sequence[TypeInformation]) -> None:
        unfit = [field.describe() for field in fields if field.describe() not in WIDTHS]
        if unfit or not names or len(set(names)) != len(names) or len(names) != len(fields):
            raise errors.StateError(
                f"a packed value has fields of the types {', '.join(WIDTHS)}, each with a name of its own: "
                f"{dict(zip(names, fields, strict=False))!r}"
            )
        self.names = tuple(names)
        self.fields = tuple(fields)
        self.flag_bytes = -(-len(self.fields) // 8)
        """Bytes with the bits of fields that are there."""
        self.width = self.flag_bytes + sum(WIDTHS[field.describe()] for field in self.fields)
        """Of a value, in bytes."""
        named = zip(self.names, self.fields, strict=True)
        self._description = (
            f"PACKED<{','.join(f'{json.dumps(name)}:{field.describe()}' for name, field in named)}>"
        )

    def describe(self) -> str:
        return self._description

    def normalize(self, value: Any) -> bytes:
        if isinstance(value, bytes) and len(value) == self.width:
            return value
        raise self.refuse(value)

    def read(self, value: bytes) -> dict[str, Any]:
        """The fields by name, for people; None where one is null. Times that Python does not reach are numbers."""
        found, at = {}, self.flag_bytes
        for number, (name, field) in enumerate(zip(self.names, self.fields, strict=True)):
            kind = field.describe()
            is_there = value[number // 8] >> number % 8 & 1
            found[name] = _read(kind, value[at : at + WIDTHS[kind]]) if is_there else None
            at += WIDTHS[kind]
        return found

    def unpack(self, packed: Any) -> bytes:
        if len(packed) != self.width:
            raise ValueError(f"it has {len(packed)} bytes and not {self.width}")
        return bytes(packed)


def _read(kind: str, data: bytes) -> Any:
    if kind == "DOUBLE":
        return struct.unpack("<d", data)[0]
    found = int.from_bytes(data, "little", signed=True)
    try:
        match kind:
            case "BOOLEAN":
                return found != 0
            case "SQL_DATE":
                return (_EPOCH + datetime.timedelta(days=found)).date()
            case "SQL_TIMESTAMP":
                return _EPOCH + datetime.timedelta(microseconds=found)
            case "INSTANT":
                return _EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=found)
    except OverflowError:
        pass
    return found
