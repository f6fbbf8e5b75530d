"""A job with everything that the page draws: operators, an hour of series, logs, long work, metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparkstate.control import documents, picture
from sparkstate.control.picture import GraphEdge, GraphNode, NodeKind, OperatorFigures, OperatorStateFigures
from sparkstate_tools.drivers.control_job import NOW_MS, InMemoryJob, checkpoint, slot

MIB = 2**20
POINTS = 720
SLOT_MEMORY = documents.SlotMemory(
    budget=256 * MIB,
    cache=80 * MIB,
    write_buffers=30 * MIB,
    operator_state=MIB,
    operator_state_limit=32 * MIB,
)


def node(kind: NodeKind, name: str, detail: str = "", figures: OperatorFigures | None = None) -> GraphNode:
    """One of the graph's nodes; its id follows from kind and name."""
    return GraphNode(id=f"{kind.value}:{name}", kind=kind, name=name, detail=detail, figures=figures)


def graph_of(*ways: tuple[GraphNode, GraphNode, float | None]) -> picture.JobGraph:
    """A graph of ways from node to node with rows per second; of those into a node, the second is its input 1."""
    nodes: dict[str, GraphNode] = {}
    inputs: dict[str, int] = {}
    edges = []
    for source, target, rate in ways:
        nodes |= {source.id: source, target.id: target}
        number = inputs[target.id] = inputs.get(target.id, -1) + 1
        edges.append(GraphEdge(source=source.id, target=target.id, input=number, rows_per_s=rate))
    return picture.JobGraph(nodes=tuple(nodes.values()), edges=tuple(edges))


ROTATION = node(
    NodeKind.OPERATOR,
    "rotation",
    "Rotation by tailnum",
    OperatorFigures(
        rows_in_total=336_776,
        rows_in_per_s=2150.4,
        rows_out_total=340_012,
        rows_out_per_s=2171.2,
        late_rows_total=12,
        dropped_rows_total=3,
        timers_fired_total=4_101,
        busy_share=0.31,
        state_rows=81_300,
        state_bytes=50 * MIB,
        timers=4_044,
    ),
)
ALERTS = node(
    NodeKind.OPERATOR,
    "alerts",
    "Alerts by tailnum, carrier",
    OperatorFigures(
        rows_in_total=120_000,
        rows_in_per_s=812.0,
        rows_out_total=44,
        rows_out_per_s=0.4,
        busy_share=0.004,
        state_rows=512,
        state_bytes=6 * MIB,
        timers=0,
        operator_states=(
            OperatorStateFigures(
                name="rules", kind="broadcast", elements=1_200, size_bytes=2 * MIB, largest_bytes=MIB
            ),
        ),
    ),
)


def graph() -> picture.JobGraph:
    """Two sources, two operators one behind the other, a side output, three sinks."""
    flights, carriers = node(NodeKind.SOURCE, "kafka", "event time departed"), node(NodeKind.SOURCE, "file")
    late = node(NodeKind.SIDE_OUTPUT, "late", "side output of rotation")
    sinks = [
        node(NodeKind.SINK, "rotation", "parquet files in s3://bucket/rotations"),
        node(NodeKind.SINK, "rotation-late", "json files in s3://bucket/late"),
        node(NodeKind.SINK, "alerts", "function send_mail"),
    ]
    return graph_of(
        (flights, ROTATION, None),
        (carriers, ROTATION, None),
        (ROTATION, ALERTS, 812.0),
        (ROTATION, late, 0.2),
        (ROTATION, sinks[0], 2171.0),
        (late, sinks[1], 0.2),
        (ALERTS, sinks[2], 0.4),
    )


