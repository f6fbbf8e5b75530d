"""A backend of one's own: the visits of the batch calculation, through kills of a slot and of the driver, by savepoint
to HashMap and back, with two, three and one slot."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from support.examples import example, kills

from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness
from sparkstate_tools.demo import job_process, oracle

EXAMPLE = example.EXAMPLES / "05-own-backend"
visits = example.load(EXAMPLE / "job.py")
readings = example.load(EXAMPLE / "readings.py")
sqlite_backend = example.load(EXAMPLE / "sqlite_backend.py")

OWN = {"type": "custom", "class": "sqlite_backend:SQLiteBackend", "options": {"cache_kib": "256"}}


@pytest.mark.parametrize("backend", ["hashmap", sqlite_backend.SQLiteBackend], ids=["hashmap", "sqlite"])
def test_visits_are_those_of_the_batch_calculation(backend: Any) -> None:
    made = readings.make(sensors=10)
    times = [(at - visits.EPOCH) // visits.timedelta(milliseconds=1) for _, _, at in made]
    rows = [
        ({"sensor": sensor, "level": level}, at) for (sensor, level, _), at in zip(made, times, strict=True)
    ]
    with KeyedProcessHarness(
        visits.Visits(), key=lambda row: row.sensor, key_type=Types.STRING(), backend=backend
    ) as harness:
        for start in range(0, len(rows), 50):
            harness.process_elements(rows[start : start + 50], watermark=times[start] - 600_000)
            if start % 200 == 0:
                harness.restore(harness.snapshot())
        harness.end_input()
        assert sorted(harness.output()) == readings.expected(made)


class Life:
    """The job, run by one manifest after another on the same state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = readings.make()
        readings.write(self.made, folder / "all")
        (folder / "input").mkdir()
        self._per_file = -(-len(self.made) // readings.HOURS)
        self._files = 0
        self._runs = 0

    def feed(self, until: int) -> int:
        """Give it the files up to this number. Returns the watermark that follows, in ms."""
        for number in range(self._files, until):
            name = f"{number:03d}.parquet"
            shutil.copy2(self.folder / "all" / "input" / name, self.folder / "input" / f".{name}")
            (self.folder / "input" / f".{name}").rename(self.folder / "input" / name)
        self._files = until
        last = max(at for _, _, at in self.made[: until * self._per_file])
        return round(last.timestamp() * 1000) - 600_000 - 1

    def start(self, backend: dict[str, Any], slots: int) -> job_process.JobProcess:
        self._runs += 1
        changes = {
            "params": {kind: str(self.folder / kind) for kind in ("input", "output")},
            "checkpointing": {"storage": (self.folder / "state").as_uri(), "interval": "2s"},
            "slots": slots,
        }
        path = job_process.write_manifest(
            EXAMPLE / "job.yaml", self.folder / f"run-{self._runs}.yaml", "own-backend", changes
        )
        document = yaml.safe_load(path.read_text())
        document["spec"]["stateBackend"] = backend
        path.write_text(yaml.safe_dump(document))
        job = job_process.JobProcess(path, self.folder / f"work-{self._runs}", {})
        job.start()
        return job

    def visits(self) -> list[Any]:
        rows = [
            row
            for path in oracle.committed_files(self.folder / "output")
            for row in pq.read_table(path).to_pylist()
        ]
        return sorted(
            (row["sensor"], row["began"], row["ended"], row["readings"], row["rises"]) for row in rows
        )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_visits_are_exact_through_kills_changes_of_backend_and_rescales(tmp_path: Path) -> None:
    life = Life(tmp_path)
    job = life.start(OWN, slots=2)
    try:
        life.feed(6)
        running = job.wait_until("a checkpoint in the middle", lambda: _in_the_middle(job), 240)
        assert running["backend"] == "custom"
        log = "".join(path.read_text() for path in job.work_dir.glob("logs/driver-*.log"))
        assert "sqlite_backend:SQLiteBackend passes the conformance kit" in log
        os.kill(running["slots"][0]["pid"], signal.SIGKILL)
        _consumed(job, life.feed(9))
        driver = job.driver()
        assert driver is not None
        os.kill(driver[0], signal.SIGKILL)
        job.wait_until("the restored driver", lambda: _restored(job, driver[0]), 180)
        _consumed(job, life.feed(12))
        _stop(job, drain=False)
        for backend, slots, until in (({"type": "hashmap"}, 3, 18), (OWN, 1, readings.HOURS)):
            job = life.start(backend, slots)
            back = job.wait_until("the restored job", lambda job=job: _restored(job, 0), 240)
            assert back["backend"] == backend["type"]
            assert back["restored_from"] is not None
            assert len(back["slots"]) == slots
            _consumed(job, life.feed(until))
            _stop(job, drain=until == readings.HOURS)
    finally:
        job.stop()
    assert life.visits() == readings.expected(life.made)
    stored = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert any(path.name == "_metadata" for path in stored)
    assert [path for path in stored if b"sqlite_backend" in path.read_bytes()] == [], (
        "a snapshot names no class"
    )


def _in_the_middle(job: job_process.JobProcess) -> dict[str, Any] | None:
    status = job.status()
    if status is None or status["last_checkpoint"] is None or status["epoch"] < 3 or not status["slots"]:
        return None
    return status


def _restored(job: job_process.JobProcess, killed_pid: int) -> dict[str, Any] | None:
    status = kills.restored(job, killed_pid)
    return status if status is not None and status["slots"] else None


def _consumed(job: job_process.JobProcess, watermark_ms: int) -> None:
    job.wait_until(
        "the end of the input so far", lambda: (job.status() or {}).get("watermark_ms") == watermark_ms, 240
    )


def _stop(job: job_process.JobProcess, *, drain: bool) -> None:
    trigger = f"stop-{job.manifest.stem}"
    job.request("POST", "/v1/savepoints", json={"trigger_id": trigger, "stop": True, "drain": drain})
    assert job.wait(120) == 0, job.last_words()
