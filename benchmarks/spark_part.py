"""Spark's part of an epoch: its jobs, stages and tasks, Python's calls of its JVM, what it plans, and what it writes.

    python benchmarks/spark_part.py                            120 epochs of 1,000 rows, each way once
    python benchmarks/spark_part.py --rows 1200000 --epochs 16 processor time per row
    python benchmarks/spark_part.py --only function --epochs 300

Ways: ``identity`` is Spark alone, as in ``make bench``. ``function`` is our job with HashMap and a sink function that
reads the output, ``files`` the same with a ``FileSink``. Counts and times come from Spark's event log, calls from
Python's side of py4j. All are averages of the epochs after the first ones. Counts do not depend on how busy the machine
is; times do. Epochs follow one another, so the end of one runs beside the beginning of the next.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import contenders
import counted_job
import cpu
import data
import machine
import ours
from pyspark import cloudpickle

from sparkstate_tools.tracing import jvm_calls
from sparkstate_tools.tracing.runs import KINDS

WAYS = ("identity", "function", "files")
KEYS, SLOTS = 50_000, 2
WARM_UP_S = 8.0
"""Epochs that begin earlier than this after the first one are not counted, nor the first third of all."""
JOB_START, STAGE, TASK = "SparkListenerJobStart", "SparkListenerStageCompleted", "SparkListenerTaskEnd"
EXECUTION = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
STEPS = (
    "triggerExecution",
    "latestOffset",
    "walCommit",
    "getBatch",
    "queryPlanning",
    "addBatch",
    "commitOffsets",
)
"""Steps of a micro-batch, as Spark's progress names them; the first is the whole."""
RUNNING = ("collectToPython", "save", "awaitTermination")
"""Methods that wait for a job of Spark, or for the end of the query."""


@dataclass(frozen=True)
class Window:
    """The epochs that count: their times as Unix time in ms, and how many there are."""

    begin: float
    end: float
    epochs: int

    def has(self, t_ms: float) -> bool:
        """Whether it was in one of them."""
        return self.begin <= t_ms < self.end


