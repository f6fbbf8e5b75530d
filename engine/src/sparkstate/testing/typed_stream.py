"""The calls that a job makes on a keyed stream, without Spark: each returns the function that the job would run.

A stream of a job knows its columns from Spark. In a test the types of a row stand for them. The functions are the job's
own, so what the harness shows of one is what a slot does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sparkstate import durations, errors
from sparkstate.aggregates import declared_windows
from sparkstate.aggregates.sliced_rows import END, START
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.connected_functions import KeyedCoProcessFunction
from sparkstate.functions import KeyedFunction, KeyedProcessFunction, ReduceFunction
from sparkstate.keyed_functions import join_operation, per_record, rolling
from sparkstate.keyed_functions.interval_join import ProcessJoinFunction
from sparkstate.keyed_functions.join_operation import JoinOperation
from sparkstate.serde.containers import RowType
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types
from sparkstate.testing import aggregate_texts
from sparkstate.windows import operation
from sparkstate.windows.assigner import WindowAssigner
from sparkstate.windows.operation import WindowOperation


def keyed(row_type: TypeInformation, keys: str | Sequence[str]) -> TypedStream:
    """The stream of a job's ``sparkstate.keyed(df, keys)`` in a test. ``row_type`` is ``Types.ROW_NAMED`` of the
    columns of ``df``; ``keys`` are some of their names.

    >>> payments = keyed(Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.LONG()]), "user")
    >>> from sparkstate.testing import KeyedProcessHarness
    >>> with KeyedProcessHarness(
    ...     payments.sum("amount"), key=payments.key, key_type=payments.key_type
    ... ) as harness:
    ...     harness.process_element({"user": "ann", "amount": 3})
    ...     harness.process_element({"user": "ann", "amount": 4})
    ...     [tuple(row) for row in harness.output()]
    [('ann', 3), ('ann', 7)]

    Rows that are pushed have these columns, in this order. Raises ``SpecInvalid`` for what names no columns.
    """
    if not isinstance(row_type, RowType) or row_type.names is None:
        raise errors.SpecInvalid(
            f"keyed(row_type=…) is {row_type!r}; give Types.ROW_NAMED([…], […]) of the stream's columns"
        )
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if not names or not set(names) <= set(row_type.names):
        raise errors.SpecInvalid(
            f"keyed(keys={keys!r}): give one or some of the columns {list(row_type.names)}"
        )
    return TypedStream(row_type.names, row_type.fields, names)


@dataclass(frozen=True)
class TypedStream:
    """A keyed stream of which the types are known. The methods are those of a job's stream, without ``uid`` and
    ``output_schema``, which the harness does not need."""

    columns: tuple[str, ...]
    types: tuple[TypeInformation, ...]
    """Of the columns."""
    keys: tuple[str, ...]

    def key(self, row: Any) -> Any:
        """The key of a row: the value of the key column, or a tuple of several. For ``key=`` of a harness."""
        found = tuple(row[name] for name in self.keys)
        return found if len(found) > 1 else found[0]

    @property
    def key_type(self) -> TypeInformation:
        """For ``key_type=`` of a harness."""
        types = [self.types[self.columns.index(name)] for name in self.keys]
        return types[0] if len(types) == 1 else Types.TUPLE(types)

    @property
    def row_type(self) -> TypeInformation:
        """The type of a row."""
        return Types.ROW_NAMED(self.columns, self.types)

    # --- the short methods

    def map(self, function: per_record.MapFunction | Callable[[Any], Any]) -> KeyedProcessFunction:
        """One output row for each row: what ``function(row)`` returns."""
        return per_record.Map(function)

    def flat_map(
        self, function: per_record.FlatMapFunction | Callable[[Any], Iterable[Any] | None]
    ) -> KeyedProcessFunction:
        """Any number of output rows for each row: those that ``function(row)`` returns or yields."""
        return per_record.FlatMap(function)

    def filter(self, function: per_record.FilterFunction | Callable[[Any], bool]) -> KeyedProcessFunction:
        """The rows for which ``function(row)`` is true."""
        return per_record.Filter(function)

    def reduce(self, function: ReduceFunction | Callable[[Any, Any], Any]) -> KeyedProcessFunction:
        """For each row the key's rows so far, folded into one by ``function(folded, row)``."""
        return per_record.Reduce(function, self.row_type)

    def sum(self, column: str | int, *, on_error: Literal["fail", "side-output"] = "fail") -> KeyedFunction:
        """For each row the key's first row, with the sum of a column so far. ``column`` is a name, or a place from 0.
        Where the harness has ``on_error="side-output"``, say so here too: a job then takes rows one by one."""
        return self._rolling("sum", column, on_error)

    def min(self, column: str | int, *, on_error: Literal["fail", "side-output"] = "fail") -> KeyedFunction:
        """The same with the least value of the column so far."""
        return self._rolling("min", column, on_error)

    def max(self, column: str | int, *, on_error: Literal["fail", "side-output"] = "fail") -> KeyedFunction:
        """The same with the greatest value of the column so far."""
        return self._rolling("max", column, on_error)

    def _rolling(self, how: rolling.How, column: str | int, on_error: str) -> KeyedFunction:
        where = f"{how}({column!r})"
        name = rolling.named(column, self.columns, self.keys, where)
        kind = self.types[self.columns.index(name)]
        rolling.check_type(how, kind, kind.describe(), f"{where}: column {name!r}")
        made = rolling.Rolling(how=how, field=name, columns=self.columns, keys=self.keys, types=self.types)
        return made.function(on_error)

    # --- windows and joins

    def window(self, assigner: WindowAssigner) -> TypedWindows:
        """Windows of the stream: ``window(TumblingEventTimeWindows.of("5 min")).agg(total="sum(amount)")``."""
        return TypedWindows(operation.over(assigner).assigner, stream=self)

    def interval_join(self, other: TypedStream) -> JoinedStreams:
        """Join rows of this stream, the left one, with rows of ``other`` that have the same key and nearby event times:
        ``.between(lower, upper).process(function)``. The result runs in a ``KeyedCoProcessHarness``."""
        if not isinstance(other, TypedStream):
            raise errors.SpecInvalid(
                f"interval_join({other!r}): pass a stream: testing.keyed(row_type, keys)"
            )
        kinds = [stream.key_type.describe() for stream in (self, other)]
        if kinds[0] != kinds[1]:
            raise errors.SpecInvalid(
                f"interval_join(): the keys of the first stream are {kinds[0]}, those of the second {kinds[1]}; give "
                "both the same types, as Spark needs them"
            )
        return JoinedStreams(self, other)


