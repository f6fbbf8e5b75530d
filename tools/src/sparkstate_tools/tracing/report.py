"""The trace of a run: phases as spans, processor time as counters, and a report on idle processors.

Chrome's trace format, which https://ui.perfetto.dev and ``chrome://tracing`` open. Each process has its phases and the
processors that it keeps busy. The report has a line for each combination of phases of the driver: its share of the
time, the processors that were busy and idle, and for how long threads that were ready waited for a processor. Two
more parts are about the time in which a processor was idle: the driver's phases, and what the threads waited for.
"""

from __future__ import annotations

import bisect
import gzip
import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkstate_tools.tracing.sampling import Sample
from sparkstate_tools.tracing.waiting import PLACES

KINDS = ("driver", "jvm", "workers", "slots")
"""Kinds of processes, in the order of the report."""
FRONT = ("epoch-begin", "feed")
"""Phases of the driver that run in Spark's callback; the others run beside the next epoch's."""


@dataclass(frozen=True)
class Span:
    """A phase of a process: times in ms since the Unix epoch."""

    process: str
    pid: int
    phase: str
    epoch: int
    begin: float
    end: float

    @property
    def is_front(self) -> bool:
        """Whether it runs in Spark's callback."""
        return self.phase in FRONT


@dataclass(frozen=True)
class ThreadTimes:
    """Seconds that the threads of all slots have run up to ``t_ms``, by name, in user and in kernel mode."""

    t_ms: float
    run_s: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Run:
    """The records of one run."""

    entries: list[dict[str, Any]]
    samples: list[Sample]
    kinds: dict[int, str]
    """The kind of each process."""
    threads: list[ThreadTimes] = field(default_factory=list)
    """Those of the slots, looked at less often than the samples."""


def spans(entries: Sequence[dict[str, Any]]) -> list[Span]:
    """The phases of all processes, each up to the next one of its process. The driver has two tracks, because the end
    of an epoch runs beside the begin of the next one."""
    tracks: dict[tuple[str, int, bool], list[dict[str, Any]]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: entry["t_ms"]):
        front = entry["process"] == "driver" and entry["phase"] in FRONT
        tracks[entry["process"], entry["pid"], front].append(entry)
    made = []
    for (process, pid, front), track in list(tracks.items()):
        for entry, following in itertools.zip_longest(track, track[1:]):
            ends = [] if following is None else [following["t_ms"]]
            if front and entry["phase"] == "feed":
                ends += _begins(tracks["driver", pid, False], "finish", entry["epoch"])
            if process == "driver" and entry["phase"] == "output":
                ends += _begins(tracks["driver", pid, True], "feed", entry["epoch"] + 2)
            end = min(ends, default=entry["t_ms"])
            made.append(Span(process, pid, entry["phase"], entry["epoch"], entry["t_ms"], end))
    return made


def _begins(track: Sequence[dict[str, Any]], phase: str, epoch: int) -> list[float]:
    return [entry["t_ms"] for entry in track if entry["phase"] == phase and entry["epoch"] == epoch]


