"""Profiles of devices by a job whose second version declares their state with other types, and by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.examples import example

from sparkstate.cli import main
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness
from sparkstate_tools.demo import job_process, oracle

FOLDER = example.EXAMPLES / "07-changing-types"
readings = example.load(example.EXAMPLES / "from-transform-with-state" / "readings.py")
first = example.load(FOLDER / "first.py")
second = example.load(FOLDER / "second.py")
FEW = 3
"""Files that version 1 reads."""


def by_hand(made: list[Any], before: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of version 1, which sees the readings ``before``, and those of version 2."""
    ones: list[tuple[Any, ...]] = []
    others: list[tuple[Any, ...]] = []
    seen: dict[str, list[int]] = {}
    levels: dict[str, str] = {}
    for number, (device, _, value, _) in enumerate(made):
        seen.setdefault(device, []).append(value)
        mine = seen[device]
        if number < before:
            ones.append((device, len(mine), max(mine)))
            continue
        since = [v for d, _, v, _ in made[before : number + 1] if d == device]
        level = "HIGH" if value >= 80 else "NORMAL"
        others.append((device, len(mine), max(mine), min(since), level, levels.get(device, "UNKNOWN")))
        levels[device] = level
    return sorted(ones), sorted(others)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_version_2_goes_on_with_the_profiles_of_version_1(backend: str) -> None:
    made = readings.make()
    half = len(made) // 2

    def harness(function: Any, kind: str) -> Any:
        return KeyedProcessHarness(
            function, key=lambda row: row.device, key_type=Types.STRING(), backend=kind
        )

    with harness(first.Profiles(), "hashmap") as one:
        for device, _, value, _ in made[:half]:
            one.process_element({"device": device, "value": value})
        ones, taken = sorted(one.output()), one.snapshot()
    with harness(second.Profiles(), backend) as other:
        other.restore(taken)
        for device, _, value, _ in made[half:]:
            other.process_element({"device": device, "value": value})
        assert (ones, sorted(other.output())) == by_hand(made, half)


@pytest.mark.extra
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_versions_run_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = readings.make()
    readings.write(made, tmp_path / "all")
    files = sorted((tmp_path / "all").iterdir())
    (tmp_path / "input").mkdir()
    found = []
    for version, mine in (("first", files[:FEW]), ("second", files[FEW:])):
        changes = {
            "params": {"input": str(tmp_path / "input"), "output": str(tmp_path / version)},
            "checkpointing": {"storage": (tmp_path / "state").as_uri(), "interval": "2s"},
        }
        manifest = job_process.write_manifest(
            FOLDER / f"{version}.yaml", tmp_path / f"{version}-run.yaml", "profiles", changes
        )
        if version == "second":
            assert main.main(["check", str(manifest)]) == 0
            told = capsys.readouterr().out
            assert "profile" in told
            assert "the job would take up its state" in told
        for path in mine:
            shutil.move(path, tmp_path / "input")
        process = job_process.JobProcess(manifest, tmp_path / f"work-{version}", {})
        process.start()
        try:
            assert process.wait(240) == 0, process.last_words()
        finally:
            process.stop()
        rows = [
            tuple(row.values())
            for path in oracle.committed_files(tmp_path / version)
            for row in pq.read_table(path).to_pylist()
        ]
        found.append(sorted(rows))
    before = sum(pq.read_metadata(tmp_path / "input" / path.name).num_rows for path in files[:FEW])
    assert tuple(found) == by_hand(made + readings.clock(), before)
