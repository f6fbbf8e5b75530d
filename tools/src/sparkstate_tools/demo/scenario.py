"""The demonstration's order of events, from the prepared input to the comparison. One screen per step."""

from __future__ import annotations

import concurrent.futures
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from sparkstate_tools import checkout
from sparkstate_tools.demo import oracle, prepare, recovery
from sparkstate_tools.demo.faults import Saboteur
from sparkstate_tools.demo.job_process import JobProcess, write_manifest
from sparkstate_tools.demo.pacer import Pacer
from sparkstate_tools.demo.phaselog import Holds, PhaseLog
from sparkstate_tools.demo.watch import Story, Watcher, wall_ms

EXAMPLE = checkout.ROOT / "examples" / "01-flight-rotations"
ALLOWED_DELAY = timedelta(hours=1)
"""The watermark's delay in the job."""
Expected = dict[str, Counter[oracle.Record]]
END_OF_INPUT_WATERMARK = 2**63 - 1
START_TIMEOUT_S = 180.0
READ_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Options:
    """The choices on the command line."""

    output: Path
    files: int = 120
    rows: int | None = None
    """Take only the first rows of the table; None: all."""
    interval_s: float = 0.7
    """Time between two files."""
    hours: int = 168
    slots: int = 2
    restored_slots: int = 3
    slot_phase: str = "checkpoint-upload"
    driver_phase: str = "commit"


@dataclass
class Outcome:
    """All that the report needs."""

    options: Options
    story: Story
    rows: int = 0
    disorder: timedelta = timedelta()
    recoveries: list[tuple[recovery.Kill, recovery.Return]] = field(default_factory=list)
    savepoint: dict[str, Any] = field(default_factory=dict)
    comparisons: dict[str, dict[str, oracle.Difference]] = field(default_factory=dict)
    restore_ms: int | None = None
    ended_ms: int = 0
    file_ends: list[tuple[int, int]] = field(default_factory=list)
    """After each file: the largest event time so far (ms) and the number of rows."""

    @property
    def passed(self) -> bool:
        """Two kills survived, and every output of every run equal record for record."""
        differences = [difference for one in self.comparisons.values() for difference in one.values()]
        return len(self.recoveries) == 2 and len(differences) == 6 and all(one.equal for one in differences)


