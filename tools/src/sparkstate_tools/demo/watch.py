"""Watches a running job: samples for the plots, a line of progress now and then, and what happened when."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from sparkstate_tools.demo.job_process import JobProcess

SAMPLE_INTERVAL_S = 0.4
PROGRESS_INTERVAL_S = 4.0


@dataclass(frozen=True)
class Sample:
    """One look at the job."""

    t_ms: int
    run: str
    phase: str
    epoch: int
    watermark_ms: int | None
    rows_per_s: float
    state_bytes: int
    released: int
    """Files that the job could see."""


@dataclass(frozen=True)
class Event:
    """Something worth a mark in the plots and a line on the screen."""

    t_ms: int
    kind: str
    text: str


@dataclass
class Story:
    """All that was seen, in the order of time."""

    begun_ms: int
    samples: list[Sample] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    checkpoints: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    """By run and number: the newest document of each checkpoint and savepoint."""

    def tell(self, text: str, kind: str = "note") -> None:
        """A line on the screen, kept as an event."""
        now_ms = wall_ms()
        self.events.append(Event(now_ms, kind, text))
        print(f"[{(now_ms - self.begun_ms) / 1000:6.1f} s] {text}", flush=True)


def wall_ms() -> int:
    """Milliseconds since the Unix epoch, the clock of the phase log."""
    return time.time_ns() // 1_000_000


class Watcher:
    """Looks at a job from a thread of its own until it is stopped."""

    def __init__(self, story: Story, run: str, job: JobProcess, released: Any) -> None:
        self._story = story
        self._run = run
        self._job = job
        self._released = released
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._told = 0.0
        self._completed = -1

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Take one sample now; a job that does not answer leaves a gap."""
        status = self._job.status()
        if status is None:
            return
        if status["checkpoints_completed"] != self._completed:
            self._completed = status["checkpoints_completed"]
            for document in self._job.request("GET", "/v1/checkpoints") or ():
                self._story.checkpoints[self._run, document["id"]] = document
        sample = Sample(
            t_ms=wall_ms(),
            run=self._run,
            phase=status["phase"],
            epoch=-1 if status["epoch"] is None else status["epoch"],
            watermark_ms=status["watermark_ms"],
            rows_per_s=status["rows_per_s"],
            state_bytes=status["state_bytes"],
            released=self._released(),
        )
        self._story.samples.append(sample)
        if time.monotonic() - self._told >= PROGRESS_INTERVAL_S:
            self._told = time.monotonic()
            self._story.tell(progress_line(sample, status), "progress")


def progress_line(sample: Sample, status: dict[str, Any]) -> str:
    """``run 1  RUNNING  epoch 41  2,806 rows/s  state 1.2 MB  checkpoint 7 (epoch 38)``."""
    last = status["last_checkpoint"]
    checkpoint = f"checkpoint {last['id']} (epoch {last['epoch']})" if last else "no checkpoint yet"
    return (
        f"{sample.run}  {sample.phase:<10} epoch {sample.epoch:>3}  {sample.released} files released  "
        f"{sample.rows_per_s:>7,.0f} rows/s  state {sample.state_bytes / 1e6:.1f} MB  {checkpoint}"
    )