def settings(scratch: Path) -> dict[str, str]:
    """Spark's settings for a log of its events in one file."""
    (scratch / "events").mkdir(parents=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{scratch / 'events'}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def start(way: str, folder: Path, scratch: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Start one way; its process, and where slots write their phases."""
    conf = settings(scratch)
    if way == "identity":
        submit = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": shlex.join([*submit, "pyspark-shell"])}
        command = [sys.executable, __file__, "--identity", str(folder), str(scratch)]
        with (scratch / "driver.log").open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        return process, scratch / "phases.jsonl"
    paths = {name: str(scratch / name) for name in ("calls", "compilations")}
    if way == "files":
        paths["output"] = str(scratch / "out")
    document = ours.manifest(ours.Setup("hashmap"), folder, SLOTS, scratch, **paths)
    document["spec"] |= {"pythonFile": str(Path(counted_job.__file__)), "sparkConf": conf}
    return ours.start(document, scratch)


def identity(folder: str, scratch: Path) -> None:
    """Spark's identity with its calls written down, in a process of its own."""
    cloudpickle.register_pickle_by_value(contenders)  # as in ``make bench``, where it is the main module
    spark = contenders.session("identity", SLOTS)
    counted_job.watch(spark, scratch / "calls", scratch / "compilations")
    rows = spark.readStream.schema(contenders.SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)

    def each(frame: Any, _: int) -> None:
        contenders.identity(frame, SLOTS).write.format("noop").mode("overwrite").save()

    writer = rows.writeStream.foreachBatch(each).trigger(availableNow=True)
    writer.option("checkpointLocation", str(scratch / "query")).start().awaitTermination()
    spark.stop()


def measure(way: str, folder: Path, rows: int, scratch: Path) -> dict[str, float]:
    """The figures of one run of one way."""
    scratch.mkdir(parents=True)
    process, log = start(way, folder, scratch)
    phases = ours.Phases(log)
    used: list[tuple[float, dict[str, float]]] = []
    deadline = time.monotonic() + ours.LIMIT_S
    try:
        while process.poll() is None and time.monotonic() < deadline:
            phases.new()
            used.append((time.time() * 1000, cpu.used(process.pid, phases.slots)))
            time.sleep(0.05)
    finally:
        ours.stop(process)
    if process.returncode != 0:
        raise SystemExit((scratch / "driver.log").read_text(errors="replace")[-3000:])
    (path,) = (path for path in (scratch / "events").iterdir() if not path.name.startswith("."))
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    window = counted(events)
    return {
        **of_events(events, window),
        **of_calls(jvm_calls.read(scratch / "calls"), window),
        "compilations": compiled(scratch / "compilations", window),
        **of_processors(used, window, rows),
    }


def progress(events: Sequence[Mapping[str, Any]]) -> dict[int, tuple[float, Mapping[str, float]]]:
    """By epoch: when it began, and the ms of each step."""
    told = [event["progress"] for event in events if event["Event"] == PROGRESS]
    return {
        each["batchId"]: (
            datetime.datetime.fromisoformat(each["timestamp"]).timestamp() * 1000,
            each["durationMs"],
        )
        for each in told
        if "addBatch" in each["durationMs"]
    }


def counted(events: Sequence[Mapping[str, Any]]) -> Window:
    """From the first epoch that counts to the begin of the last one."""
    begins = sorted(begin for begin, _ in progress(events).values())
    warm = [begin for begin in begins[len(begins) // 3 :] if begin >= begins[0] + WARM_UP_S * 1000]
    if len(warm) < 4:
        raise SystemExit(f"{len(warm)} epochs are left after {WARM_UP_S:g} s of warm-up; give more --epochs")
    return Window(warm[0], warm[-1], len(warm) - 1)


def of_events(events: Sequence[Mapping[str, Any]], window: Window) -> dict[str, float]:
    """Jobs, stages, tasks, and the steps of a micro-batch, per epoch."""
    jobs = [e for e in events if e["Event"] == JOB_START and window.has(e["Submission Time"])]
    stages = [e for e in events if e["Event"] == STAGE and window.has(e["Stage Info"]["Submission Time"])]
    tasks = [e for e in events if e["Event"] == TASK and window.has(e["Task Info"]["Launch Time"])]
    executions = {e["executionId"]: e["time"] for e in events if e["Event"] == EXECUTION}
    prepared = [
        job["Submission Time"] - executions[int(job["Properties"]["spark.sql.execution.id"])]
        for job in jobs
        if int(job["Properties"].get("spark.sql.execution.id", -1)) in executions
    ]
    steps = [step for begin, step in progress(events).values() if window.has(begin)]
    metrics = [task["Task Metrics"] for task in tasks if task.get("Task Metrics")]
    return {
        "jobs": len(jobs) / window.epochs,
        "stages": len(stages) / window.epochs,
        "tasks": len(tasks) / window.epochs,
        "ms from an action to its job, all jobs": sum(prepared) / window.epochs,
        "ms of tasks, deserialising": sum(m["Executor Deserialize Time"] for m in metrics) / window.epochs,
        "ms of tasks, running": sum(m["Executor Run Time"] for m in metrics) / window.epochs,
        **{f"ms of {name}": sum(step.get(name, 0) for step in steps) / len(steps) for name in STEPS},
        "ms from epoch to epoch": (window.end - window.begin) / window.epochs,
    }


def of_calls(calls: Sequence[jvm_calls.Call], window: Window) -> dict[str, float]:
    """Calls of the JVM per epoch, those of each kind, and how long Python waited for those that run no job."""
    within = [call for call in calls if window.has(call.begun_s * 1000)]
    waited = [call for call in within if call.kind != jvm_calls.RELEASE]
    kinds = collections.Counter(call.kind for call in within)
    preparing = sum(call.took_s for call in waited if call.name not in RUNNING)
    functions = [call.size for call in waited if call.name.endswith("SimplePythonFunction")]
    return {
        "calls": len(waited) / window.epochs,
        **{f"calls, {kind}": number / window.epochs for kind, number in sorted(kinds.items())},
        "ms of calls that run no job": 1000 * preparing / window.epochs,
        "pickled functions": len(functions) / window.epochs,
        "bytes of a pickled function": sum(functions) / max(1, len(functions)) * 3 / 4,
    }


def compiled(path: Path, window: Window) -> float:
    """Compilations of generated code per epoch."""
    looks = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    within = [count for t_s, count in looks if window.has(t_s * 1000)]
    return (within[-1] - within[0]) / window.epochs if within else float("nan")


def of_processors(
    used: Sequence[tuple[float, dict[str, float]]], window: Window, rows: int
) -> dict[str, float]:
    """Processor time per row by kind of process, in µs."""
    within = [each for t_ms, each in used if window.has(t_ms)]
    spent = cpu.between(within[0], within[-1])
    return {f"cpu µs a row, {kind}": spent[kind] / (window.epochs * rows) * 1e6 for kind in KINDS}


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """As Markdown, with a column for each way."""
    lines = ["| per epoch | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for name in dict.fromkeys(name for figures in found.values() for name in figures):
        cells = [f"{figures[name]:,.3g}" if name in figures else "" for figures in found.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run each way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000, help="rows an epoch (default 1,000)")
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    described = machine.description(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="sparkstate-part-", ignore_cleanup_errors=True) as name:
        folder = data.make(Path(name, "in"), options.rows, options.epochs, KEYS)
        found = {way: measure(way, folder, options.rows, Path(name, way)) for way in options.only}
    print(f"{shlex.join(['python', 'benchmarks/spark_part.py', *sys.argv[1:]])}")
    print("\n".join(f"{word}: {told}" for word, told in described.items() if word != "command"))
    print(f"\n{table(found)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--identity"]:
        identity(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
