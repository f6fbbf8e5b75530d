"""Arrow's times with a time zone, as times in UTC.

Spark sends times in the zone of its session. Python compares such a ``datetime`` by its local time: where a clock is
put back, two instants an hour apart are equal, and one that is compared with the same instant in UTC is not (PEP 495).
Both are wrong for a key. In UTC no clock is put back.
"""

from __future__ import annotations

import functools

import pyarrow as pa

_UTC = "UTC"


@functools.lru_cache(maxsize=1024)
def in_utc(kind: pa.DataType) -> pa.DataType:
    """The type with every time zone within it replaced by UTC. The bytes of an array are the same for both types."""
    if pa.types.is_timestamp(kind):
        return kind if kind.tz in (None, _UTC) else pa.timestamp(kind.unit, _UTC)
    if pa.types.is_struct(kind):
        made: pa.DataType = pa.struct([_field(each) for each in kind])
    elif pa.types.is_map(kind):
        made = pa.map_(_field(kind.key_field), _field(kind.item_field), kind.keys_sorted)
    elif pa.types.is_fixed_size_list(kind):
        made = pa.list_(_field(kind.value_field), kind.list_size)
    elif pa.types.is_large_list(kind):
        made = pa.large_list(_field(kind.value_field))
    elif pa.types.is_list(kind):
        made = pa.list_(_field(kind.value_field))
    else:
        return kind
    return kind if made == kind else made


def schema_in_utc(schema: pa.Schema) -> pa.Schema:
    """The same of all columns."""
    return pa.schema([_field(each) for each in schema], metadata=schema.metadata)


def _field(given: pa.Field) -> pa.Field:
    return given.with_type(in_utc(given.type))
