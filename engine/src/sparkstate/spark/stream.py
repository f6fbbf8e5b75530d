"""The API of a job: ``keyed(df, keys).process(fn, uid=…, output_schema=…).sink(…)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, overload

from sparkstate import durations, errors
from sparkstate.aggregates import declared_windows
from sparkstate.functions import KeyedFunction, OutputTag, require_tag
from sparkstate.sinks.file_sink import FileSink
from sparkstate.spark import checks, combining, environment, graph, plans, window_aggregates, windowed
from sparkstate.spark.connected import (
    BroadcastConnectedStreams,
    BroadcastStream,
    ConnectedStreams,
    UnkeyedStream,
    check_keys,
    check_states,
)
from sparkstate.spark.interval_join import IntervalJoinedStreams
from sparkstate.spark.keyed_methods import KeyedMethods
from sparkstate.state.descriptors import MapStateDescriptor
from sparkstate.state_backend import StateBackend
from sparkstate.windows import count_windows, operation
from sparkstate.windows.assigner import WindowAssigner
from sparkstate.windows.operation import WindowOperation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def keyed(
    df: DataFrame | Sequence[DataFrame],
    keys: str | Sequence[str],
    *,
    event_time: str | None = None,
    delay: durations.Duration | None = None,
    idle_timeout: durations.Duration | None = None,
    watermark_partition: str | Sequence[str] | None = None,
) -> KeyedStream:
    """Partition a streaming DataFrame by key columns.

    ``df`` is one streaming DataFrame or a list of them with the same columns, of the same types (each then has a
    watermark of its own, and the least of them holds). ``keys`` are column names. A key column keeps its type as long
    as there is state. Event time comes from ``df.withWatermark(column, delay)``, or from ``event_time`` and ``delay``
    here (default ``0 seconds``); ``idle_timeout`` lets a source without new rows for that long stop holding back the
    watermark (default: never). Lengths of time are ``Time.minutes(5)``, ``"5 min"``, a ``timedelta``, or milliseconds.

    ``watermark_partition`` names the columns that tell the parts of a source apart which are read at a pace of their
    own; for Kafka ``["topic", "partition"]``, kept in the DataFrame. Each part has a watermark then, and the least of
    them holds: rows of a partition that is read late after an outage are not late. A part that gets no rows any more
    holds the watermark back until ``idle_timeout``. Without it a source has one watermark. Where ``idle_timeout`` is
    given and a Kafka source's columns ``topic`` and ``partition`` are still in the DataFrame, they are taken by
    themselves; ``watermark_partition=[]`` prevents that. A job whose state was stored with one watermark keeps it until
    ``watermark_partition`` names them.
    """
    declared, number = _declare_input("keyed", df, event_time, delay, idle_timeout, watermark_partition)
    source = declared.sources_of(number)[0][1]
    names = _key_columns(keys, source.frame.schema)
    return KeyedStream(declared, None, names, source.event_time, number)


def stream(
    df: DataFrame | Sequence[DataFrame],
    *,
    event_time: str | None = None,
    delay: durations.Duration | None = None,
    idle_timeout: durations.Duration | None = None,
    watermark_partition: str | Sequence[str] | None = None,
) -> UnkeyedStream[ProcessedStream]:
    """A streaming DataFrame without keys, for ``connect(broadcast(…))``: its rows go to the slots in turn. The
    arguments are those of ``keyed``."""
    declared, number = _declare_input("stream", df, event_time, delay, idle_timeout, watermark_partition)
    time = declared.sources_of(number)[0][1].event_time
    made = graph.Input(keys=(), upstream=None, event_time=time, source=number)
    return UnkeyedStream(declared, made, ProcessedStream)


def broadcast(
    df: DataFrame | Sequence[DataFrame],
    *states: MapStateDescriptor,
    event_time: str | None = None,
    delay: durations.Duration | None = None,
    idle_timeout: durations.Duration | None = None,
    watermark_partition: str | Sequence[str] | None = None,
) -> BroadcastStream:
    """A stream whose rows every slot sees, for ``keyed(…).connect(…)`` or ``stream(…).connect(…)``. ``states`` describe
    the broadcast state that the rows build. The other arguments are those of ``keyed``."""
    check_states(states)
    declared, number = _declare_input("broadcast", df, event_time, delay, idle_timeout, watermark_partition)
    time = declared.sources_of(number)[0][1].event_time
    made = graph.Input(keys=(), upstream=None, event_time=time, source=number, is_broadcast=True)
    return BroadcastStream(made, states)


def _declare_input(
    call: Literal["keyed", "stream", "broadcast"],
    df: DataFrame | Sequence[DataFrame],
    event_time: str | None,
    delay: durations.Duration | None,
    idle_timeout: durations.Duration | None,
    watermark_partition: str | Sequence[str] | None,
) -> tuple[graph.Graph, int]:
    """Declare an input of the job; its number. Errors name the ``call``."""
    declared = graph.current()
    frames: list[DataFrame] = list(df) if isinstance(df, (list, tuple)) else [df]
    if not frames:
        raise errors.SpecInvalid(f"sparkstate.{call} got an empty list of DataFrames")
    idle = None if idle_timeout is None else durations.positive_ms(idle_timeout, f"{call}(idle_timeout=…)")
    sources = []
    for frame in frames:
        plans.check_source(frame, call)
        column, delay_ms = _event_time(call, frame, event_time, delay)
        sources.append(graph.Source(frame=frame, event_time=column, delay_ms=delay_ms, idle_timeout_ms=idle))
    checks.check_columns(frames, call)
    _check_one_event_time(call, sources)
    sources = _with_parts(call, sources, watermark_partition)
    return declared, declared.add_sources(sources)


def set_state_backend(backend: StateBackend | str) -> None:
    """Choose the state backend in code, as Flink's ``env.set_state_backend``: a backend, or a name of one of any age.

    The code beats the manifest; options that the code leaves open come from the manifest.
    """
    environment.choose_backend(graph.current(), backend)


def _event_time(
    call: str, frame: DataFrame, column: str | None, delay: durations.Duration | None
) -> tuple[str | None, int]:
    if column is not None:
        plans.check_event_time(frame.schema, column, call)
        return column, durations.not_negative_ms(delay if delay is not None else 0, f"{call}(delay=…)")
    if delay is not None:
        raise errors.SpecInvalid(f"{call}(delay={delay!r}) needs event_time= as well")
    return plans.watermark_of(frame)


def _check_one_event_time(call: str, sources: Sequence[graph.Source]) -> None:
    """The rows of one input are stamped by one column. Each source has a watermark and a delay of its own."""
    columns = [source.event_time for source in sources]
    if len(set(columns)) > 1:
        told = ", ".join("none" if column is None else repr(column) for column in columns)
        raise errors.SpecInvalid(
            f"{call}([…]) got DataFrames whose columns of event time differ: {told}, in their order; call "
            f"withWatermark on the same column of each, or pass {call}(event_time=…, delay=…) for all"
        )


def _with_parts(
    call: str, sources: list[graph.Source], columns: str | Sequence[str] | None
) -> list[graph.Source]:
    """With the columns that tell their parts apart; Kafka's by themselves, where a quiet part cannot hold the job."""
    if columns is None:
        return _with_parts_of_kafka(sources)
    names = checks.names(columns, f"{call}(watermark_partition=…)")
    for source in sources:
        if names and source.event_time is None:
            raise errors.SpecInvalid(f"{call}(watermark_partition={list(names)}) needs an event time")
        plans.check_partition_columns(source.frame, names, call)
    return [replace(source, parts=names) for source in sources]


