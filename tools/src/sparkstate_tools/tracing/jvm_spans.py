"""The work of Spark's JVM as spans, from Spark's event log: micro-batches, the jobs in them, the tasks of the jobs.

Spark counts the processor time of a task's own thread. The thread that writes a task's rows to a Python worker, the
planning of a query, the compiler and the collector of garbage are in no task, so the spans have less processor time
than the process.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

_BATCH: Final = "streaming.sql.batchId"
_PROGRESS: Final = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
_PLACE: Final = re.compile(r" at (?:.*/)?([^/:]+):\d+$")
_NS: Final = 1e9
TRACKS: Final = ("micro-batches", "jobs", "tasks")
"""The levels of Spark's work: a micro-batch has jobs, a job has tasks."""


def settings(folder: Path) -> dict[str, str]:
    """Those with which Spark writes its event log into an existing folder, as one file of text."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


@dataclass(frozen=True)
class JvmSpan:
    """Times in ms since the Unix epoch."""

    track: str
    """One of ``TRACKS``."""
    name: str
    begin: float
    end: float
    epoch: int | None = None
    """The micro-batch that it belongs to; None: none, as of a job that writes a sink's files beside the next one."""
    cpu_s: float | None = None
    """Processor time of the threads of its tasks; None: unknown."""
    told: Mapping[str, float] = field(default_factory=dict)
    """Further times that Spark tells of it, in ms, by name."""
    lane: int = 0
    """Spans of a track that overlap have different ones."""


def read(folder: Path) -> list[JvmSpan]:
    """The spans in the event log that a folder holds, once Spark has ended. Raises
    ``FileNotFoundError`` if it holds none."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise FileNotFoundError(f"Spark wrote no event log into {folder}")
    with files[-1].open(encoding="utf-8") as lines:
        return spans(json.loads(line) for line in lines)


def spans(events: Iterable[Mapping[str, Any]]) -> list[JvmSpan]:
    """The spans of all events, in the order of their begins. Jobs that did not end are left out."""
    begun: dict[int, JvmSpan] = {}
    job_of_stage: dict[int, int] = {}
    found: list[JvmSpan] = []
    tasks: dict[int, list[JvmSpan]] = defaultdict(list)
    for event in events:
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            begun[event["Job ID"]] = _job(event)
            job_of_stage |= dict.fromkeys(event["Stage IDs"], event["Job ID"])
        elif kind == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            number = job_of_stage[event["Stage ID"]]
            tasks[number].append(_task(event, begun[number]))
        elif kind == "SparkListenerJobEnd":
            number = event["Job ID"]
            cpu_s = sum(task.cpu_s or 0.0 for task in tasks[number])
            found.append(replace(begun[number], end=event["Completion Time"], cpu_s=cpu_s))
        elif kind == _PROGRESS:
            found.append(_micro_batch(event["progress"]))
    found += [task for of_job in tasks.values() for task in of_job]
    return _in_lanes(found)


def _job(event: Mapping[str, Any]) -> JvmSpan:
    last = max(event["Stage Infos"], key=lambda stage: int(stage["Stage ID"]))
    batch = event.get("Properties", {}).get(_BATCH)
    name = _PLACE.sub(r" at \1", last["Stage Name"])
    begin = event["Submission Time"]
    return JvmSpan("jobs", name, begin, begin, None if batch is None else int(batch))


def _task(event: Mapping[str, Any], job: JvmSpan) -> JvmSpan:
    info, metrics = event["Task Info"], event["Task Metrics"]
    cpu_s = (metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]) / _NS
    told = {"gc_ms": metrics["JVM GC Time"], "run_ms": metrics["Executor Run Time"]}
    return JvmSpan("tasks", job.name, info["Launch Time"], info["Finish Time"], job.epoch, cpu_s, told)


def _micro_batch(progress: Mapping[str, Any]) -> JvmSpan:
    begin = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
    steps = dict(progress["durationMs"])
    whole = steps.pop("triggerExecution", 0)
    return JvmSpan("micro-batches", "micro-batch", begin, begin + whole, progress["batchId"], None, steps)


def _in_lanes(found: Sequence[JvmSpan]) -> list[JvmSpan]:
    """Each span in the first lane of its track that is free."""
    ends: dict[str, list[float]] = defaultdict(list)
    placed = []
    for span in sorted(found, key=lambda each: (each.begin, -each.end)):
        lanes = ends[span.track]
        lane = next((number for number, end in enumerate(lanes) if end <= span.begin), len(lanes))
        lanes[lane : lane + 1] = [span.end]
        placed.append(replace(span, lane=lane))
    return placed


def text(found: Sequence[JvmSpan], begin: float, end: float, epochs: int) -> list[str]:
    """A table of the spans between two moments, which contain so many ``epochs``: a line for micro-batches and each of
    their steps, for each kind of job and for its tasks, with their number and their times in a mean epoch."""
    groups: dict[tuple[str, str], list[JvmSpan]] = defaultdict(list)
    for span in found:
        if begin <= span.begin and span.end <= end:
            groups[span.name, span.track].append(span)
    lines = [f"{'in the JVM, for each epoch':<50}{'number':>9}{'ms':>9}{'CPU ms':>9}{'GC ms':>9}"]
    for (name, track), members in sorted(groups.items(), key=_place):
        told: dict[str, float] = defaultdict(float)
        for member in members:
            for what, took in member.told.items():
                told[what] += took / epochs
        is_tasks, is_batch = track == "tasks", track == "micro-batches"
        cpu = sum(member.cpu_s or 0.0 for member in members) * 1000 / epochs
        times = "" if is_batch else f"{cpu:>9.1f}" + (f"{told['gc_ms']:>9.1f}" if is_tasks else "")
        took = sum(member.end - member.begin for member in members) / epochs
        shown = name if is_batch else f"{track} of {name}"
        lines.append(f"{shown:<50}{len(members) / epochs:>9.1f}{took:>9.1f}{times}")
        if is_batch:
            steps = sorted(told.items(), key=lambda item: -item[1])
            lines += [f"  {step:<48}{'':>9}{took:>9.1f}" for step, took in steps]
    return lines if groups else []


def _place(group: tuple[tuple[str, str], Sequence[JvmSpan]]) -> tuple[bool, str, int]:
    (name, track), _ = group
    return track != TRACKS[0], name, TRACKS.index(track)
