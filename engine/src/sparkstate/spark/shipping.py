"""Which columns go to the slots: the rows of an epoch as the query has them, and as an operator's tasks ship them.

The query has one frame an epoch, a union of all sources. If the job has one input, the rows have its columns. If it has
several, each row has a struct for each of them, of which only its own is not null, and ``columns.SOURCE`` tells which
source the row came from.

An operator with one input gets that input's columns, the hidden key, the key group and the event time. An operator with
two gets the columns of both, under hidden names, and ``columns.INPUT``. Where both are inputs of the job, each row is
read once; otherwise the rows of each are selected, and united.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sparkstate import columns
from sparkstate.spark import combining, graph, plans


def of_source(declared: graph.Graph, source: graph.Source) -> list[Column]:
    """The columns of a source in the query's frame, without ``columns.SOURCE``."""
    if declared.input_count == 1:
        return [F.col(columns.quoted(name)) for name in plans.stream_type(declared, None).names]
    selected = []
    for number in range(declared.input_count):
        struct = plans.stream_type(declared, None, number)
        own = F.struct(*[F.col(columns.quoted(name)) for name in struct.names])
        found = own if number == source.of_input else F.lit(None).cast(struct)
        selected.append(found.alias(columns.rows_of(number)))
    return selected


def in_query(declared: graph.Graph, max_parallelism: int) -> Sequence[Column]:
    """The columns that the query itself selects, because one operator alone reads the job's only input: those that its
    tasks ship. Empty: each operator selects its own from the frame of each epoch."""
    readers = [operator for operator in declared.operators.values() if operator.reads_batch]
    if len(readers) != 1 or readers[0].second is not None or declared.input_count > 1:
        return ()
    return _of_one(declared, readers[0], plans.stream_type(declared, None), max_parallelism)


def _of_input(declared: graph.Graph, frame: DataFrame, number: int) -> DataFrame:
    """The rows of one of the job's inputs, with its own columns."""
    if declared.input_count == 1:
        return frame
    rows = frame.where(_is_of(declared, number))
    return rows.select(f"`{columns.rows_of(number)}`.*", columns.SOURCE)


def _is_of(declared: graph.Graph, number: int) -> Column:
    return F.col(columns.SOURCE).isin([at for at, _ in declared.sources_of(number)])


def key_columns(operator: graph.Operator, struct: T.StructType) -> tuple[str, ...]:
    """The column that holds each canonical key: the user's own, or a hidden one where they differ (floats), and where
    two inputs may have different names for it."""
    return tuple(
        f"{columns.KEY_PREFIX}{i}"
        if operator.second is not None or struct[name].dataType.typeName() in ("float", "double")
        else name
        for i, name in enumerate(operator.keys)
    )


class Shipping:
    """The columns that the tasks of one operator ship. Names are unresolved, so they fit the frame of every epoch."""

    def __init__(
        self,
        declared: graph.Graph,
        operator: graph.Operator,
        max_parallelism: int,
        groups_of_slots: Sequence[int],
    ) -> None:
        """``groups_of_slots`` has one key group of each slot, by which rows without keys find their way."""
        self._declared = declared
        self._is_broadcast = any(each.is_broadcast for each in operator.inputs)
        self._inputs = operator.inputs
        self._operator, self._max_parallelism = operator, max_parallelism
        self._parts = declared.parts_of(self._inputs[0])
        self._structs = structs = [
            plans.stream_type(declared, each.upstream, each.source) for each in self._inputs
        ]
        one_input = len(self._inputs) == 1
        self._one = _of_one(declared, operator, structs[0], max_parallelism) if one_input else ()
        keys = [structs[0][name].dataType for name in operator.keys]
        self._sides = [
            _Side(number, each, struct, len(declared.sources) > 1, max_parallelism, keys, groups_of_slots)
            for number, (each, struct) in enumerate(zip(self._inputs, structs, strict=True))
        ]

    def combined(self, rows: DataFrame) -> DataFrame:
        """One row for the rows of each key and slice, of what the methods below gave."""
        operator = self._operator
        assert operator.combining is not None
        names = key_columns(operator, self._structs[0])
        kinds = [self._structs[0][name].dataType for name in operator.keys]
        keys = [plans.canonical_key(name, kind) for name, kind in zip(names, kinds, strict=True)]
        others = [name for name in rows.columns if name in (columns.SOURCE, *self._parts)]
        key_group = plans.key_group(keys, self._max_parallelism)
        return combining.combined(rows, operator.combining, names, others, key_group)

    def of_epoch(self, batch: DataFrame) -> DataFrame:
        """The operator's rows in the frame of an epoch."""
        if len(self._inputs) == 1:
            return _of_input(self._declared, batch, self._inputs[0].source).select(*self._one)
        sides = [side for side in self._sides if side.input.upstream is None]
        if len({side.input.source for side in sides}) == 2:
            return self._sent(self._both(batch))
        frames = [(side, _of_input(self._declared, batch, side.input.source)) for side in sides]
        rows = [self._side(side, frame) for side, frame in frames]
        return self._sent(functools.reduce(DataFrame.union, rows))

    def of_outputs(self, outputs: Mapping[int, DataFrame]) -> DataFrame:
        """The rows of outputs of other operators, by the number of the input."""
        if len(self._inputs) == 1:
            return outputs[0].select(*self._one)
        frames = [self._side(self._sides[number], frame) for number, frame in sorted(outputs.items())]
        return self._sent(functools.reduce(DataFrame.union, frames))

    def _sent(self, rows: DataFrame) -> DataFrame:
        """Rows of a broadcast stream become one for each slot."""
        if not self._is_broadcast:
            return rows
        others = [columns.quoted(name) for name in rows.columns if name != columns.KEY_GROUP]
        return rows.select(*others, F.explode(columns.KEY_GROUP).alias(columns.KEY_GROUP))

    def _side(self, side: _Side, frame: DataFrame) -> DataFrame:
        mine = self._common(side, lambda name: F.col(columns.quoted(name)))
        values = {
            each.number: [
                (F.col(columns.quoted(f.name)) if each is side else F.lit(None).cast(f.dataType)).alias(
                    columns.of_input(each.number, f.name)
                )
                for f in each.struct.fields
            ]
            for each in self._sides
        }
        return frame.select(*values[0], *values[1], *[column.alias(name) for name, column in mine.items()])

    def _common(self, side: _Side, column: Callable[[str], Column]) -> dict[str, Column]:
        """The columns that rows of both inputs have."""
        found = side.common(column)
        if self._is_broadcast:
            # By partition and row: the copies of a row have the same number, so every slot sorts them alike.
            found[columns.ORDER] = F.monotonically_increasing_id()
            if not side.input.is_broadcast:
                found[columns.KEY_GROUP] = F.array(found[columns.KEY_GROUP])
        return found

    def _both(self, batch: DataFrame) -> DataFrame:
        """Both inputs are the job's: each row is read once."""
        first, second = self._sides
        is_first = _is_of(self._declared, first.input.source)
        is_second = _is_of(self._declared, second.input.source)
        values = [
            side.nested(f.name).alias(columns.of_input(side.number, f.name))
            for side in self._sides
            for f in side.struct.fields
        ]
        ones, others = self._common(first, first.nested), self._common(second, second.nested)
        mixed = [
            ones[name].alias(name)
            if name == columns.ORDER
            else F.when(is_first, ones[name]).otherwise(others[name]).alias(name)
            for name in ones
        ]
        return batch.where(is_first | is_second).select(*values, *mixed)


