"""One job in Spark's ``transformWithState`` and in sparkstate: the same alerts, and those calculated by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.examples import example

from sparkstate import java
from sparkstate_tools.demo import job_process, oracle

pytestmark = pytest.mark.spark

EXAMPLE = example.EXAMPLES / "from-transform-with-state"
readings = example.load(EXAMPLE / "readings.py")


@pytest.mark.timeout(400)
def test_both_jobs_put_out_the_alerts_that_were_calculated_by_hand(tmp_path: Path) -> None:
    made = readings.make()
    readings.write(made, tmp_path / "input")
    wanted = readings.expected(made)
    assert len(wanted) > 20
    ours, theirs = _start_ours(tmp_path), _start_spark(tmp_path)
    try:
        assert ours.wait(300) == 0, ours.last_words()
        assert theirs.wait(300) == 0, (tmp_path / "spark.log").read_text()[-3000:]
    finally:
        ours.stop()
        theirs.kill()
        theirs.wait()
    assert _alerts(oracle.committed_files(tmp_path / "output")) == wanted
    assert _alerts(sorted((tmp_path / "on-spark").glob("*.parquet"))) == wanted


def _start_ours(folder: Path) -> job_process.JobProcess:
    changes = {
        "params": {"input": str(folder / "input"), "output": str(folder / "output")},
        "checkpointing": {"storage": (folder / "state").as_uri(), "interval": "2s"},
    }
    manifest = job_process.write_manifest(EXAMPLE / "job.yaml", folder / "run.yaml", "silence", changes)
    job = job_process.JobProcess(manifest, folder / "work", {})
    job.start()
    return job


def _start_spark(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(EXAMPLE / "on_spark.py")]
    command += [str(folder / name) for name in ("input", "on-spark", "query")]
    environment = {
        **os.environ,
        **java.find(os.environ).environment(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (folder / "spark.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def _alerts(files: list[Path]) -> list[tuple[str, int, str]]:
    rows = [row for path in files for row in pa.Table.to_pylist(pq.read_table(path))]
    found = [(row["device"], row["total"], row["kinds"]) for row in rows]
    return sorted(alert for alert in found if alert[0] != readings.CLOCK)
