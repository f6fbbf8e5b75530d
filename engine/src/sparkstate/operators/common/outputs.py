"""Collects what the user's code yields and turns it into batches, per output."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.functions import OutputTag
from sparkstate.operators.rows import arrow_rows, frames
from sparkstate.operators.rows.output_columns import OutputError
from sparkstate.operators.spec import KeyedSpec
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde import copies
from sparkstate.serde.row import Row


class Outputs:
    """The outputs of one operator."""

    def __init__(self, spec: KeyedSpec) -> None:
        self._spec = spec
        self._stamped = spec.output_schema
        if spec.output_schema is not None and spec.emit_timestamps:
            self._stamped = spec.output_schema.append(pa.field(columns.TIMESTAMP, pa.int64()))
        self._lengths: dict[str | None, int] = {}
        self._has_tags = bool(spec.side_schemas) or spec.output_schema is None
        self.plain: set[type] = set()
        """Classes of items that need no copy when they are put out, which takes more than the rest of the loop."""
        self.copied: Callable[[Any], Any] = copies.copied
        """Makes any other item what it stays, whatever the user's code does with its values afterwards."""
        self._fixed: set[type] | None = self.plain
        """Classes of rows that nobody can change, which come in with their first batch. None: columns have values that
        can be changed."""
        if spec.output_schema is None or any(
            map(_has_mutable_values, (spec.output_schema, *spec.side_schemas.values()))
        ):
            self._fixed = None
        elif self._has_tags:  # a row with a tag in front is a tuple, whatever the row is
            self._fixed = set()
            self.copied = _copied_behind_tags(self._fixed)

    def kept(self, result: Iterable[Any]) -> Iterable[Any]:
        """The rows of one call of the user's code, as they are when they come. The loop over records spells this out,
        because a call for each record takes longer than the rows."""
        plain, copied = self.plain, self.copied
        return (item if type(item) in plain else copied(item) for item in result)

    def put(self, overlay: Overlay, yielded: list[Any], stamps: Sequence[int | None] | None) -> None:
        """Sort what was yielded by output and convert it. ``stamps`` has one event time for each, or is None."""
        if not yielded:
            return
        if self._has_tags and _may_be_tagged(yielded):
            yielded, stamps = self._put_sides(overlay, yielded, stamps)
        if not yielded:
            return
        schema = self._spec.output_schema
        if schema is None:
            overlay.unconverted.setdefault(None, []).extend(yielded)
            return
        try:
            batch = self._convert(overlay, yielded, schema, None)
        except errors.UserCodeError:
            if self._has_tags or not _may_be_tagged(yielded):
                raise
            # The job reads no side output, so nothing looked for tags, since a look costs every record. Rows with a tag
            # may have come all the same: from here on they are looked for, counted and dropped.
            self._has_tags = True
            self.put(overlay, yielded, stamps)
            return
        if stamps is not None and self._spec.emit_timestamps:
            batch = _stamped(batch, stamps)
        overlay.batches.setdefault(None, []).append(batch)

    def put_frame(self, overlay: Overlay, tag: str | None, batch: pa.RecordBatch) -> None:
        """A batch of rows for one output, by the names of its columns. Raises ``frames.FrameError``. Rows for a side
        output that nothing reads are counted and dropped."""
        schema = self._stamped if tag is None else self._spec.side_schemas.get(tag)
        if not batch.num_rows:
            return
        if schema is None:
            if self._spec.output_schema is None:
                overlay.unconverted.setdefault(tag, []).extend(frames.to_rows(batch))
            else:
                overlay.dropped_rows += batch.num_rows
            return
        if columns.TIMESTAMP in schema.names and columns.TIMESTAMP not in batch.schema.names:
            batch = batch.append_column(columns.TIMESTAMP, pa.nulls(batch.num_rows, pa.int64()))
        overlay.batches.setdefault(tag, []).append(frames.compact(frames.fitted(batch, schema)))

    def start_piece(self, overlay: Overlay) -> None:
        """All rows that are put from now on until :meth:`end_piece` become one batch of each output."""
        self._lengths = {tag: len(batches) for tag, batches in overlay.batches.items()}

    def end_piece(self, overlay: Overlay) -> None:
        """Join the batches put since :meth:`start_piece`: many small ones are slow to read."""
        for tag, batches in overlay.batches.items():
            length = self._lengths.get(tag, 0)
            if len(batches) > length + 1:
                table = pa.Table.from_batches(batches[length:])
                batches[length:] = table.combine_chunks().to_batches()

    def put_side(
        self, overlay: Overlay, tag: str, rows: list[Any], stamps: Sequence[int | None] | None = None
    ) -> None:
        """Rows for one side output. Where nothing in the job reads it they are counted and dropped, as in Flink.
        ``stamps`` has one event time for each; None: they have none."""
        schema = self._spec.side_schemas.get(tag)
        if schema is not None:
            own = _without_times(schema)
            if tag in self._spec.late_tags:
                rows = _columns_of(rows, own.names)
            batch = self._convert(overlay, rows, own, tag)
            if own is not schema:
                batch = _stamped(batch, stamps or [None] * len(rows))
            overlay.batches.setdefault(tag, []).append(batch)
        elif self._spec.output_schema is None:
            overlay.unconverted.setdefault(tag, []).extend(rows)
        else:
            overlay.dropped_rows += len(rows)

    def put_side_batch(
        self, overlay: Overlay, tag: str, batch: pa.RecordBatch, stamps: pa.Int64Array
    ) -> None:
        """A batch of whole input rows for one side output (late rows), and their event times."""
        schema = self._spec.side_schemas.get(tag)
        if schema is not None:
            own = _without_times(schema)
            whole = batch.select(own.names).cast(own)
            overlay.batches.setdefault(tag, []).append(whole if own is schema else _stamped(whole, stamps))
        elif self._spec.output_schema is not None:
            overlay.dropped_rows += batch.num_rows
        else:
            rows = zip(*[arrow_rows.column_values(column) for column in batch.columns], strict=True)
            self.put_side(overlay, tag, list(rows))

    def _put_sides(
        self, overlay: Overlay, yielded: list[Any], stamps: Sequence[int | None] | None
    ) -> tuple[list[Any], Sequence[int | None] | None]:
        sides: dict[str, tuple[list[Any], list[int | None]]] = {}
        main: list[Any] = []
        kept: list[int | None] = []
        for number, item in enumerate(yielded):
            if _is_tagged(item):
                tag, row = item
                rows, times = sides.setdefault(tag.tag_id, ([], []))
                rows.append(row)
            else:
                times = kept
                main.append(item)
            if stamps is not None:
                times.append(stamps[number])
        for tag_id, (rows, times) in sides.items():
            self.put_side(overlay, tag_id, rows, times)
        return main, kept if stamps is not None else None

    def _convert(
        self, overlay: Overlay, rows: list[Any], schema: pa.Schema, tag: str | None
    ) -> pa.RecordBatch:
        kinds = set(map(type, rows))
        if self._fixed is not None:
            self._fixed.update(filter(_is_fixed, kinds))
        try:
            return arrow_rows.to_batch(rows, schema, kinds)
        except OutputError as error:
            output = "its output" if tag is None else f"the side output {tag!r}"
            raise errors.UserCodeError(
                f"operator {self._spec.uid!r}, epoch {overlay.epoch}: what it yielded does not "
                f"fit {output}: {error}"
            ) from error


