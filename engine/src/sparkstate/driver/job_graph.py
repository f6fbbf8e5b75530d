"""The job as a graph for people: sources, operators, side outputs and sinks, and the ways of the rows between them.

The shape is made once, from the job's declaration. Its figures are filled in whenever somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sparkstate.control import documents
from sparkstate.control.picture import GraphEdge, GraphNode, JobGraph, NodeKind
from sparkstate.driver import operator_states
from sparkstate.driver.operator_figures import WorkedEpochs
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots import protocol
from sparkstate.slots.last_lines import Hiding
from sparkstate.spark import graph

_LONGEST: Final = 300
"""Characters of a name or a detail. A uid has 63; a tag, a path and the name of a class have no bound."""

_HIDING: Final = Hiding(())
"""A sink's path may hold a password."""


@dataclass(frozen=True)
class Way:
    """One edge, and the rows that take it: those of an operator's output, or what comes into an operator."""

    source: str
    target: str
    input: int = 0
    output: tuple[str, str | None] | None = None
    """Operator and tag whose rows take this way."""
    intake: str | None = None
    """Operator all of whose rows take this way."""


@dataclass(frozen=True)
class Shape:
    """A graph without figures."""

    nodes: tuple[GraphNode, ...] = ()
    ways: tuple[Way, ...] = ()

    def with_figures(
        self,
        epochs: WorkedEpochs,
        sizes: Sequence[protocol.OperatorSize],
        now: float,
        states: Sequence[documents.OperatorStateSize] = (),
    ) -> JobGraph:
        """The graph as it is ``now``, by the monotonic clock."""
        nodes = [
            node.model_copy(
                update={
                    "figures": epochs.figures(node.name, sizes, now).model_copy(
                        update={"operator_states": operator_states.over_slots(node.name, states)}
                    )
                }
            )
            if node.kind is NodeKind.OPERATOR
            else node
            for node in self.nodes
        ]
        return JobGraph(nodes=tuple(nodes), edges=tuple(_edge(way, epochs, now) for way in self.ways))


def shape_of(declared: graph.Graph, formats: Callable[[graph.Source], Sequence[str]]) -> Shape:
    """Of a declared job. ``formats`` tells what a source reads."""
    sources = [
        _node(
            _source_id(number), NodeKind.SOURCE, " + ".join(formats(source)) or "source", _of_source(source)
        )
        for number, source in enumerate(declared.sources)
    ]
    operators, sides, ways = [], [], list[Way]()
    for operator in declared.operators.values():
        operators.append(
            _node(f"operator:{operator.uid}", NodeKind.OPERATOR, operator.uid, _of_operator(operator))
        )
        ways += _ways_into(operator, declared)
        sides += [_side(operator.uid, tag) for tag in operator.side_outputs]
        ways += [
            Way(f"operator:{operator.uid}", _side_id(operator.uid, tag), output=(operator.uid, tag))
            for tag in operator.side_outputs
        ]
    sinks = [
        _node(f"sink:{sink.uid}", NodeKind.SINK, sink.uid, _of_sink(sink.sink)) for sink in declared.sinks
    ]
    ways += [
        Way(_output_id(each.operator, each.tag), f"sink:{each.uid}", output=(each.operator, each.tag))
        for each in declared.sinks
    ]
    return Shape((*sources, *operators, *sides, *sinks), tuple(ways))


def _ways_into(operator: graph.Operator, declared: graph.Graph) -> Iterable[Way]:
    target = f"operator:{operator.uid}"
    for number, each in enumerate(operator.inputs):
        if each.upstream is not None:
            yield Way(_output_id(*each.upstream), target, number, output=each.upstream)
            continue
        sources = declared.sources_of(each.source)
        # Rows of several sources or inputs are counted together, where the operator takes them in.
        counted = operator.uid if len(sources) == len(operator.inputs) == 1 else None
        for at, _ in sources:
            yield Way(_source_id(at), target, number, intake=counted)


def _edge(way: Way, epochs: WorkedEpochs, now: float) -> GraphEdge:
    total: int | None = None
    rate: float | None = None
    if way.output is not None:
        total, rate = epochs.rows_out(*way.output, now)
    elif way.intake is not None:
        figures = epochs.figures(way.intake, (), now)
        total, rate = figures.rows_in_total, figures.rows_in_per_s
    return GraphEdge(source=way.source, target=way.target, input=way.input, rows_total=total, rows_per_s=rate)


def _node(id_: str, kind: NodeKind, name: str, detail: str) -> GraphNode:
    detail = _HIDING.hide(detail)[:_LONGEST]
    return GraphNode(id=id_, kind=kind, name=name[:_LONGEST], detail=detail)


def _side(uid: str, tag: str) -> GraphNode:
    return _node(_side_id(uid, tag), NodeKind.SIDE_OUTPUT, tag, f"side output of {uid}")


def _source_id(number: int) -> str:
    return f"source:{number}"


def _side_id(uid: str, tag: str) -> str:
    return f"side-output:{uid}/{tag}"


def _output_id(uid: str, tag: str | None) -> str:
    return f"operator:{uid}" if tag is None else _side_id(uid, tag)


def _of_source(source: graph.Source) -> str:
    return "" if source.event_time is None else f"event time {source.event_time}"


def _of_operator(operator: graph.Operator) -> str:
    by = f" by {', '.join(operator.keys)}" if operator.keys else ""
    return f"{operator.function.operator_title}{by}"


def _of_sink(sink: FileSink | graph.UserSink) -> str:
    if isinstance(sink, FileSink):
        return f"{sink.format} files in {sink.path}"
    return f"function {getattr(sink, '__name__', type(sink).__name__)}"
