"""The records of one run of a job, and its phases as spans."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkstate_tools.tracing.jvm_spans import JvmSpan
from sparkstate_tools.tracing.sampling import Sample

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
    jvm: list[JvmSpan] = field(default_factory=list)
    """The spans of Spark's event log."""


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


def between(run: Run, begin: float, end: float, kind: str | None = None) -> tuple[float, float]:
    """Seconds of running and of waiting for a processor, of one kind of process or all."""
    times = [sample.t_ms for sample in run.samples]
    first = max(0, bisect.bisect_right(times, begin) - 1)
    last = min(len(times) - 1, bisect.bisect_left(times, end))
    if last <= first:
        return 0.0, 0.0
    one, other = run.samples[first], run.samples[last]
    ran, waited = used(run, one, other, kind)
    share = min(1.0, (end - begin) / (other.t_ms - one.t_ms))
    return ran * share, waited * share


def used(run: Run, one: Sample, other: Sample, kind: str | None = None) -> tuple[float, float]:
    """The same between two samples."""
    pids = [pid for pid in one.run_s.keys() & other.run_s.keys() if kind in (None, run.kinds[pid])]
    ran = sum(max(0.0, other.run_s[pid] - one.run_s[pid]) for pid in pids)
    waited = sum(max(0.0, other.wait_s[pid] - one.wait_s[pid]) for pid in pids)
    return ran, waited
