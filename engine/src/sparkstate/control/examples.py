"""Example answers for the OpenAPI document, checked against their models by a test."""

from __future__ import annotations

from typing import Any, Final

from sparkstate.control import documents, picture

_CHECKPOINT: Final = documents.CheckpointInfo(
    id=41,
    status=documents.CheckpointStatus.COMPLETED,
    epoch=1203,
    trigger_ms=1_789_000_000_000,
    duration_ms=840,
    sync_pause_ms=12,
    state_bytes=52_428_800,
    uploaded_bytes=1_310_720,
    path="s3://checkpoints/rotations/chk-41",
)
JOB_STATUS: Final = documents.JobStatus(
    job_uid="6f1d2c1e",
    name="rotations",
    lineage="l-20260910-1",
    incarnation=3,
    phase=documents.DriverPhase.RUNNING,
    backend="rocksdb",
    epoch=1210,
    rows_total=336_776,
    rows_per_s=2150.5,
    watermark_ms=1_388_500_000_000,
    lag_ms=4_000,
    state_bytes=52_500_000,
    slots=(
        documents.SlotStatus(
            index=0,
            pid=4711,
            host="worker-1",
            shards=(0, 1, 2, 3),
            state_bytes=52_500_000,
            rows=81_300,
            memory=documents.SlotMemory(
                budget=268_435_456,
                cache=91_000_000,
                write_buffers=33_000_000,
                operator_state=4_200,
                operator_state_limit=33_554_432,
            ),
            operator_states=(
                documents.OperatorStateSize(
                    operator="judged", state="rules", kind="broadcast", elements=12, size_bytes=4_200
                ),
            ),
            rss_bytes=310_000_000,
        ),
    ),
    last_checkpoint=_CHECKPOINT,
    checkpoints_completed=41,
    restarts=1,
    recoveries=(
        documents.Recovery(
            at_ms=1_788_999_000_000,
            cause="SlotLost: slot 0 (pid 4502) is gone",
            restored_from="s3://checkpoints/rotations/chk-38",
            duration_ms=2_900,
            incarnation=3,
        ),
    ),
    sinks=("file:///data/rotations",),
)
SAVEPOINT_STATUS: Final = documents.SavepointStatus(
    trigger_id="before-upgrade",
    status=documents.SavepointPhase.COMPLETED,
    location="s3://savepoints/savepoint-6f1d2c-before-upgrade",
    epoch=1203,
)
JOB_GRAPH: Final = picture.JobGraph(
    nodes=(
        picture.GraphNode(
            id="source:0", kind=picture.NodeKind.SOURCE, name="kafka", detail="event time departed"
        ),
        picture.GraphNode(
            id="operator:rotation",
            kind=picture.NodeKind.OPERATOR,
            name="rotation",
            detail="Rotation by tailnum",
            figures=picture.OperatorFigures(
                rows_in_total=336_776,
                rows_in_per_s=2150.5,
                rows_out_total=336_776,
                rows_out_per_s=2150.5,
                late_rows_total=12,
                busy_share=0.31,
                state_rows=81_300,
                state_bytes=52_500_000,
                timers=4_044,
            ),
        ),
        picture.GraphNode(
            id="sink:rotation", kind=picture.NodeKind.SINK, name="rotation", detail="parquet files in /data"
        ),
    ),
    edges=(
        picture.GraphEdge(
            source="source:0", target="operator:rotation", rows_total=336_776, rows_per_s=2150.5
        ),
        picture.GraphEdge(
            source="operator:rotation", target="sink:rotation", rows_total=336_776, rows_per_s=2150.5
        ),
    ),
)
KEY: Final = documents.KeyState(
    operator="rotation", state="delay", kind="value", key="N14228", value=117, epoch=1210
)


def _ok(example: documents.Document) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {"application/json": {"example": example.model_dump(mode="json")}}}}


STATUS: Final = _ok(JOB_STATUS)
GRAPH: Final = _ok(JOB_GRAPH)
SAVEPOINT: Final = _ok(SAVEPOINT_STATUS)
KEY_STATE: Final = _ok(KEY)
