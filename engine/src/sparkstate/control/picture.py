"""The documents that the page draws: the job's graph with its figures, the series of the last hour, lines of logs.

They keep to the rules of ``documents``: fields are only ever added, units stand last, null means "not known".
"""

from __future__ import annotations

import enum

from pydantic import Field

from sparkstate.control.documents import Document


class NodeKind(enum.StrEnum):
    """The kinds of nodes in the graph."""

    SOURCE = "source"
    OPERATOR = "operator"
    SIDE_OUTPUT = "side-output"
    SINK = "sink"


class OperatorStateFigures(Document):
    """A list or a broadcast map of operator state, over all slots."""

    name: str
    kind: str = Field(description="split, union or broadcast.")
    elements: int = Field(
        description="Elements of a list in all slots; entries of a broadcast map, which every slot has."
    )
    size_bytes: int = Field(description="Memory that it takes in all slots, an estimate.")
    largest_bytes: int = Field(description="Memory that it takes in the slot where it takes most.")


class OperatorFigures(Document):
    """One operator over all slots. Totals count since this driver started, rates cover the newest epochs, of
    about ten seconds."""

    rows_in_total: int = 0
    rows_in_per_s: float = 0.0
    rows_out_total: int = Field(default=0, description="Rows of the main output and of all side outputs.")
    rows_out_per_s: float = 0.0
    late_rows_total: int = 0
    dropped_rows_total: int = Field(
        default=0, description="Rows for side outputs that nothing in the job reads."
    )
    timers_fired_total: int = 0
    busy_share: float | None = Field(
        default=None,
        description="Share of the newest epochs' time (0 to 1) for which the busiest slot worked on this operator; "
        "null before the first epoch with rows.",
    )
    state_rows: int | None = Field(
        default=None, description="Entries of committed state without timers; RocksDB estimates them."
    )
    state_bytes: int | None = Field(
        default=None, description="Size of the committed state, timers included; an estimate."
    )
    timers: int | None = Field(default=None, description="Registered timers, as of the last commit.")
    operator_states: tuple[OperatorStateFigures, ...] = Field(
        default=(), description="Lists and broadcast maps; `state_bytes` does not count them."
    )


class GraphNode(Document):
    """A source, an operator, a side output or a sink."""

    id: str = Field(description="Unique within the graph; edges name it.")
    kind: NodeKind
    name: str = Field(description="An operator's uid, a side output's tag, a source's format, a sink's uid.")
    detail: str = Field(default="", description="An operator's function and keys, a sink's destination.")
    figures: OperatorFigures | None = Field(default=None, description="Of operators alone.")


class GraphEdge(Document):
    """The way of rows from one node to another. A node may have several edges in and out."""

    source: str = Field(description="Id of the node that the rows leave.")
    target: str = Field(description="Id of the node that they reach.")
    input: int = Field(
        default=0, description="The input of the target that they reach: 0 is the first, 1 the second."
    )
    rows_total: int | None = Field(
        default=None,
        description="Rows that took this way since this driver started; null where several sources are counted "
        "together.",
    )
    rows_per_s: float | None = None


class JobGraph(Document):
    """The job's operators and the ways of the rows between them. Empty until the job has declared itself."""

    nodes: tuple[GraphNode, ...] = Field(default=(), description="In the order in which rows reach them.")
    edges: tuple[GraphEdge, ...] = ()


class Series(Document):
    """Points of the last hour, each a few seconds wide. All lists have the same length, the newest value last.

    A null is a gap: nothing was measured, because the job was starting or recovering. The driver keeps the points in
    memory, so another driver begins anew.
    """

    started_ms: int = Field(description="Start of the driver that has measured.")
    period_ms: int = Field(description="Width of a point.")
    capacity: int = Field(description="Points that are kept.")
    last: int = Field(description="Number of the newest point; 0: there is none. Numbers begin at 1.")
    until_ms: int = Field(description="End of the newest point.")
    rows_per_s: tuple[float | None, ...] = ()
    epoch_ms: tuple[float | None, ...] = Field(default=(), description="The longest epoch.")
    lag_ms: tuple[float | None, ...] = Field(default=(), description="The largest watermark lag.")
    state_bytes: tuple[float | None, ...] = Field(default=(), description="State of all slots, at the end.")
    memory_bytes: tuple[float | None, ...] = Field(
        default=(), description="Memory of the state backend in all slots: caches, write buffers and tables."
    )
    budget_bytes: tuple[float | None, ...] = Field(
        default=(), description="The limit of that memory in all slots."
    )
    checkpoint_ms: tuple[float | None, ...] = Field(
        default=(), description="The longest checkpoint that completed."
    )
    checkpoint_bytes: tuple[float | None, ...] = Field(
        default=(), description="Bytes that completed checkpoints have uploaded."
    )


class LogTail(Document):
    """The last lines of one log. Secrets that sparkstate knows are replaced by ``***``."""

    source: str = Field(description="`driver` or `slot-N`.")
    lines: tuple[str, ...] = Field(
        default=(), description="At most 200, the newest last, each of at most 2,000 characters."
    )
