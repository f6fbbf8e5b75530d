"""What a start does side by side: while the slots fill, Spark makes ready for the first epoch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.spark import executors

from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark


def daemons(folder: Path) -> list[int]:
    """Spark's daemons of Python workers: each loads everything anew."""
    found = [pid for pid in driving.processes_with(str(folder)) if b"spark.daemon" in command_of(pid)]
    return [pid for pid in found if command_of(driving.parent_of(pid)).partition(b"\0")[0].endswith(b"java")]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_spark_rehearses_the_first_epoch_while_the_slots_fill_and_begins_it_when_they_have(
    tmp_path: Path,
) -> None:
    rows = totals.make_input(tmp_path / "in", files=3)
    seen = tmp_path / "seen"
    seen.mkdir()
    document = driving.manifest(tmp_path, "watched.py", params={"seen": str(seen)})
    with driving.Driver(tmp_path, document) as driver:
        driver.hold("slot-0", "restore")
        driver.held("slot-0", "restore")
        driving.wait_for(lambda: any(seen.iterdir()), 60, "a worker that saw rows", driver.process)
        assert "epoch-begin" not in {entry["phase"] for entry in driver.phases()}
        assert {path.read_text() for path in seen.iterdir()} == {"loaded"}
        assert len(daemons(tmp_path)) == 1
        driver.release()
        driver.finish()
        assert "Traceback" not in driver.log()
    found = totals.read(tmp_path / "out")
    assert sorted(row["id"] for row in found) == sorted(row[1] for row in rows)


@pytest.mark.extra
def test_pandas_is_loaded_before_the_first_rows_come(tmp_path: Path) -> None:
    """Arrow would load it in the middle of the first epoch."""
    totals.make_input(tmp_path / "in", files=1)
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py")) as driver:
        driver.hold("slot-0", "feed")
        slot = driver.held("slot-0", "feed")
        libraries = Path(f"/proc/{slot}/maps")
        driving.wait_for(lambda: "/pandas/_libs/" in libraries.read_text(), 60, "pandas", driver.process)
        driver.release()
        driver.finish()


@pytest.mark.parametrize("deployment", ["local", pytest.param("cluster", marks=pytest.mark.extra)])
def test_spark_starts_while_the_storage_is_away(tmp_path: Path, deployment: str) -> None:
    """The session does not wait for the claim of the job's state."""
    document = driving.manifest(tmp_path, "totals.py")
    environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    if deployment == "cluster":
        document = executors.cluster(document, tmp_path, 2)
        document["spec"]["sparkConf"] = {"spark.authenticate.secret": "of driver and executors"}
        environment |= executors.on_hosts_of_their_own(tmp_path) | executors.master(2)
    document["spec"]["checkpointing"]["storage"] = "s3://state/nobody-answers"
    document["spec"]["s3"] = {"endpoint": "http://127.0.0.1:9"}
    with executors.driver(tmp_path, document, **environment) as driver:
        blocks = driver.work_dir / "spark"
        driving.wait_for(lambda: any(blocks.glob("blockmgr-*")), 60, "Spark's own folders", driver.process)
        driving.wait_for(lambda: "waiting for the storage" in driver.log(), 60, "the claim", driver.process)
        assert "lineage" not in driver.log()


@pytest.mark.extra
def test_the_files_of_an_epoch_are_put_in_place_without_a_process_for_each(tmp_path: Path) -> None:
    """Hadoop's newer interface asks ``readlink`` for both names of every file that it renames."""
    totals.make_input(tmp_path / "in", files=3)
    calls, programs = tmp_path / "calls", tmp_path / "programs"
    programs.mkdir()
    for name in ("readlink", "chmod"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho {name} >> {calls}\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py"), environment=environment) as driver:
        driver.finish()
    asked = calls.read_text().split()
    assert "chmod" in asked, "that these programs are found was to be seen"
    assert "readlink" not in asked
