"""Keeps the driver's contract with the runner, and nothing else: no Spark, no state.

``python -m support.drivers.fake_driver`` with ``tests/`` on the path.

It takes the driver's arguments, serves the real control endpoint, writes the status file and the
termination log, claims the real lineage and commits real (empty) savepoints into it. How it behaves is told
by ``FAKE_DRIVER``, a JSON object: ``exits`` (attempt → [exit code, reason]), ``finish_after`` (epochs),
``saves_last`` (commits more, with a snapshot, at its end, when nobody is answered any more),
``loads_s`` (attempt → seconds before it hears a SIGTERM), ``deaf`` (neither cancel nor SIGTERM end it),
``failing_savepoints``, ``storage`` and ``name`` of the job.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from support.storage import stored_job

from sparkstate import keys
from sparkstate.control import documents, port, server
from sparkstate_tools.drivers import control_job

EPOCH_S = 0.05


class FakeJob(control_job.InMemoryJob):
    """Commits an epoch every 50 ms; completes savepoints in the real log."""

    def __init__(self, behaviour: dict, attempt: int) -> None:
        self._stored = stored_job.StoredJob(behaviour["storage"], behaviour["name"], attempt)
        super().__init__(
            documents.JobStatus(
                job_uid="uid-1",
                name=behaviour["name"],
                attempt=attempt,
                lineage=self._stored.lineage_id,
                phase=documents.DriverPhase.RUNNING,
                epoch=0,
            )
        )
        self.stopped = threading.Event()
        self._behaviour = behaviour
        self._done: set[str] = set()

    def cancel(self) -> None:
        super().cancel()
        if not self._behaviour.get("deaf"):
            self.stopped.set()

    def run_epoch(self) -> None:
        time.sleep(EPOCH_S)
        self.update(epoch=self.current.epoch + 1, rows_total=self.current.rows_total + 10, rows_per_s=200.0)
        for request in self.requests():
            if request.trigger_id not in self._done:
                self._done.add(request.trigger_id)
                self._complete(request)

    def save_last(self) -> None:
        self._stored.take_savepoint("last", self.current.epoch + 7)

    def _complete(self, request: port.SavepointTrigger) -> None:
        if self._behaviour.get("failing_savepoints"):
            self.finish_savepoint(
                request.trigger_id, status=documents.SavepointPhase.FAILED, failure="disk full"
            )
            return
        location = self._stored.take_savepoint(
            request.trigger_id, self.current.epoch, target=request.target_directory, stop=request.stop
        )
        self.finish_savepoint(
            request.trigger_id,
            status=documents.SavepointPhase.COMPLETED,
            location=location,
            epoch=self.current.epoch,
        )
        if request.stop:
            self.update(phase=documents.DriverPhase.STOPPING)
            threading.Timer(0.5, self.stopped.set).start()


def write(path: Path, document: dict) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(document))
    temporary.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--manifest", "--work-dir", "--listen", "--lineage"):
        parser.add_argument(name)
    for name in ("--token-file", "--status-file", "--termination-log"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--attempt", type=int)
    parser.add_argument("--set", action="append")
    given = parser.parse_args()
    behaviour = json.loads(os.environ["FAKE_DRIVER"])
    Path(given.work_dir).mkdir(parents=True, exist_ok=True)
    print(f"attempt {given.attempt} begins, lineage {given.lineage}", flush=True)
    if str(given.attempt) in behaviour.get("exits", {}):
        code, reason = behaviour["exits"][str(given.attempt)]
        if reason:
            write(given.termination_log, {"reason": reason, "message": f"told to end with {code}"})
        return code
    time.sleep(behaviour.get("loads_s", {}).get(str(given.attempt), 0))
    job = FakeJob(behaviour, given.attempt)

    def on_sigterm(number: int, frame: object) -> None:
        if not behaviour.get("deaf"):
            job.stopped.set()

    signal.signal(signal.SIGTERM, on_sigterm)
    with server.ControlServer(job, keys.load(given.token_file)) as endpoint:
        write(given.status_file, {"pid": os.getpid(), "address": endpoint.address, "phase": "RUNNING"})
        while not job.stopped.is_set():
            job.run_epoch()
            if job.current.epoch == behaviour.get("finish_after"):
                break
    if behaviour.get("saves_last"):
        job.save_last()
    write(given.termination_log, {"reason": "Finished", "message": f"done at epoch {job.current.epoch}"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