@dataclass(frozen=True)
class TypedWindows(WindowOperation):
    """Windows of a stream, with ``agg`` beside the functions per record (``sparkstate.windows.over``)."""

    stream: TypedStream = field(kw_only=True)

    def agg(self, **aggregates: str) -> KeyedBatchFunction:
        """Built-in aggregates, each under the name of its column: ``agg(total="sum(amount)", rows="count(*)")``.

        A text says in SQL what a job says by ``F.sum("amount").alias("total")``: one aggregate of one column.
        ``first(c, true)`` and ``last(c, true)`` ignore nulls; ``approx_count_distinct(c, 0.1)`` names the deviation.
        Output rows have the key columns, ``window_start``, ``window_end``, and these. As in a job with Spark's
        defaults, a sum that does not fit fails.
        """
        make, slices = declared_windows.function_over(self, "agg(…)")
        stream = self.stream
        taken = [name for name in aggregates if name in (*stream.keys, START, END)]
        if taken:
            raise errors.SpecInvalid(
                f"agg({taken[0]}=…): the result has a column {taken[0]!r} by itself; give another name"
            )
        row = dict(zip(stream.columns, stream.types, strict=True))
        found = aggregate_texts.outputs(aggregates, row)
        return make(slices, stream.keys, found, self.late_tag, stream.columns)


@dataclass(frozen=True)
class JoinedStreams:
    """Two streams whose bounds are still to be named."""

    left: TypedStream
    right: TypedStream

    def between(self, lower: durations.Duration, upper: durations.Duration) -> TypedJoin:
        """Join a left row at time *t* with right rows from *t + lower* to *t + upper*, both included."""
        found = join_operation.between(lower, upper)
        return TypedJoin(found.least, found.most, streams=self)


@dataclass(frozen=True)
class TypedJoin(JoinOperation):
    """An interval join that lacks its function."""

    streams: JoinedStreams = field(kw_only=True)

    def process(self, function: ProcessJoinFunction) -> KeyedCoProcessFunction:
        """Call ``function`` for each pair."""
        left, right = self.streams.left.row_type, self.streams.right.row_type
        return self.function(function, left, right, f"process({function!r})")
