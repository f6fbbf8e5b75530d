"""The part of an operator's output that leaves the slot."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.operators.base import EpochOverlay, Spec


def rows_by_tag(spec: Spec, overlay: EpochOverlay) -> dict[str, int]:
    """Rows of the main output (``""``) and of each side output."""
    tags = [None, *spec.side_schemas]
    return {tag or "": overlay.row_count(tag) for tag in tags}


def visible(spec: Spec, tag: str | None, overlay: EpochOverlay) -> Iterator[pa.RecordBatch]:
    """An output without the hidden timestamps that it may carry for a next operator."""
    names = output_schema(spec, tag).names
    is_stamped = names[-1] == columns.TIMESTAMP
    for batch in overlay.output(tag):
        yield batch.select(names[:-1]) if is_stamped else batch


def output_schema(spec: Spec, tag: str | None) -> pa.Schema:
    """The columns that a reader of an output gets."""
    schema = spec.output_schema if tag is None else spec.side_schemas[tag]
    if schema is None:
        raise errors.StateError(f"operator {spec.uid!r} has no output schema. This is a bug. Please report.")
    if tag is None and spec.emit_timestamps:
        schema = schema.append(pa.field(columns.TIMESTAMP, pa.int64()))
    return schema