def _with_parts_of_kafka(sources: list[graph.Source]) -> list[graph.Source]:
    if any(source.event_time is None for source in sources):
        return sources
    if sources[0].idle_timeout_ms is not None and all(plans.has_kafka_partitions(s.frame) for s in sources):
        return [replace(source, parts=plans.KAFKA_PARTITION, has_taken_parts=True) for source in sources]
    return [replace(source, may_be_skewed=plans.reads_kafka(source.frame)) for source in sources]


def _key_columns(keys: str | Sequence[str], struct: StructType) -> tuple[str, ...]:
    names = checks.names(keys, "keyed(keys=…)")
    if not names:
        raise errors.SpecInvalid(f"keyed(keys={keys!r}): give at least one key column")
    for name in names:
        if name not in struct.names:
            raise errors.SpecInvalid(
                f"key column {name!r} is not in the data; give some of its columns, {struct.names}"
            )
        plans.key_type(name, struct[name].dataType)
    return names


@dataclass(frozen=True)
class KeyedStream(KeyedMethods["ProcessedStream"]):
    """A stream partitioned by key; ``process`` puts an operator on it."""

    _graph: graph.Graph = field(repr=False)
    _upstream: tuple[str, str | None] | None
    _keys: tuple[str, ...]
    _event_time: str | None
    _source: int = 0

    def _columns(self) -> StructType:
        return plans.stream_type(self._graph, self._upstream, self._source)

    @overload
    def connect(self, other: KeyedStream) -> ConnectedStreams[ProcessedStream]: ...

    @overload
    def connect(self, other: BroadcastStream) -> BroadcastConnectedStreams[ProcessedStream]: ...

    def connect(
        self, other: KeyedStream | BroadcastStream
    ) -> ConnectedStreams[ProcessedStream] | BroadcastConnectedStreams[ProcessedStream]:
        """This stream and ``other`` as the two inputs of one operator. The key columns of two keyed streams may have
        different names, and must have the same types."""
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStreams(self._graph, self._as_input(), other, ProcessedStream)
        if not isinstance(other, KeyedStream):
            raise errors.SpecInvalid(
                f"connect({other!r}): pass a keyed stream: sparkstate.keyed(b, …), or operator.keyed(…); or one of "
                "broadcast(…)"
            )
        first, second = self._as_input(), other._as_input()
        check_keys(self._graph, first, second)
        return ConnectedStreams(self._graph, first, second, ProcessedStream)

    def interval_join(self, other: KeyedStream) -> IntervalJoinedStreams[ProcessedStream]:
        """Join rows of this stream, the left one, with rows of ``other``, the right one, that have the same key and
        nearby event times: ``.between(lower, upper).process(function, …)``."""
        if not isinstance(other, KeyedStream):
            raise errors.SpecInvalid(
                f"interval_join({other!r}): pass a keyed stream: sparkstate.keyed(b, …), or operator.keyed(…)"
            )
        connected = self.connect(other)
        return IntervalJoinedStreams(connected, self._columns(), other._columns())

    def _as_input(self) -> graph.Input:
        return graph.Input(
            keys=self._keys, upstream=self._upstream, event_time=self._event_time, source=self._source
        )

    def process(
        self,
        function: KeyedFunction,
        *,
        uid: str,
        output_schema: str,
        on_error: Literal["fail", "side-output"] = "fail",
        error_output: OutputTag | None = None,
        late_output: OutputTag | None = None,
        sort_by_event_time: bool = False,
    ) -> ProcessedStream:
        """Run ``function`` for every row (``KeyedProcessFunction``), or for batches of rows
        (``KeyedBatchFunction``), with keyed state and timers.

        ``uid`` names the operator: its state is found again by it. ``output_schema`` is a DDL string of what the
        function yields. ``on_error="side-output"`` undoes a failing record's changes and puts the record, with the
        error's text, into ``error_output`` (default tag ``errors``); ``fail`` stops the epoch. Rows later than the
        watermark go to ``late_output`` if there is one, else to the function, as in Flink. ``sort_by_event_time``
        hands every key its rows of an epoch in order of event time.
        """
        checks.check_uid(uid)
        rejects = checks.rejects(uid, on_error)
        checks.check_function(function, uid, KeyedFunction.inputs, on_error)
        if sort_by_event_time and not self._as_input().has_event_time:
            raise errors.SpecInvalid(f"process(sort_by_event_time=True) of {uid!r} needs an event time")
        operator = graph.Operator(
            uid=uid,
            function=function,
            keys=self._keys,
            upstream=self._upstream,
            source=self._source,
            event_time=self._event_time,
            output_schema=output_schema,
            on_error=on_error,
            error_tag=error_output or (OutputTag("errors") if rejects else None),
            late_tag=late_output,
            sort_by_event_time=sort_by_event_time,
        )
        plans.schema_of(output_schema, f"process(output_schema=…) of {uid!r}")
        self._graph.add(operator)
        return ProcessedStream(self._graph, uid, None)

    def window(self, assigner: WindowAssigner) -> windowed.WindowedStream[ProcessedStream]:
        """Put the rows of each key into windows: ``window(TumblingEventTimeWindows.of(Time.minutes(5)))``."""
        chosen = operation.over(assigner)
        windowed.check_event_time(chosen, self._as_input().has_event_time)
        return windowed.WindowedStream(chosen, self._columns, self.process, self._aggregate)

    def count_window(self, size: int, slide: int = 0) -> windowed.WindowedStream[ProcessedStream]:
        """Windows of ``size`` rows of a key, of which one starts every ``slide`` rows (default: every ``size``)."""
        if slide == 0:
            return self.window(count_windows.CountTumblingWindowAssigner.of(size))
        return self.window(count_windows.CountSlidingWindowAssigner.of(size, slide))

    def _aggregate(
        self,
        operation: WindowOperation,
        exprs: Sequence[Column | Mapping[str, str]],
        uid: str,
        phases: combining.Phases,
    ) -> ProcessedStream:
        """``window(…).agg(…)``."""
        checks.check_uid(uid, "agg")
        make, slices = declared_windows.function_over(operation, f"agg(…) of {uid!r}")
        frame = self._graph.sources_of(self._source)[0][1].frame
        if self._upstream is not None:
            frame = frame.sparkSession.createDataFrame([], self._columns())
        found = window_aggregates.read(frame, self._keys, exprs, uid)
        names = tuple(self._columns().names)
        inputs = {output.column for output in found.outputs} | {*self._keys}
        shipped = names if operation.late_tag else tuple(name for name in names if name in inputs)
        function = make(slices, self._keys, found.outputs, operation.late_tag, names)
        self._graph.add(
            graph.Operator(
                uid=uid,
                function=function,
                keys=self._keys,
                upstream=self._upstream,
                source=self._source,
                event_time=self._event_time,
                output_schema=plans.ddl_of(found.result),
                late_tag=operation.late_tag,
                shipped=shipped,
                computed=tuple((each.name, each.sql) for each in found.computed),
                combining=combining.combining(
                    slices, function.stored_outputs, phases, operation.late_tag is not None, uid
                ),
            )
        )
        return ProcessedStream(self._graph, uid, None)


