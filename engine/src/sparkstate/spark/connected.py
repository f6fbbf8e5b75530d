"""Two keyed streams for one operator: ``keyed(a, …).connect(keyed(b, …)).process(fn, …)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from sparkstate import errors
from sparkstate.connected_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from sparkstate.functions import KeyedFunction, OutputTag
from sparkstate.spark import checks, graph, plans
from sparkstate.state.descriptors import MapStateDescriptor

P = TypeVar("P")


@dataclass(frozen=True)
class ConnectedStreams(Generic[P]):
    """Two streams with keys of the same types; ``process`` puts an operator on them."""

    _graph: graph.Graph
    _first: graph.Input
    _second: graph.Input
    _processed: Callable[[graph.Graph, str, str | None], P]
    """Makes the operator's output."""

    def process(
        self,
        function: KeyedFunction,
        *,
        uid: str,
        output_schema: str,
        on_error: Literal["fail", "side-output"] = "fail",
        error_output1: OutputTag | None = None,
        error_output2: OutputTag | None = None,
        late_output1: OutputTag | None = None,
        late_output2: OutputTag | None = None,
        sort_by_event_time: bool = False,
    ) -> P:
        """Run ``function``, a ``KeyedCoProcessFunction``, for the rows of both streams, which share state and timers.

        Within an epoch the rows of the first stream come before those of the second; rows of one stream come in the
        order that they have without ``connect``. With ``sort_by_event_time`` the rows of both come in order of event
        time, those without one first, and at equal times those of the first stream first. Rows later than the watermark
        go to the late output of their stream if it has one, else to the function. The job's watermark is the least of
        all inputs that have event time. ``uid`` and ``output_schema`` are as for one stream.

        ``on_error="side-output"`` undoes the changes of a row that fails, and puts the row with the error's text into
        the ``error_output`` of its stream (default tags ``errors1`` and ``errors2``). A timer that fails goes to that
        of the first stream, with null columns.
        """
        if sort_by_event_time and not (self._first.has_event_time or self._second.has_event_time):
            raise errors.SpecInvalid(f"process(sort_by_event_time=True) of {uid!r} needs an event time")
        late = (late_output1, late_output2)
        rejects = checks.rejects(uid, on_error)
        return self._add(
            function,
            uid,
            output_schema,
            late,
            sort_by_event_time=sort_by_event_time,
            on_error=on_error,
            error_tag=error_output1 or (OutputTag("errors1") if rejects else None),
            second_error_tag=error_output2 or (OutputTag("errors2") if rejects else None),
        )

    def with_own_lateness(
        self,
        function: KeyedFunction,
        uid: str,
        output_schema: str,
        late: tuple[OutputTag | None, OutputTag | None],
    ) -> P:
        """Run a function that judges by itself which rows are late, and so needs the event time of both streams."""
        for which, each in (("left", self._first), ("right", self._second)):
            if not each.has_event_time:
                raise errors.SpecInvalid(
                    f"interval_join of {uid!r}: the {which} stream has no event time; give keyed() one by "
                    "event_time=…, or by withWatermark on its DataFrame"
                )
        return self._add(function, uid, output_schema, late)

    def _add(
        self,
        function: KeyedFunction,
        uid: str,
        output_schema: str,
        late: tuple[OutputTag | None, OutputTag | None],
        *,
        sort_by_event_time: bool = False,
        on_error: Literal["fail", "side-output"] = "fail",
        error_tag: OutputTag | None = None,
        second_error_tag: OutputTag | None = None,
    ) -> P:
        checks.check_uid(uid)
        checks.check_function(function, uid, KeyedCoProcessFunction.inputs, on_error)
        plans.schema_of(output_schema, f"process(output_schema=…) of {uid!r}")
        self._graph.add(
            graph.Operator(
                uid=uid,
                function=function,
                keys=self._first.keys,
                upstream=self._first.upstream,
                source=self._first.source,
                event_time=self._first.event_time,
                output_schema=output_schema,
                late_tag=late[0],
                sort_by_event_time=sort_by_event_time,
                second=self._second,
                second_late_tag=late[1],
                on_error=on_error,
                error_tag=error_tag,
                second_error_tag=second_error_tag,
            )
        )
        return self._processed(self._graph, uid, None)


