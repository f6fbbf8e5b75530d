"""Spans of Spark's JVM: the event log becomes micro-batches, jobs and tasks, in lanes, and a table of a mean epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkstate_tools.tracing import jvm_spans, runs, trace_events
from sparkstate_tools.tracing.sampling import Sample

COLLECT = "collect at sparkstate/spark/feeding.py:177"


def job(number: int, begin: int, stages: dict[int, str], batch: int | None) -> dict[str, Any]:
    infos = [{"Stage ID": stage, "Stage Name": name} for stage, name in stages.items()]
    properties = {} if batch is None else {"streaming.sql.batchId": str(batch)}
    return {
        "Event": "SparkListenerJobStart",
        "Job ID": number,
        "Submission Time": begin,
        "Stage Infos": infos,
        "Stage IDs": list(stages),
        "Properties": properties,
    }


def task(stage: int, begin: int, end: int, cpu_ms: int) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Info": {"Launch Time": begin, "Finish Time": end},
        "Task Metrics": {
            "Executor CPU Time": cpu_ms * 1_000_000,
            "Executor Deserialize CPU Time": 1_000_000,
            "JVM GC Time": 3,
            "Executor Run Time": end - begin - 1,
        },
    }


def events() -> list[dict[str, Any]]:
    """A micro-batch of 100 ms from second 1 on. Its job has two tasks side by side, and a sink's job has one."""
    progress = {
        "timestamp": "1970-01-01T00:00:01.000Z",
        "batchId": 5,
        "durationMs": {"triggerExecution": 100, "addBatch": 70, "queryPlanning": 20},
    }
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        job(0, 1010, {0: "a shuffle", 1: COLLECT}, 5),
        job(1, 1015, {2: "save at NativeMethodAccessorImpl.java:0"}, None),
        task(1, 1020, 1060, 30),
        task(1, 1025, 1050, 20),
        task(2, 1055, 1075, 4),
        {"Event": "SparkListenerJobEnd", "Job ID": 0, "Completion Time": 1065},
        {"Event": "SparkListenerJobEnd", "Job ID": 1, "Completion Time": 1080},
        job(2, 1090, {3: COLLECT}, 6),
        {
            "Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
            "progress": progress,
        },
    ]


def test_jobs_have_the_processor_time_of_their_tasks() -> None:
    jobs = [span for span in jvm_spans.spans(events()) if span.track == "jobs"]
    assert [(each.name, each.begin, each.end, each.epoch) for each in jobs] == [
        ("collect at feeding.py", 1010, 1065, 5),
        ("save at NativeMethodAccessorImpl.java", 1015, 1080, None),
    ], "the job that did not end is left out"
    assert [each.cpu_s for each in jobs] == pytest.approx([0.052, 0.005])


def test_a_micro_batch_tells_its_steps() -> None:
    (batch,) = (span for span in jvm_spans.spans(events()) if span.track == "micro-batches")
    assert (batch.begin, batch.end, batch.epoch, batch.cpu_s) == (1000, 1100, 5, None)
    assert batch.told == {"addBatch": 70, "queryPlanning": 20}


def test_spans_that_overlap_are_in_different_lanes() -> None:
    tasks = [span for span in jvm_spans.spans(events()) if span.track == "tasks"]
    assert [(each.begin, each.end, each.lane) for each in tasks] == [
        (1020, 1060, 0),
        (1025, 1050, 1),
        (1055, 1075, 1),
    ]


def test_the_table_has_the_times_of_a_mean_epoch() -> None:
    told = jvm_spans.text(jvm_spans.spans(events()), 1000, 2000, 2)
    assert [line.split() for line in told] == [
        ["in", "the", "JVM,", "for", "each", "epoch", "number", "ms", "CPU", "ms", "GC", "ms"],
        ["micro-batch", "0.5", "50.0"],
        ["addBatch", "35.0"],
        ["queryPlanning", "10.0"],
        ["jobs", "of", "collect", "at", "feeding.py", "0.5", "27.5", "26.0"],
        ["tasks", "of", "collect", "at", "feeding.py", "1.0", "32.5", "26.0", "3.0"],
        ["jobs", "of", "save", "at", "NativeMethodAccessorImpl.java", "0.5", "32.5", "2.5"],
        ["tasks", "of", "save", "at", "NativeMethodAccessorImpl.java", "0.5", "10.0", "2.5", "1.5"],
    ]
    assert jvm_spans.text(jvm_spans.spans(events()), 5000, 6000, 2) == [], (
        "nothing of it is between these moments"
    )


def test_the_trace_has_them_on_threads_of_the_jvm() -> None:
    samples = [Sample(float(t), {2: t / 1000}, {2: 0.0}, 0.0, 0.0, (), 0.0) for t in range(1000, 1200, 20)]
    made = trace_events.events(runs.Run([], samples, {2: "jvm"}, jvm=jvm_spans.spans(events())))
    threads = {e["tid"]: e["args"]["name"] for e in made if e["name"] == "thread_name"}
    shown = {(threads[e["tid"]], e["name"]): e for e in made if e["ph"] == "X"}
    batch = shown["micro-batches", "micro-batch 5"]
    assert (batch["pid"], batch["ts"], batch["dur"]) == (2, 1_000_000, 100_000)
    assert batch["args"] == {"epoch": 5, "cpu_s": {"jvm": 0.1}, "addBatch": 70, "queryPlanning": 20}
    assert shown["jobs", "collect at feeding.py 5"]["args"]["cpu_s"] == {"tasks": 0.052}
    assert ("tasks", "save at NativeMethodAccessorImpl.java") in shown


def test_a_folder_without_an_event_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        jvm_spans.read(tmp_path)
    (tmp_path / "local-1").write_text("\n".join(json.dumps(event) for event in events()))
    assert jvm_spans.read(tmp_path) == jvm_spans.spans(events())