class Demonstration:
    """Carries it out; every step leaves what the next one needs in the outcome or in the output folder."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._folder = options.output
        self._input = self._folder / "input"
        self._story = Story(begun_ms=wall_ms())
        self._outcome = Outcome(options, self._story)
        self._prepared: list[Path] = []

    def run(self) -> Outcome:
        """All of it."""
        self._clear()
        self._prepare()
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="oracle") as pool:
            location, expected = self._first_run(pool)
            self._second_run(location)
            self._compare(expected.result())
        self._outcome.ended_ms = wall_ms()
        return self._outcome

    def _clear(self) -> None:
        for name in ("prepared", "input", "run-1", "run-2"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)

    def _prepare(self) -> None:
        flights = prepare.in_disorder(prepare.read_flights(self._options.rows))
        self._prepared = prepare.write_files(flights, self._folder / "prepared", self._options.files)
        self._outcome.rows = len(flights)
        self._outcome.disorder = prepare.largest_disorder(flights)
        self._outcome.file_ends = prepare.file_ends(flights, self._options.files)
        self._story.tell(
            f"input: {len(flights):,} departures from New York in 2013 in {len(self._prepared)} files; "
            f"rows come up to {self._outcome.disorder} too late (bound: {prepare.DISORDER})"
        )

    def _first_run(
        self, pool: concurrent.futures.Executor
    ) -> tuple[str, concurrent.futures.Future[Expected]]:
        run = self._folder / "run-1"
        log, holds = PhaseLog(run / "phases.jsonl"), Holds(run / "holds")
        job = self._job("run-1", "flight-rotations", {"slots": self._options.slots}, log, holds)
        pacer = Pacer(self._prepared, self._input, self._options.interval_s)
        saboteur = Saboteur(job, log, holds, self._story)
        job.start()
        self._story.tell(
            f"run 1: sparkstate run, {self._options.slots} slots, RocksDB; kills with kill -9 to come"
        )
        try:
            with Watcher(self._story, "run 1", job, lambda: pacer.released):
                job.wait_until("the job to be up", lambda: is_running(job), START_TIMEOUT_S)
                pacer.start()
                self._story.tell(f"run 1: up; a file every {self._options.interval_s} s from now on")
                self._kill(saboteur, "slot-1", self._options.slot_phase)
                location = self._take_savepoint(job)
                self._wait_for(job, "two thirds of the input", self._options.files * 2 // 3)
                self._kill(saboteur, "driver", self._options.driver_phase)
                expected = pool.submit(oracle.expected, self._prepared, self._options.hours)
                self._wait_for(job, "the end of the input", self._options.files)
                self._story.tell("run 1: all input read; stop with a savepoint, drained (watermark +∞)")
                job.request("POST", "/v1/savepoints", json={"trigger_id": "end", "stop": True, "drain": True})
                self._await_end(job, "run 1", STOP_TIMEOUT_S)
        finally:
            pacer.stop()
            job.stop()
        return location, expected

    def _kill(self, saboteur: Saboteur, process: str, phase: str) -> None:
        kill = saboteur.kill(process, phase)
        self._outcome.recoveries.append((kill, saboteur.await_return(kill)))

    def _take_savepoint(self, job: JobProcess) -> str:
        self._wait_for(job, "half of the input", self._options.files // 2)
        job.request("POST", "/v1/savepoints", json={"trigger_id": "half-way"})

        def completed() -> dict[str, Any] | None:
            status: dict[str, Any] | None = job.request("GET", "/v1/savepoints/half-way")
            if status and status["status"] == "FAILED":
                raise RuntimeError(f"the savepoint failed: {status['failure']}")
            return status if status and status["status"] == "COMPLETED" else None

        self._outcome.savepoint = job.wait_until("the savepoint half-way", completed, 60)
        location = str(self._outcome.savepoint["location"])
        self._story.tell(
            f"savepoint of epoch {self._outcome.savepoint['epoch']} taken half-way: {location}", "savepoint"
        )
        return location

    def _wait_for(self, job: JobProcess, what: str, files: int) -> None:
        job.wait_until(what, lambda: self._has_read(job, files), READ_TIMEOUT_S)

    def _has_read(self, job: JobProcess, files: int) -> bool:
        """The watermark has come as far as it does with that many files."""
        status = job.status()
        end_ms = self._outcome.file_ends[files - 1][0] - ALLOWED_DELAY // timedelta(milliseconds=1) - 1
        return status is not None and (status["watermark_ms"] or 0) >= end_ms

    def _second_run(self, location: str) -> None:
        changes = {
            "slots": self._options.restored_slots,
            "restoreFrom": {"uri": location},
            "trigger": {"availableNow": True},
        }
        log = PhaseLog(self._folder / "run-2" / "phases.jsonl")
        job = self._job(
            "run-2", "flight-rotations-restored", changes, log, Holds(self._folder / "run-2" / "holds")
        )
        begun_ms = wall_ms()
        job.start()
        self._story.tell(
            f"run 2: restored from the savepoint of epoch {self._outcome.savepoint['epoch']} with "
            f"{self._options.restored_slots} slots instead of {self._options.slots}, into a folder of its own"
        )
        try:
            with Watcher(self._story, "run 2", job, lambda: self._options.files):
                first = job.wait_until(
                    "the first epoch of run 2", lambda: recovery.first_commit(log.entries()), START_TIMEOUT_S
                )
                self._outcome.restore_ms = first.t_ms - begun_ms
                self._story.tell(
                    f"run 2: first epoch ({first.epoch}) committed {self._outcome.restore_ms / 1000:.1f} s "
                    "after the start",
                    "recovery",
                )
                # Bounded: it works through what is there and ends by itself, with the same watermark +∞.
                self._await_end(job, "run 2", READ_TIMEOUT_S)
        finally:
            job.stop()

    def _await_end(self, job: JobProcess, run: str, timeout_s: float) -> None:
        code = job.wait(timeout_s)
        self._story.tell(f"{run}: ended with exit code {code}", "end")
        if code != 0:
            raise RuntimeError(f"{run} ended with exit code {code}\n{job.last_words()}")

    def _job(self, run: str, name: str, changes: dict[str, Any], log: PhaseLog, holds: Holds) -> JobProcess:
        folder = self._folder / run
        params = {
            "input": str(self._input),
            "output": str(folder / "output"),
            "hours": str(self._options.hours),
        }
        storage = {"storage": (folder / "state").as_uri()}
        manifest = write_manifest(
            EXAMPLE / "job.yaml",
            folder / "job.yaml",
            name,
            {"params": params, "checkpointing": storage, **changes},
        )
        environment = {"SPARKSTATE_PHASE_LOG": str(log.path), "SPARKSTATE_HOLD_DIR": str(holds.folder)}
        return JobProcess(manifest, folder / "work", environment)

    def _compare(self, expected: Expected) -> None:
        last_epoch = int(self._outcome.savepoint["epoch"])
        for run in ("run 1", "run 2"):
            self._outcome.comparisons[run] = {}
            for output, columns in oracle.COLUMNS.items():
                files = oracle.committed_files(self._folder / "run-1" / "output" / output)
                if run == "run 2":
                    files = oracle.committed_files(self._folder / "run-1" / "output" / output, last_epoch)
                    files += oracle.committed_files(self._folder / "run-2" / "output" / output)
                difference = oracle.compare(expected[output], oracle.written(files, columns))
                self._outcome.comparisons[run][output] = difference
                self._story.tell(f"{run}, {output}: {difference.describe()}", "verdict")


def is_running(job: JobProcess) -> bool:
    """Whether it says so."""
    status = job.status()
    return status is not None and status["phase"] == "RUNNING"
