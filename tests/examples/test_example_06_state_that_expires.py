"""When devices wake up, by state that expires, and by hand."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.examples import example

from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness
from sparkstate_tools.demo import job_process, oracle

FOLDER = example.EXAMPLES / "06-state-that-expires"
SILENCE = datetime.timedelta(hours=4)
readings = example.load(example.EXAMPLES / "from-transform-with-state" / "readings.py")
job = example.load(FOLDER / "job.py")


def in_ms(at: datetime.datetime) -> int:
    return round(at.timestamp() * 1000)


def by_hand() -> list[tuple[str, int]]:
    found, last = [], {}
    for device, _, _, at in readings.make() + readings.clock():
        if device not in last or at - last[device] >= SILENCE:
            found.append((device, in_ms(at)))
        last[device] = at
    return sorted(found)


def test_the_function_finds_what_was_calculated_by_hand() -> None:
    with KeyedProcessHarness(
        job.Awakenings(), key=lambda row: row.device, key_type=Types.STRING()
    ) as harness:
        for device, _, value, at in readings.make() + readings.clock():
            harness.process_elements([({"device": device, "value": value}, in_ms(at))], in_ms(at) - 1)
        assert sorted(harness.output()) == by_hand()
        assert len(by_hand()) > 20 + 1  # some wake up twice
        assert [device for device, _ in by_hand() if harness.state("awake", device)] == [readings.CLOCK]


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_job_puts_out_the_same(tmp_path: Path) -> None:
    readings.write(readings.make(), tmp_path / "input")
    changes = {
        "params": {"input": str(tmp_path / "input"), "output": str(tmp_path / "output")},
        "checkpointing": {"storage": (tmp_path / "state").as_uri(), "interval": "2s"},
    }
    manifest = job_process.write_manifest(FOLDER / "job.yaml", tmp_path / "run.yaml", "awakenings", changes)
    process = job_process.JobProcess(manifest, tmp_path / "work", {})
    process.start()
    try:
        assert process.wait(240) == 0, process.last_words()
    finally:
        process.stop()
    rows = [
        row for path in oracle.committed_files(tmp_path / "output") for row in pq.read_table(path).to_pylist()
    ]
    assert sorted((row["device"], row["at_ms"]) for row in rows) == by_hand()
