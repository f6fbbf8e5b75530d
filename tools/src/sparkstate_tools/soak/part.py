"""One part of a soak: it starts the job where the last part stopped, then feeds, breaks, checks and samples it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from sparkstate_tools.demo.job_process import JobProcess, write_manifest
from sparkstate_tools.drivers import driving
from sparkstate_tools.servers import fault_proxy, s3server
from sparkstate_tools.soak import faults, reading, sampling, supply

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

SAMPLE_S = 15.0
STEP_S = 0.5
HEAP_EVERY_S = 30.0
START_S = 300.0
STUCK_S = 600.0
"""No committed epoch for so long, and the soak has failed."""
OUTAGE_S = 6.0
OUTPUT = "output"
JVM_OPTIONS = "-Xms512m -XX:+AlwaysPreTouch -XX:SoftRefLRUPolicyMSPerMB=10"
"""The heap is touched at the start, so that resident memory tells of the rest. Softly referenced objects go within
seconds: by default they stay for a second per free MiB, and the live heap was a sawtooth of ten minutes and 12 MiB."""


@dataclass(frozen=True)
class Options:
    """The settings of a soak, fixed by the first part."""

    backend: str
    seed: int = 1
    keys: int = 2000
    rows: int = 500
    """In each input file, so in each epoch."""
    interval: str = "1s"
    """Of the checkpoints."""


@dataclass(frozen=True)
class Goal:
    """When the soak is over, and when this part is."""

    epochs: int
    checkpoints: int
    minutes: float

    def reached(self, epoch: int, checkpoint: int) -> bool:
        """Whether the whole soak is over."""
        return epoch >= self.epochs and checkpoint >= self.checkpoints


class Part:
    """Use once: :meth:`run`. Everything that it starts it ends, by its process id."""

    def __init__(self, folder: Path, options: Options, goal: Goal, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._options = options
        self._goal = goal
        self._say = say
        self._input = supply.Input(options.seed, options.keys, options.rows)
        self._server = _server(folder)
        self._times = sampling.PhaseTimes(folder / "phases.jsonl")
        self._supply = supply.Supply(self._input, folder / "in", ahead=60, kept=100)
        self._reader = reading.Reader(
            self._input, folder / "s3" / "data" / "state" / OUTPUT, folder / "reader.json", self._delete
        )
        self._epoch = self._checkpoint = 0
        self._logs_read: set[str] = set()
        self._began = time.monotonic()

    def run(self) -> bool:
        """True when the whole soak is over, False when only this part is. Raises where the job failed."""
        _end_leftovers(self._folder)
        self._server.start()
        try:
            with fault_proxy.FaultProxy(self._server.port) as self._proxy:
                self._job = self._start()
                try:
                    return self._follow()
                finally:
                    self._job.stop()
                    self._event("part", seconds=time.monotonic() - self._began)
        finally:
            self._server.stop()

    def _start(self) -> JobProcess:
        spec: dict[str, Any] = {
            "params": {
                "input": str(self._folder / "in"),
                "output": f"s3://state/{OUTPUT}",
                "heap": str(self._folder / "heap"),
                "heap_every_s": str(HEAP_EVERY_S),
            },
            "slots": 2,
            "stateBackend": {"type": self._options.backend},
            "checkpointing": {
                "interval": self._options.interval,
                "storage": "s3://state/jobs",
                "retained": 2,
            },
            "s3": {"endpoint": self._proxy.endpoint, "region": "us-east-1", "pathStyle": True},
            "restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 100_000, "delay": "1s"}},
            "driver": {"memory": "512Mi"},
            # The heap is touched at once, so that growth of the JVM is growth beside the heap.
            "sparkConf": {"spark.driver.extraJavaOptions": JVM_OPTIONS},
        }
        if self._options.backend == "rocksdb":
            spec["managedMemoryPerSlot"] = "64Mi"
        source = self._folder / "source.yaml"
        head = "apiVersion: sparkstate.io/v1alpha1\nkind: StatefulSparkJob\nmetadata: {name: soak}\n"
        source.write_text(f"{head}spec: {{pythonFile: {Path(__file__).with_name('job.py')}}}\n")
        manifest = write_manifest(source, self._folder / "job.yaml", "soak", spec)
        environment = {**self._server.environment, "SPARKSTATE_PHASE_LOG": str(self._folder / "phases.jsonl")}
        job = JobProcess(manifest, self._folder / "work", environment)
        self._supply.follow(self._reader.complete, self._limit())
        job.start()
        job.wait_until("the job to run", lambda: (job.status() or {}).get("phase") == "RUNNING", START_S)
        return job

    def _limit(self) -> int:
        """Files of the whole soak: some more than epochs, since a checkpoint has to cover the last of them."""
        return self._goal.epochs + 100_000

    def _follow(self) -> bool:
        planned = faults.schedule(self._options.seed, self._goal.epochs)
        sampled = moved = time.monotonic()
        while not self._goal.reached(self._epoch, self._checkpoint):
            if time.monotonic() - self._began > self._goal.minutes * 60 > 0:
                return False
            status = self._job.status()
            if status is not None and (status["epoch"] or 0) > self._epoch:
                self._look(status)
                moved = time.monotonic()
            if self._job.exit_code is not None or time.monotonic() - moved > STUCK_S:
                raise RuntimeError(
                    f"the job ended or stands still at epoch {self._epoch}\n{self._job.last_words()}"
                )
            self._reader.step()
            self._supply.follow(self._reader.complete, self._limit())
            if time.monotonic() - sampled >= SAMPLE_S and status is not None and status["phase"] == "RUNNING":
                self._sample(status)
                sampled = time.monotonic()
            planned = self._break(planned)
            time.sleep(STEP_S)
        return True

    def _look(self, status: dict[str, Any]) -> None:
        first = self._epoch == 0
        self._epoch = status["epoch"]
        self._checkpoint = (status["last_checkpoint"] or {"id": self._checkpoint})["id"]
        if first:
            self._say(f"runs, epoch {self._epoch}, checkpoint {self._checkpoint}")

    # -- faults ---------------------------------------------------------------------------------------------------

    def _break(self, planned: list[tuple[int, faults.Fault]]) -> list[tuple[int, faults.Fault]]:
        """Carry out the newest fault that is due; those of earlier parts and those that were overtaken are left out."""
        due = [fault for epoch, fault in planned if epoch <= self._epoch]
        left = planned[len(due) :]
        if len(due) == 1:
            self._carry_out(due[0])
        return left

    def _carry_out(self, fault: faults.Fault) -> None:
        self._event("fault", fault=fault.value)
        self._say(f"epoch {self._epoch}: {fault.value}")
        match fault:
            case faults.Fault.KILL_DRIVER:
                driver = self._job.driver()
                self._kill(driver[0] if driver else None)
            case faults.Fault.KILL_SLOT:
                slots = (self._job.status() or {}).get("slots") or ()
                self._kill(slots[self._epoch % len(slots)]["pid"] if slots else None)
            case faults.Fault.REFUSE:
                self._proxy.use(
                    fault_proxy.Schedule(self._epoch, rate=0.7, kinds=("503", "lost-503", "cut-after"))
                )
                time.sleep(OUTAGE_S)
                self._proxy.use(fault_proxy.Schedule())
            case faults.Fault.STOP_STORAGE:
                self._server.stop()
                time.sleep(OUTAGE_S)
                self._server.start()

    @staticmethod
    def _kill(pid: int | None) -> None:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # -- samples --------------------------------------------------------------------------------------------------

    def _sample(self, status: dict[str, Any]) -> None:
        driver = self._job.driver()
        if driver is None or self._job.pid is None or status["epoch"] is None:
            return
        self._times.read()
        local_files, local_bytes = sampling.tree_size(self._folder / "work")
        stored = self._folder / "s3" / "data" / "state" / "jobs"
        objects, object_bytes = sampling.tree_size(stored)
        restores, self._times.restores_ms = self._times.restores_ms, []
        last = status["last_checkpoint"] or {}
        slots = sampling.usage(slot["pid"] for slot in status["slots"])
        held, above = sampling.managed(status["slots"])
        sample: dict[str, Any] = {
            "at_ms": time.time_ns() // 1_000_000,
            "epoch": status["epoch"],
            "checkpoint": last.get("id", 0),
            "complete": self._reader.complete,
            "driver": driver[0],
            "incarnation": status["incarnation"],
            "runner": self._job.pid,
            **_columns("driver", sampling.usage([driver[0]])),
            **_columns("jvm", sampling.usage(sampling.java_of(driver[0]))),
            "jvm_heap_after_cleaning": self._live_heap(),
            **_columns("slots", slots),
            "slots_own_rss": slots.rss - held,
            "slots_above_budget": above,
            **_columns("runner", sampling.usage([self._job.pid])),
            "local_files": local_files,
            "local_bytes": local_bytes,
            "objects": objects,
            "object_bytes": object_bytes,
            "log_objects": sum(sampling.tree_size(log)[0] for log in stored.glob("*/log")),
            "state_bytes": status["state_bytes"],
            "epoch_ms": self._times.epoch_ms(),
            "checkpoint_ms": last.get("duration_ms"),
            "restore_ms": max(restores, default=None),
            "claim_ms": self._claim_ms(),
        }
        _append(self._folder / "samples.jsonl", sample)
        self._say(
            f"epoch {sample['epoch']:,}, checkpoint {sample['checkpoint']:,}, "
            f"{sample['epoch_ms'] or 0:.0f} ms an epoch, {objects} objects, "
            f"driver {sample['driver_rss'] >> 20} MiB, slots {sample['slots_rss'] >> 20} MiB"
        )

    def _live_heap(self) -> int | None:
        """Of the driver that wrote it last; None where nothing new was written."""
        written = self._folder / "heap"
        with suppress(OSError, ValueError):
            value = int(written.read_text())
            written.unlink()
            return value
        return None

    def _claim_ms(self) -> float | None:
        found: list[float] = []
        for log in sorted((self._folder / "work" / "logs").glob("driver-*.log")):
            if log.name not in self._logs_read and (seconds := sampling.claims(log)):
                self._logs_read.add(log.name)
                found += seconds
        return max(found) * 1000 if found else None

    def _event(self, kind: str, **details: Any) -> None:
        _append(self._folder / "events.jsonl", {"kind": kind, "epoch": self._epoch, **details})

    def _delete(self, names: Sequence[str]) -> None:
        """As a consumer who may do with the files what it likes; asked of the server, past the faults."""
        client = boto3.client(
            "s3",
            endpoint_url=self._server.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self._server.access_key,
            aws_secret_access_key=self._server.secret_key,
        )
        for begin in range(0, len(names), 1000):
            keys: list[ObjectIdentifierTypeDef] = [
                {"Key": f"{OUTPUT}/{name}"} for name in names[begin : begin + 1000]
            ]
            client.delete_objects(Bucket="state", Delete={"Objects": keys, "Quiet": True})


def _columns(prefix: str, used: sampling.Usage) -> dict[str, int]:
    return {f"{prefix}_{name}": value for name, value in asdict(used).items()}


def _append(path: Path, document: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(document) + "\n")


def _end_leftovers(folder: Path) -> None:
    """End what an earlier part left that was killed itself: its processes have this folder in their environment."""
    above = [os.getpid()]
    while (parent := driving.parent_of(above[-1])) > 1:
        above.append(parent)
    for pid in set(driving.processes_with(f"{folder}{os.sep}")) - set(above):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _server(folder: Path) -> s3server.S3Server:
    """The server over the soak's own folder, with the keys of the first part."""
    place = folder / "s3"
    for name in ("data/state", "side"):
        (place / name).mkdir(parents=True, exist_ok=True)
    server = s3server.S3Server(s3server.find_binary(), place, s3server.free_port())
    keys = place / "keys.json"
    if keys.exists():
        server.access_key, server.secret_key = json.loads(keys.read_text())
    else:
        keys.touch(mode=0o600)
        keys.write_text(json.dumps([server.access_key, server.secret_key]))
    return server
