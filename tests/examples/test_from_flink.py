"""One job in PyFlink and in sparkstate: the totals that PyFlink 2.3 printed for the same rows, and those by hand.

``golden/from_flink.txt`` is what ``examples/from-flink/on_flink.py`` printed, sorted.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.examples import example

from sparkstate_tools.demo import job_process, oracle

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parent / "golden" / "from_flink.txt"
DAY_S = 24 * 3600
readings = example.load(example.EXAMPLES / "from-transform-with-state" / "readings.py")


def by_hand() -> list[tuple[str, int, int]]:
    totals: Counter[tuple[str, int]] = Counter()
    for device, _, value, at in (*readings.make(), *readings.clock()):
        totals[device, int(at.timestamp()) // DAY_S] += value
    return sorted((device, day, total) for (device, day), total in totals.items())


def test_flink_put_out_the_totals_that_were_calculated_by_hand() -> None:
    lines = [re.fullmatch(r"\+I\[(.+),(\d+),(\d+)\]", line) for line in GOLDEN.read_text().splitlines()]
    assert sorted((m[1], int(m[2]), int(m[3])) for m in lines if m is not None) == by_hand()
    assert len(lines) > 20


@pytest.mark.timeout(300)
def test_our_job_puts_out_the_same(tmp_path: Path) -> None:
    readings.write(readings.make(), tmp_path / "input")
    changes = {
        "params": {"input": str(tmp_path / "input"), "output": str(tmp_path / "output")},
        "checkpointing": {"storage": (tmp_path / "state").as_uri(), "interval": "2s"},
    }
    source = example.EXAMPLES / "from-flink" / "job.yaml"
    manifest = job_process.write_manifest(source, tmp_path / "run.yaml", "daily-totals", changes)
    job = job_process.JobProcess(manifest, tmp_path / "work", {})
    job.start()
    try:
        assert job.wait(240) == 0, job.last_words()
    finally:
        job.stop()
    rows = [
        row for path in oracle.committed_files(tmp_path / "output") for row in pq.read_table(path).to_pylist()
    ]
    assert sorted((row["device"], row["day"], row["total"]) for row in rows) == by_hand()
