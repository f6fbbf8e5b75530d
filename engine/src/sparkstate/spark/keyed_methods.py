"""The short methods of a keyed stream, with PyFlink's names: each is ``process`` with a function made here."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack

from pyspark.sql import types as T

from sparkstate.functions import KeyedFunction, OutputTag, ReduceFunction
from sparkstate.keyed_functions import per_record, rolling
from sparkstate.serde.types import Types
from sparkstate.spark import row_types

P = TypeVar("P")
"""The output of an operator."""


class ProcessOptions(TypedDict, total=False):
    """The other arguments of ``process``."""

    on_error: Literal["fail", "side-output"]
    error_output: OutputTag | None
    late_output: OutputTag | None
    sort_by_event_time: bool


class KeyedMethods(abc.ABC, Generic[P]):
    """Every method needs a ``uid``, as ``process`` does, and takes its other arguments too."""

    _keys: tuple[str, ...]

    @abc.abstractmethod
    def process(
        self, function: KeyedFunction, *, uid: str, output_schema: str, **options: Unpack[ProcessOptions]
    ) -> P:
        """Run ``function`` on the stream."""

    @abc.abstractmethod
    def _columns(self) -> T.StructType:
        """The stream's columns."""

    def map(
        self,
        function: per_record.MapFunction | Callable[[Any], Any],
        *,
        uid: str,
        output_schema: str,
        **options: Unpack[ProcessOptions],
    ) -> P:
        """One output row for each row: what ``function(row)`` returns."""
        return self.process(per_record.Map(function), uid=uid, output_schema=output_schema, **options)

    def flat_map(
        self,
        function: per_record.FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        *,
        uid: str,
        output_schema: str,
        **options: Unpack[ProcessOptions],
    ) -> P:
        """Any number of output rows for each row: those that ``function(row)`` returns or yields."""
        return self.process(per_record.FlatMap(function), uid=uid, output_schema=output_schema, **options)

    def filter(
        self,
        function: per_record.FilterFunction | Callable[[Any], bool],
        *,
        uid: str,
        **options: Unpack[ProcessOptions],
    ) -> P:
        """The rows for which ``function(row)`` is true."""
        return self.process(per_record.Filter(function), uid=uid, output_schema=self._ddl(), **options)

    def reduce(
        self,
        function: ReduceFunction | Callable[[Any, Any], Any],
        *,
        uid: str,
        **options: Unpack[ProcessOptions],
    ) -> P:
        """For each row the key's rows so far, folded into one: the first row of a key as it is, then what
        ``function(folded, row)`` returns. The result has the columns of a row."""
        fields = self._columns().fields
        where = f"reduce() of {uid!r}"
        row_type = Types.ROW_NAMED([f.name for f in fields], [row_types.state_type(f, where) for f in fields])
        return self.process(
            per_record.Reduce(function, row_type), uid=uid, output_schema=self._ddl(), **options
        )

    def sum(self, field: str | int, *, uid: str, **options: Unpack[ProcessOptions]) -> P:
        """For each row the key's first row, with the sum of ``field`` so far. ``field`` is a column's name, or its
        place from 0. Nulls count as nothing."""
        return self._rolling("sum", field, uid, options)

    def min(self, field: str | int, *, uid: str, **options: Unpack[ProcessOptions]) -> P:
        """The same with the least value of ``field`` so far."""
        return self._rolling("min", field, uid, options)

    def max(self, field: str | int, *, uid: str, **options: Unpack[ProcessOptions]) -> P:
        """The same with the greatest value of ``field`` so far."""
        return self._rolling("max", field, uid, options)

    def _rolling(self, how: rolling.How, field: str | int, uid: str, options: ProcessOptions) -> P:
        struct = self._columns()
        where = f"{how}({field!r}) of {uid!r}"
        name = rolling.named(field, struct.names, self._keys, where)
        row_types.check_rolling(how, struct[name], where)
        made = rolling.Rolling(
            how=how,
            field=name,
            columns=tuple(struct.names),
            keys=self._keys,
            types=tuple(row_types.state_type(each, where) for each in struct.fields),
            decimals=row_types.precision_and_scale(struct[name]),
        )
        function = made.function(options.get("on_error", "fail"))
        return self.process(function, uid=uid, output_schema=self._ddl(), **options)

    def _ddl(self) -> str:
        """The stream's columns as those of an output."""
        fields = [T.StructField(field.name, field.dataType) for field in self._columns().fields]
        ddl: str = T.StructType(fields).toDDL()
        return ddl