@dataclass(frozen=True)
class ProcessedStream:
    """An operator's output. It is no DataFrame: it exists only within an epoch."""

    _graph: graph.Graph = field(repr=False)
    _uid: str
    _tag: str | None

    def side_output(self, tag: OutputTag) -> ProcessedStream:
        """The rows that the operator yielded with this tag, or the late or failed rows if the tag is theirs."""
        require_tag(tag, "side_output(…)")
        operator = self._graph.operators[self._uid]
        built_in = {built_in_tag.tag_id for _, built_in_tag in operator.built_in_tags}
        if tag.schema is None and tag.tag_id not in built_in:
            raise errors.SpecInvalid(
                f"side_output({tag.tag_id!r}) needs a schema: OutputTag({tag.tag_id!r}, 'a long, …')"
            )
        operator.side_outputs[tag.tag_id] = tag
        return ProcessedStream(self._graph, self._uid, tag.tag_id)

    def keyed(self, keys: str | Sequence[str], *, event_time: str | None = None) -> KeyedStream:
        """Partition the output again, for a next operator of the same epoch.

        ``event_time`` names a timestamp column of the output; without it, rows, those of a side output as well, carry
        the timestamp of the row or timer that made them, as in Flink.
        """
        schema = plans.output_type(self._graph, self._uid, self._tag)
        names = _key_columns(keys, schema)
        if event_time is not None:
            plans.check_event_time(schema, event_time, "keyed")
        return KeyedStream(self._graph, (self._uid, self._tag), names, event_time)

    def connect(self, other: BroadcastStream) -> BroadcastConnectedStreams[ProcessedStream]:
        """The output, without keys, and a broadcast stream as the two inputs of one operator of the same epoch."""
        made = graph.Input(keys=(), upstream=(self._uid, self._tag), event_time=None)
        return UnkeyedStream(self._graph, made, ProcessedStream).connect(other)

    def broadcast(self, *states: MapStateDescriptor, event_time: str | None = None) -> BroadcastStream:
        """Let every slot see the output, for ``keyed(…).connect(…)`` in the same epoch. ``states`` describe the
        broadcast state that its rows build; ``event_time`` is as in ``keyed``."""
        check_states(states)
        if event_time is not None:
            schema = plans.output_type(self._graph, self._uid, self._tag)
            plans.check_event_time(schema, event_time, "broadcast")
        upstream = (self._uid, self._tag)
        made = graph.Input(keys=(), upstream=upstream, event_time=event_time, is_broadcast=True)
        return BroadcastStream(made, states)

    def sink(self, sink: FileSink | graph.UserSink) -> ProcessedStream:
        """Send the output to ``FileSink(…)`` (exactly once) or to ``function(df, epoch_id)``.

        A function of the user's is called once per epoch, before a checkpoint can hold the epoch's changes; if it
        raises, they are undone with the epoch. After a failure, epochs since the last checkpoint run again and may
        be cut differently: such a sink sees rows at least once.
        """
        checks.check_sink(sink)
        self._graph.add_sink(self._uid, self._tag, sink)
        return self
