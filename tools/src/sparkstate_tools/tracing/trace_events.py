"""The trace of a run for a browser: phases as spans, processor time as counters.

Chrome's trace format, which https://ui.perfetto.dev and ``chrome://tracing`` open. Each process has its phases and the
processors that it keeps busy. Spark's JVM has micro-batches, jobs and tasks (``jvm_spans``).
"""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

from sparkstate_tools.tracing import jvm_spans
from sparkstate_tools.tracing.jvm_spans import JvmSpan
from sparkstate_tools.tracing.runs import Run, between, spans


def events(run: Run) -> list[dict[str, Any]]:
    """The trace's events."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{kind} {pid}"}}
        for pid, kind in run.kinds.items()
    ]
    for span in spans(run.entries):
        used = {
            kind: round(between(run, span.begin, span.end, kind)[0], 4)
            for kind in sorted(set(run.kinds.values()))
        }
        found.append(
            {
                "ph": "X",
                "name": f"{span.phase} {span.epoch}",
                "cat": span.process,
                "pid": span.pid,
                "tid": 1 if span.is_front or span.process != "driver" else 2,
                "ts": span.begin * 1000,
                "dur": max(0.0, span.end - span.begin) * 1000,
                "args": {"epoch": span.epoch, "cpu_s": used},
            }
        )
    found += _jvm_events(run)
    for before, after in itertools.pairwise(run.samples):
        seconds = (after.t_ms - before.t_ms) / 1000
        for pid in after.run_s.keys() & before.run_s.keys():
            busy = max(0.0, after.run_s[pid] - before.run_s[pid]) / seconds
            found.append(
                {
                    "ph": "C",
                    "name": "processors",
                    "pid": pid,
                    "ts": before.t_ms * 1000,
                    "args": {"busy": round(busy, 3)},
                }
            )
    return found


def _jvm_events(run: Run) -> list[dict[str, Any]]:
    """The spans of Spark's JVM, on a thread for each track and lane. Without executors of their own, a job has one JVM
    that runs tasks, the driver's, which is the first that was seen."""
    pid = next((pid for pid, kind in run.kinds.items() if kind == "jvm"), None)
    if pid is None:
        return []
    lanes = sorted({(jvm_spans.TRACKS.index(span.track), span.lane) for span in run.jvm})
    thread_of = {lane: number for number, lane in enumerate(lanes, 1)}
    named: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": pid,
            "tid": number,
            "args": {"name": jvm_spans.TRACKS[track]},
        }
        for (track, _), number in thread_of.items()
    ]
    return named + [
        {
            "ph": "X",
            "name": span.name if span.epoch is None else f"{span.name} {span.epoch}",
            "cat": span.track,
            "pid": pid,
            "tid": thread_of[jvm_spans.TRACKS.index(span.track), span.lane],
            "ts": span.begin * 1000,
            "dur": (span.end - span.begin) * 1000,
            "args": {"epoch": span.epoch, "cpu_s": _cpu_of(run, span), **span.told},
        }
        for span in run.jvm
    ]


def _cpu_of(run: Run, span: JvmSpan) -> dict[str, float]:
    """That of its tasks' own threads, as Spark counts it. Of a micro-batch: of the whole JVM meanwhile."""
    if span.cpu_s is not None:
        return {"tasks": round(span.cpu_s, 4)}
    return {"jvm": round(between(run, span.begin, span.end, "jvm")[0], 4)}


def write(run: Run, target: Path) -> None:
    """The trace, for a browser, which opens it compressed."""
    document = json.dumps({"traceEvents": events(run), "displayTimeUnit": "ms"})
    target.write_bytes(gzip.compress(document.encode(), mtime=0))
