"""What a job has published is its readers': they take it away, sinks move and go, and the output is exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.fault_on("hashmap"), pytest.mark.spark]


def take_away(output: Path, taken: Path) -> None:
    """As a reader that moves what it has read. A name that comes twice would be lost here, so it is an error."""
    taken.mkdir(parents=True, exist_ok=True)
    for path in output.glob("part-*.parquet"):
        assert not (taken / path.name).exists()
        path.rename(taken / path.name)


def staged(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*/_sparkstate_staging/**/*-*") if path.is_file()]


@pytest.mark.extra
@pytest.mark.fault(
    broken="the driver is killed (SIGKILL); published files are moved away, a sink's path changes, a sink goes",
    when="in the phase checkpoint-publish, and between two runs",
    expected="the restore publishes what was committed to where it was meant, and looks for nothing else; output exact",
)
def test_readers_take_files_away_and_sinks_move_and_go(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=6)
    document: dict[str, Any] = driving.manifest(tmp_path, "totals.py")
    with driving.Driver(tmp_path, document) as first:
        first.kill_in("driver", "checkpoint-publish")
        first.wait()
    assert staged(tmp_path / "out") and not totals.read(tmp_path / "out" / "totals")

    moved = {"params": {"output": str(tmp_path / "moved"), "without": "groups"}}
    document = driving.manifest(tmp_path, "totals.py", **moved)
    with driving.Driver(tmp_path, document, attempt=2) as second:
        second.finish()
    before = totals.read(tmp_path / "out" / "totals")
    assert before and len(totals.read(tmp_path / "out" / "groups")) == len(before)
    assert not (tmp_path / "moved" / "groups").exists()
    assert not staged(tmp_path / "out") and not staged(tmp_path / "moved")

    for folder in ("out", "moved"):
        take_away(tmp_path / folder / "totals", tmp_path / "taken")
        take_away(tmp_path / folder / "quiet", tmp_path / "taken-quiet")
    rows += totals.make_input(tmp_path / "in", files=2, first=6, seed=8)
    with driving.Driver(tmp_path, document, attempt=3) as third:
        third.finish()
    assert not list((tmp_path / "out" / "totals").glob("part-*"))
    take_away(tmp_path / "moved" / "totals", tmp_path / "taken")
    got = Counter(tuple(row.values()) for row in totals.read(tmp_path / "taken"))
    assert got == totals.expected_totals(rows)


@pytest.mark.extra
@pytest.mark.fault(
    broken="the sink's storage takes one of a checkpoint's two files and refuses the other",
    when="in the phase checkpoint-publish, while the input ends",
    expected="no other checkpoint stages those rows; the next incarnation publishes; output exact",
)
def test_a_publication_that_fails_half_way_while_the_job_drains_doubles_nothing(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=1)
    document = driving.manifest(
        tmp_path,
        "totals.py",
        params={"pause": "0.02"},
        restart={"strategy": "fixed-delay", "fixedDelay": {"attempts": 30, "delay": "1s"}},
    )
    with driving.Driver(tmp_path, document) as driver:
        driver.hold("driver", "checkpoint-publish")
        driver.held("driver", "checkpoint-publish")
        files = sorted((tmp_path / "out" / "totals" / "_sparkstate_staging").rglob("*-totals-*.parquet"))
        assert len(files) == 2
        refused = tmp_path / "out" / "totals" / f"part-00001-000000000-{files[1].name.partition('-')[2]}"
        (refused / "in-the-way").mkdir(parents=True)
        driver.release()
        driving.wait_for(
            lambda: "Is a directory" in driver.log(), driving.PATIENCE_S, "the refusal", driver.process
        )
        (refused / "in-the-way").rmdir()
        refused.rmdir()
        driver.finish()
    totals.check(tmp_path / "out", rows)