def check_keys(declared: graph.Graph, first: graph.Input, second: graph.Input) -> None:
    """Raise ``SpecInvalid`` unless the keys of both have the same types: equal values of different types have different
    hashes in Spark, and would not meet."""
    if len(first.keys) != len(second.keys):
        raise errors.SpecInvalid(
            f"connect(): the first stream is keyed by {list(first.keys)} and the second by {list(second.keys)}; key "
            "both by equally many columns"
        )
    one = plans.stream_type(declared, first.upstream, first.source)
    other = plans.stream_type(declared, second.upstream, second.source)
    for name, its_pair in zip(first.keys, second.keys, strict=True):
        kind, its_kind = one[name].dataType, other[its_pair].dataType
        if kind != its_kind:
            raise errors.SpecInvalid(
                f"connect(): key column {name!r} of the first stream is {kind.simpleString()}, and {its_pair!r} of the "
                f"second is {its_kind.simpleString()}; cast one of them, equal keys need equal types"
            )


@dataclass(frozen=True)
class BroadcastStream:
    """A stream whose rows every slot sees, and the broadcast states that they build."""

    input: graph.Input
    states: tuple[MapStateDescriptor, ...]


@dataclass(frozen=True)
class BroadcastConnectedStreams(Generic[P]):
    """A stream, with keys or without, and a broadcast one; ``process`` puts an operator on them."""

    _graph: graph.Graph
    _first: graph.Input
    _broadcast: BroadcastStream
    _processed: Callable[[graph.Graph, str, str | None], P]
    """Makes the operator's output."""

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
    ) -> P:
        """Run ``function``. It is a ``KeyedBroadcastProcessFunction``; if the stream has no keys, it is a
        ``BroadcastProcessFunction``, which has neither keyed state nor timers.

        Within an epoch the broadcast rows come first, in every slot in the same order: those of one partition of the
        source as they were written, partition by partition. The other rows follow as they came, or in order of event
        time. Those that are late go to ``late_output`` if there is one, else to the function. Late broadcast rows are
        applied like others.

        ``on_error="side-output"`` undoes the changes of a row of the first stream, or of a timer, that fails, and puts
        the row with the error's text into ``error_output`` (default tag ``errors``). A broadcast row that fails always
        fails the epoch: slots that did not all apply it would have different broadcast state.
        """
        kind = KeyedBroadcastProcessFunction if self._first.keys else BroadcastProcessFunction
        checks.check_uid(uid)
        rejects = checks.rejects(uid, on_error)
        checks.check_function(function, uid, kind.inputs, on_error)
        if sort_by_event_time and not self._first.has_event_time:
            raise errors.SpecInvalid(f"process(sort_by_event_time=True) of {uid!r} needs an event time")
        plans.schema_of(output_schema, f"process(output_schema=…) of {uid!r}")
        self._graph.add(
            graph.Operator(
                uid=uid,
                function=function,
                keys=self._first.keys,
                upstream=self._first.upstream,
                source=self._first.source,
                event_time=self._first.event_time,
                output_schema=output_schema,
                on_error=on_error,
                error_tag=error_output or (OutputTag("errors") if rejects else None),
                late_tag=late_output,
                sort_by_event_time=sort_by_event_time,
                second=self._broadcast.input,
                broadcast_states=self._broadcast.states,
            )
        )
        return self._processed(self._graph, uid, None)


@dataclass(frozen=True)
class UnkeyedStream(Generic[P]):
    """A stream without keys; ``connect`` gives it a broadcast one."""

    _graph: graph.Graph
    _input: graph.Input
    _processed: Callable[[graph.Graph, str, str | None], P]
    """Makes the operator's output."""

    def connect(self, other: BroadcastStream) -> BroadcastConnectedStreams[P]:
        """This stream and a broadcast one as the two inputs of one operator."""
        if not isinstance(other, BroadcastStream):
            raise errors.SpecInvalid(
                f"connect({other!r}) of a stream without keys: pass broadcast(…), or key both streams"
            )
        return BroadcastConnectedStreams(self._graph, self._input, other, self._processed)


def check_states(states: Sequence[object]) -> None:
    """Raise ``SpecInvalid`` for what cannot describe the states of a broadcast stream."""
    for state in states:
        if not isinstance(state, MapStateDescriptor):
            raise errors.SpecInvalid(
                f"broadcast(…, {state!r}): broadcast state is a map; pass a MapStateDescriptor(name, key type, "
                "value type)"
            )
    names = [state.name for state in states if isinstance(state, MapStateDescriptor)]
    if not names or len(set(names)) < len(names):
        raise errors.SpecInvalid(
            f"broadcast(…) names the states {names}; give it at least one MapStateDescriptor, and each its own name"
        )