def wide(drawn: picture.JobGraph) -> picture.JobGraph:
    """The same nodes and ways with names, details and figures that no card has room for: letters of every width."""
    large = OperatorFigures(
        rows_in_total=10**15,
        rows_in_per_s=98_765_432_109.0,
        rows_out_total=10**15,
        rows_out_per_s=98_765_432_109.0,
        late_rows_total=10**14,
        dropped_rows_total=10**14,
        busy_share=0.5,
        state_bytes=2**60,
        timers=10**12,
    )
    names = (
        "WWW_ENRICHED_TRANSACTIONS_BY_MERCHANT_AND_WEEK",
        "国际航班轮换与告警以及迟到的行",
        "illicit_fill_" * 6,
    )
    nodes = [
        each.model_copy(
            update={
                "name": names[number % 3],
                "detail": f"window(TumblingEventTimeWindows of 1 min).aggregate({names[(number + 1) % 3]})",
                "figures": large if each.figures else None,
            }
        )
        for number, each in enumerate(drawn.nodes)
    ]
    edges = [
        each.model_copy(update={"rows_per_s": None if each.rows_per_s is None else 98_765_432.0})
        for each in drawn.edges
    ]
    return drawn.model_copy(update={"nodes": tuple(nodes), "edges": tuple(edges)})


def points(count: int = POINTS) -> dict[str, tuple[float | None, ...]]:
    """An hour with its waves, a gap in the middle, and a checkpoint each minute."""

    def wave(base: float, swing: float, every: int = 1) -> tuple[float | None, ...]:
        gap = range(count // 2, count // 2 + 8)
        return tuple(
            None if i in gap or i % every else base + swing * math.sin(i / 40) + swing / 5 * math.cos(i * 1.7)
            for i in range(count)
        )

    return {
        "rows_per_s": wave(2150, 400),
        "epoch_ms": wave(410, 120),
        "lag_ms": wave(4_300, 1_500),
        "state_bytes": tuple(None if v is None else v + i * 40_000 for i, v in enumerate(wave(28e6, 1e6))),
        "memory_bytes": wave(230 * MIB, 12 * MIB),
        "budget_bytes": tuple(512.0 * MIB for _ in range(count)),
        "checkpoint_ms": wave(840, 300, every=12),
        "checkpoint_bytes": wave(1.4e6, 5e5, every=12),
    }


def job(extra: Sequence[documents.UserMetric] = ()) -> InMemoryJob:
    """A running job."""
    status = documents.JobStatus(
        job_uid="uid-1",
        name="rotations",
        namespace="flights",
        phase=documents.DriverPhase.RUNNING,
        backend="rocksdb",
        incarnation=3,
        epoch=1210,
        rows_total=336_776,
        rows_per_s=2150.4,
        late_rows_total=12,
        dropped_rows_total=3,
        watermark_ms=1_388_500_000_000,
        lag_ms=4_300,
        state_bytes=56 * MIB,
        slots=(slot(0), slot(1, memory=SLOT_MEMORY)),
        checkpoints_completed=40,
        last_checkpoint=checkpoint(40),
        progress=(
            documents.Progress(
                kind=documents.LongWorkKind.SAVEPOINT,
                name="before-upgrade",
                since_ms=NOW_MS,
                done_bytes=30 * MIB,
                total_bytes=56 * MIB,
                left_ms=12_000,
            ),
        ),
        recoveries=(
            documents.Recovery(
                at_ms=NOW_MS + POINTS * 2500,
                cause="SlotLost: slot 1 (pid 4001) is gone",
                restored_from="s3://bucket/jobs/chk-19",
                duration_ms=38_000,
                incarnation=3,
            ),
        ),
        restarts=1,
        user_metrics=(
            documents.UserMetric(operator="rotation", name="returned", kind="counter", count=4_101),
            documents.UserMetric(
                operator="rotation", name="delay", kind="distribution", count=9, sum=90, least=2, largest=31
            ),
            *extra,
        ),
        sinks=("rotation", "rotation-late", "alerts"),
    )
    made = InMemoryJob(status)
    made.history = [checkpoint(number) for number in range(1, 41)]
    made.drawn = graph()
    made.points = points()
    made.logs = {
        "driver": (
            "lineage 00aa11bb at s3://bucket/jobs",
            "the slots have started, 4.1 s after the driver began",
        ),
        "slot-0": tuple(f"line {number} of slot 0" for number in range(200)),
        "slot-1": (),
    }
    return made