def _is_fixed(kind: type) -> bool:
    """Whether nobody can change a row of this type, apart from the values of its columns."""
    return kind in copies.FIXED or issubclass(kind, tuple)


def _copied_behind_tags(fixed: set[type]) -> Callable[[Any], Any]:
    """A function that copies items, except rows of the classes in ``fixed``, which may have a tag in front."""

    def copied(item: Any) -> Any:
        is_tagged = type(item) is tuple and len(item) == 2 and type(item[0]) is OutputTag
        return item if type(item[1] if is_tagged else item) in fixed else copies.copied(item)

    return copied


def _has_mutable_values(schema: pa.Schema) -> bool:
    """Whether a column has lists, maps, structs or bytes, which Python has in forms that can be changed."""
    kinds = schema.types
    return any(
        pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        for kind in kinds
    )


def _columns_of(rows: list[Any], names: list[str]) -> list[Any]:
    """Late rows are whole input rows, of which a side output may take some columns."""
    if all(isinstance(row, Row) and row.__fields__ != tuple(names) for row in rows):
        return [tuple([row[name] for name in names]) for row in rows]
    return rows


def _without_times(schema: pa.Schema) -> pa.Schema:
    """The columns that the rows themselves have: the hidden event times are the last, if they are there."""
    has_times = schema.names[-1:] == [columns.TIMESTAMP]
    return schema.remove(len(schema) - 1) if has_times else schema


def _stamped(batch: pa.RecordBatch, stamps: Any) -> pa.RecordBatch:
    """With event times behind the columns."""
    return batch.append_column(columns.TIMESTAMP, pa.array(stamps, type=pa.int64()))


def _may_be_tagged(yielded: list[Any]) -> bool:
    """A quick look: whether any item can have a tag in front."""
    try:
        return OutputTag in set(map(type, map(operator.itemgetter(0), yielded)))
    except (TypeError, LookupError):
        return True


def _is_tagged(item: Any) -> bool:
    return type(item) is tuple and len(item) == 2 and type(item[0]) is OutputTag