def _of_one(
    declared: graph.Graph, operator: graph.Operator, struct: T.StructType, max_parallelism: int
) -> Sequence[Column]:
    """The columns shipped for an operator with one input."""
    keys = [plans.canonical_key(name, struct[name].dataType) for name in operator.keys]
    parts = declared.parts_of(operator.inputs[0])
    wanted = struct.names if operator.shipped is None else dict.fromkeys((*operator.shipped, *parts))
    selected = [F.col(columns.quoted(name)) for name in wanted]
    selected += [F.expr(sql).alias(name) for name, sql in operator.computed]
    hidden = key_columns(operator, struct)
    selected += [
        key.alias(name) for key, name in zip(keys, hidden, strict=True) if name.startswith(columns.KEY_PREFIX)
    ]
    selected.append(plans.key_group(keys, max_parallelism).alias(columns.KEY_GROUP))
    if operator.event_time is not None:
        event_time = plans.event_time_ms(operator.event_time, struct[operator.event_time].dataType)
        selected.append(event_time.alias(columns.TIMESTAMP))
    elif operator.upstream is not None:
        selected.append(F.col(columns.TIMESTAMP))
    if operator.upstream is None and len(declared.sources) > 1:
        selected.append(F.col(columns.SOURCE))
    return selected


@dataclass(frozen=True)
class _Side:
    """One of the two inputs of an operator."""

    number: int
    input: graph.Input
    struct: T.StructType
    has_sources: bool
    """Whether rows tell which of the job's sources they came from."""
    max_parallelism: int
    key_types: Sequence[T.DataType]
    """Of the first input."""
    groups_of_slots: Sequence[int]

    def nested(self, name: str) -> Column:
        """A column of this input in the query's frame of several inputs."""
        return F.col(f"{columns.rows_of(self.input.source)}.{columns.quoted(name)}")

    def common(self, column: Callable[[str], Column]) -> dict[str, Column]:
        """The columns that rows of both inputs have, by name; ``column`` tells where the input's own lie."""
        if self.input.is_broadcast:
            keys = [F.lit(None).cast(kind) for kind in self.key_types]
            group = F.array(*[F.lit(number) for number in self.groups_of_slots])
        elif not self.input.keys:
            keys, group = [], self._group_in_turn()
        else:
            keys = [
                plans.canonical_key(name, self.struct[name].dataType, column(name))
                for name in self.input.keys
            ]
            group = plans.key_group(keys, self.max_parallelism)
        found = {f"{columns.KEY_PREFIX}{i}": key for i, key in enumerate(keys)}
        found[columns.KEY_GROUP] = group
        found[columns.TIMESTAMP] = self._time(column)
        found[columns.INPUT] = F.lit(self.number)
        if self.has_sources:
            is_output = self.input.upstream is not None
            found[columns.SOURCE] = F.lit(None).cast("int") if is_output else F.col(columns.SOURCE)
        return found

    def _group_in_turn(self) -> Column:
        """A key group of each slot in turn, by the row's place in its partition. Each partition begins with another
        slot, or the first slot would get the rows of all partitions that have only one."""
        # A row's number is its place, and its partition in the bits above, which 2**33 % slots would not spread.
        place = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1)) + F.spark_partition_id()
        groups = F.array(*[F.lit(number) for number in self.groups_of_slots])
        return F.element_at(groups, (F.pmod(place, F.lit(len(self.groups_of_slots))) + 1).cast("int"))

    def _time(self, column: Callable[[str], Column]) -> Column:
        name = self.input.event_time
        if name is not None:
            return plans.event_time_ms(column(name), self.struct[name].dataType)
        return F.col(columns.TIMESTAMP) if self.input.has_event_time else F.lit(None).cast("long")
