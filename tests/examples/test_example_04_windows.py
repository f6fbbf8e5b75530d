"""Session windows, sliding windows and late readings: exact through a kill of the driver."""

from __future__ import annotations

import math
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.examples import example, kills

from sparkstate_tools.demo import job_process, oracle

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLE = example.EXAMPLES / "04-windows"
readings = example.load(EXAMPLE / "readings.py")


def test_readings_that_come_behind_change_the_result_and_late_ones_would() -> None:
    made = readings.make_readings()
    runs, load = readings.expected_runs(made), readings.expected_load(made)
    behind = [each for each in made if each.behind >= readings.HOUR and not each.is_late]
    late = [each for each in made if each.is_late]
    assert len(behind) > 100
    assert len(late) > 100
    for others in ([each for each in made if each not in behind], readings.punctual(made)):
        assert readings.expected_runs(others) != runs
        assert readings.expected_load(others) != load


@pytest.mark.timeout(600)
def test_runs_load_and_late_readings_are_exact_through_a_kill(tmp_path: Path) -> None:
    made = readings.make_readings()
    readings.write(made, tmp_path / "input")
    changes = {
        "params": {kind: str(tmp_path / kind) for kind in ("input", "output")},
        "checkpointing": {"storage": (tmp_path / "state").as_uri(), "interval": "2s"},
    }
    manifest = job_process.write_manifest(EXAMPLE / "job.yaml", tmp_path / "run.yaml", "windows", changes)
    job = job_process.JobProcess(manifest, tmp_path / "work", {})
    job.start()
    try:
        killed = job.wait_until("a checkpoint in the middle", lambda: kills.in_the_middle(job), 240)
        os.kill(killed["pid"], signal.SIGKILL)
        back = job.wait_until("the restored driver", lambda: kills.restored(job, killed["pid"]), 180)
        assert back["restored_from"] is not None
        end_ms = round(max(each.at for each in made).timestamp() * 1000) - 10 * 60_000 - 1
        job.wait_until(
            "the end of the input", lambda: (job.status() or {}).get("watermark_ms") == end_ms, 240
        )
        job.request("POST", "/v1/savepoints", json={"trigger_id": "end", "stop": True, "drain": True})
        assert job.wait(120) == 0, job.last_words()
    finally:
        job.stop()
    output = tmp_path / "output"

    runs = _rows(output / "runs", ("machine", "started", "ended", "readings", "peak"))
    assert readings.last_runs(runs) == readings.expected_runs(made)

    load = _rows(output / "load", ("machine", "window_start", "n", "peak", "mean"))
    assert len(load) > len({row[:2] for row in load}), "no window was put out again"
    found, wanted = readings.last_load(load), readings.expected_load(made)
    assert [row[:4] for row in found] == [row[:4] for row in wanted]
    assert all(math.isclose(one[4], other[4], rel_tol=1e-9) for one, other in zip(found, wanted, strict=True))

    late = Counter(_rows(output / "late", ("machine", "watts", "at")))
    assert late == Counter((each.machine, each.watts, each.at) for each in made if each.is_late)


def _rows(folder: Path, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    tables = [pq.read_table(path) for path in oracle.committed_files(folder)]
    return [tuple(row[name] for name in columns) for table in tables for row in table.to_pylist()]