def events(run: Run) -> list[dict[str, Any]]:
    """The trace's events."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{kind} {pid}"}}
        for pid, kind in run.kinds.items()
    ]
    for span in spans(run.entries):
        used = {
            kind: round(_between(run, span.begin, span.end, kind)[0], 4)
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


def _between(run: Run, begin: float, end: float, kind: str | None = None) -> tuple[float, float]:
    """Seconds of running and of waiting for a processor, of one kind of process or all."""
    times = [sample.t_ms for sample in run.samples]
    first = max(0, bisect.bisect_right(times, begin) - 1)
    last = min(len(times) - 1, bisect.bisect_left(times, end))
    if last <= first:
        return 0.0, 0.0
    one, other = run.samples[first], run.samples[last]
    ran, waited = _used(run, one, other, kind)
    share = min(1.0, (end - begin) / (other.t_ms - one.t_ms))
    return ran * share, waited * share


def _used(run: Run, one: Sample, other: Sample, kind: str | None = None) -> tuple[float, float]:
    """The same between two samples."""
    pids = [pid for pid in one.run_s.keys() & other.run_s.keys() if kind in (None, run.kinds[pid])]
    ran = sum(max(0.0, other.run_s[pid] - one.run_s[pid]) for pid in pids)
    waited = sum(max(0.0, other.wait_s[pid] - one.wait_s[pid]) for pid in pids)
    return ran, waited


def text(run: Run, cores: int, warm_up: int) -> str:
    """The report: one line for each combination of what the driver does."""
    all_spans = [span for span in spans(run.entries) if span.process == "driver"]
    measured = [span for span in all_spans if span.epoch >= warm_up]
    begin, end = min(span.begin for span in measured), max(span.begin for span in measured)
    kinds = [kind for kind in KINDS if kind in set(run.kinds.values())]
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    by_kind: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    idle: dict[str, float] = defaultdict(float)
    for before, after in itertools.pairwise(run.samples):
        if before.t_ms < begin or after.t_ms > end:
            continue
        middle = (before.t_ms + after.t_ms) / 2
        doing = [span for span in all_spans if span.begin <= middle < span.end]
        name = " + ".join(sorted(f"{span.phase}{'' if span.is_front else ' of the last'}" for span in doing))
        name = name or "between two callbacks"
        ran, waited = _used(run, before, after)
        line = totals[name]
        line[0] += (after.t_ms - before.t_ms) / 1000
        line[1] += ran
        line[2] += waited
        idle[name] += sum(after.idle_s) - sum(before.idle_s)
        for kind in kinds:
            by_kind[name][kind] += _used(run, before, after, kind)[0]
    whole = sum(line[0] for line in totals.values())
    head = f"{'the driver is in':<44}{'time':>7}{'busy':>7}{'idle':>7}{'waiting':>9}" + "".join(
        f"{k:>9}" for k in kinds
    )
    lines = [head]
    for name, (seconds, ran, waited) in sorted(totals.items(), key=lambda item: -item[1][0]):
        busy = ran / seconds
        each = "".join(f"{by_kind[name][kind] / seconds:>9.2f}" for kind in kinds)
        lines.append(
            f"{name:<44}{seconds / whole:>7.0%}{busy:>7.2f}{max(0.0, cores - busy):>7.2f}{waited / seconds:>9.2f}{each}"
        )
    within = [sample for sample in run.samples if begin <= sample.t_ms <= end]
    waited = sum(line[2] for line in totals.values()) / whole
    lines.append(_processors(within, sum(line[1] for line in totals.values()) / whole, waited, cores))
    if len(within) > 1 and all(sample.idle_s for sample in within):
        lines.append(_idle(within[0], within[-1], idle))
        lines += _places(run, within)
    looks = [look for look in run.threads if begin <= look.t_ms <= end]
    if len(looks) > 1:
        lines.append(_by_thread(looks[0], looks[-1]))
    return "\n".join(lines)


def _idle(first: Sample, last: Sample, by_phase: Mapping[str, float]) -> str:
    """For what part of the time each processor had nothing to run, in which phases of the driver that was, and in what
    part of it a thread waited for a disk."""
    seconds = (last.t_ms - first.t_ms) / 1000
    idle = [after - before for before, after in zip(first.idle_s, last.idle_s, strict=True)]
    whole = sum(idle) or 1.0
    phases = ", ".join(
        f"{name} {part / whole:.0%}" for name, part in sorted(by_phase.items(), key=lambda item: -item[1])
    )
    each = ", ".join(f"processor {number} {part / seconds:.0%}" for number, part in enumerate(idle))
    disk = (last.disk_s - first.disk_s) / whole
    return (
        f"idle: {each} of the time; the driver was meanwhile in {phases}; "
        f"a thread waited for a disk in {disk:.0%} of it"
    )


def _places(run: Run, samples: Sequence[Sample]) -> list[str]:
    """Where the threads were while a processor was idle: a table with the mean number of threads at each place, in
    which a look counts by the idle time before it. Threads that did not run lately are not in it."""
    means: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    whole = 0.0
    for before, after in itertools.pairwise(samples):
        idle = sum(after.idle_s) - sum(before.idle_s)
        whole += idle
        for pid, places in after.places.items():
            for (thread, place), number in places.items():
                means[_group(run.kinds[pid], thread)][place] += number * idle
    if not means or not whole:
        return []
    groups = sorted(means, key=lambda name: (KINDS.index(name.split(":")[0]), name))
    return [
        f"{'threads while a processor was idle':<44}" + "".join(f"{place:>16}" for place in PLACES),
        *(
            f"{name:<44}" + "".join(f"{means[name][place] / whole:>16.2f}" for place in PLACES)
            for name in groups
        ),
    ]


def _group(kind: str, thread: str) -> str:
    """Tasks and the query of a JVM, and RocksDB's threads of a slot, apart from what else runs in their processes."""
    if kind == "jvm":
        parts = {"Executor task": "jvm: tasks", "stream exec": "jvm: query", "C2 Compiler": "jvm: compiler"}
        return next((name for prefix, name in parts.items() if thread.startswith(prefix)), "jvm: the rest")
    return f"slots: {thread}" if kind == "slots" and thread.startswith("rocksdb:") else kind


def _by_thread(first: ThreadTimes, last: ThreadTimes) -> str:
    """The slots' processor time by thread. RocksDB flushes in ``rocksdb:high`` and merges in ``rocksdb:low``."""
    seconds = (last.t_ms - first.t_ms) / 1000
    used = {
        name: tuple((after - before) / seconds for after, before in zip(times, earlier, strict=True))
        for name, times in last.run_s.items()
        for earlier in [first.run_s.get(name, (0.0, 0.0))]
    }
    told = [
        f"{name} {user + kernel:.2f} ({kernel:.2f} of it in the kernel)"
        for name, (user, kernel) in sorted(used.items(), key=lambda item: -sum(item[1]))
        if user + kernel >= 0.005
    ]
    return f"processors of the slots, by thread: {', '.join(told)}"


def _processors(samples: Sequence[Sample], busy: float, waited: float, cores: int) -> str:
    """The shares of the processors. Without the time of others, theirs look as if the job left them idle."""
    seconds = (samples[-1].t_ms - samples[0].t_ms) / 1000
    stolen = (samples[-1].stolen_s - samples[0].stolen_s) / seconds
    others = max(0.0, (samples[-1].machine_s - samples[0].machine_s) / seconds - busy)
    return (
        f"\nof {cores} processors {busy:.2f} were busy with the job and {others:.2f} with other processes and the "
        f"kernel, {stolen:.2f} were taken by the host, and {max(0.0, cores - busy - others - stolen):.2f} were idle; "
        f"threads that were ready waited {waited:.2f} s in a second for one of them"
    )


def write(run: Run, target: Path) -> None:
    """The trace, for a browser, which opens it compressed."""
    document = json.dumps({"traceEvents": events(run), "displayTimeUnit": "ms"})
    target.write_bytes(gzip.compress(document.encode(), mtime=0))
