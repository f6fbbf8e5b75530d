"""What Spark itself does to tasks: errors upstream, lost shuffle files, cancelled jobs. It changes nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support.spark import executors

from sparkstate.control.documents import DriverPhase
from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.fault_on("hashmap"), pytest.mark.spark]


@pytest.mark.fault(
    broken="a column of the source raises at a row, once",
    when="after earlier rows of the partition went through",
    expected="Spark tries the task again in the same epoch; output and row count exact",
)
@pytest.mark.fault(
    broken="a column of the source raises at a row, as often as Spark tries",
    when="after earlier epochs committed",
    expected="a new incarnation goes on from the last checkpoint; output and row count exact",
)
def test_an_error_upstream_changes_nothing(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=4, rows=50)
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    params = {"trouble": str(trouble), "raise": "70x1 130x4"}
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "troubled.py", params=params)) as driver:
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert len(list(trouble.glob("raised-70-*"))) == 1
    assert len(list(trouble.glob("raised-130-*"))) == 4
    entries = driver.phases()
    assert max(p["incarnation"] for p in entries) == 2
    assert "the source fails at row 130" in driver.log()


def test_a_query_that_the_jobs_own_code_stops_goes_on_if_its_input_has_no_end(tmp_path: Path) -> None:
    """It was the end of the input: the job was finished, and its timers had fired as at the end of time."""
    rows = totals.make_input(tmp_path / "in", files=2, rows=50)
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    params = {"trouble": str(trouble), "raise": ""}
    endless = driving.manifest(tmp_path, "troubled.py", params=params, trigger={"processingTime": "100ms"})
    with driving.Driver(tmp_path, endless) as driver, driver.client() as client:
        driving.wait_for(
            lambda: client.status().rows_total >= len(rows), driving.PATIENCE_S, "all rows", driver.process
        )
        (trouble / "stop").touch()
        driving.wait_for(
            lambda: client.status().incarnation == 2 and client.status().phase is DriverPhase.RUNNING,
            driving.PATIENCE_S,
            "the next incarnation",
            driver.process,
        )
        rows += totals.make_input(tmp_path / "in", files=2, rows=50, first=2, seed=8)
        client.cancel()
        driver.finish()
    assert "the job's query was stopped by something other than the driver" in driver.log()
    bounded = driving.manifest(tmp_path, "troubled.py", params=params)
    with driving.Driver(tmp_path, bounded, attempt=2) as second:
        second.finish()
    totals.check(tmp_path / "out", rows)


def test_bounded_input_is_read_to_its_end_though_the_jobs_own_code_stops_its_query(tmp_path: Path) -> None:
    """The job was finished with rows unread, and no later run read those of an epoch that Spark had planned."""
    rows = totals.make_input(tmp_path / "in", files=8, rows=50)
    (tmp_path / "trouble").mkdir()
    planned = tmp_path / "work/query/00001/offsets/4"
    params = {"trouble": str(tmp_path / "trouble"), "raise": "", "pause": "0.005", "stop_at": str(planned)}
    document = driving.manifest(tmp_path, "troubled.py", params=params)
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert "the job's query was stopped by something other than the driver" in driver.log()


@pytest.mark.extra
@pytest.mark.fault(
    broken="a task's input breaks off: the shuffle's files are gone",
    when="after the slot got the task's first rows",
    expected="Spark makes the input anew, and a fresh attempt gets all rows; the first one never becomes state",
)
@pytest.mark.fault(
    broken="all of Spark's jobs are cancelled",
    when="while a task feeds its slot",
    expected="a new incarnation goes on from the last checkpoint; output and row count exact",
)
def test_a_task_that_loses_its_input_or_is_cancelled_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    wide = "x" * 8000  # more than the pipes between JVM and worker hold, so that the input is not read yet
    rows = [
        row
        for number in range(4)
        for row in totals.make_input(
            tmp_path / "in", files=1, rows=300, keys=30, seed=number, first=number, prefix=f"{number}{wide}"
        )
    ]
    (tmp_path / "trouble").mkdir()
    document = driving.manifest(
        tmp_path,
        "troubled.py",
        params={"files": "2", "shuffle": "2", "trouble": str(tmp_path / "trouble"), "raise": ""},
        sparkConf={"spark.sql.execution.arrow.maxRecordsPerBatch": "10"},
    )
    with driving.Driver(tmp_path, document) as driver:
        driver.hold("worker", "feed")
        driver.held("worker", "feed")
        lost = list((tmp_path / "work" / "spark").rglob("shuffle_*.data"))
        assert len(lost) == 2
        for file in lost:
            file.unlink()
        driver.hold("driver", "finish")
        driver.release("worker")
        driver.held("driver", "finish")
        assert len(fed(driver, epoch=0)) > 2
        assert "its rows are brought again" in driver.log()

        driver.hold("worker", "feed")
        driver.release("driver")
        driver.held("worker", "feed")
        (tmp_path / "trouble" / "cancel").touch()
        driving.wait_for(
            lambda: not (tmp_path / "trouble" / "cancel").exists(), 30, "the cancellation", driver.process
        )
        driver.release()
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert max(p["incarnation"] for p in driver.phases()) == 2
    assert "cancelled" in driver.log()


def fed(driver: driving.Driver, epoch: int) -> list[dict[str, Any]]:
    """The tasks that brought rows in that epoch; the one after it may have begun already."""
    entries = [p for p in driver.phases() if p["epoch"] == epoch]
    return [p for p in entries if p["process"] == "worker" and p["phase"] == "feed"]


@pytest.mark.extra
@pytest.mark.fault(
    broken="one of Spark's Python workers is killed",
    when="after the slots got the first rows of its task",
    expected="Spark runs the task again, and all rows go to a fresh attempt in the same epoch; no restart, exact",
)
def test_a_worker_that_dies_while_it_feeds_changes_nothing(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=4, rows=200)
    document = driving.manifest(tmp_path, "totals.py")
    with driving.Driver(tmp_path, document) as driver:
        driver.hold("worker", "feed")
        worker = driver.held("worker", "feed")
        os.kill(worker, signal.SIGKILL)
        driver.release()
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert max(p["incarnation"] for p in driver.phases()) == 1
    assert "its rows are brought again" in driver.log()


@pytest.mark.extra
@pytest.mark.fault(
    broken="Spark starts a second, speculative copy of a slow task on another host",
    when="after the slow one fed its first rows",
    expected="the copy that finishes first counts; what the other one fed never becomes state",
)
def test_a_speculative_copy_changes_nothing(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=2)
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
    }
    document = driving.manifest(tmp_path, "totals.py")
    with executors.driver_of_many(tmp_path, document, 2, **speculation) as driver:
        driver.hold("worker", "feed")
        slow = driver.held("worker", "feed")
        driver.hold("driver", "finish")
        driver.held("driver", "finish")
        assert len(fed(driver, epoch=0)) == 3, "one of the two tasks has a copy"
        assert driver.is_held("worker", "feed"), f"{slow} was still at it when its copy had won"
        driver.release()
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert {p["incarnation"] for p in driver.phases() if p["phase"] == "feed"} == {1}
    driving.wait_until_nothing_is_left(tmp_path)
