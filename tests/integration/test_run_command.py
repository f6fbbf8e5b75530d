"""``sparkstate run`` as a person uses it: on a terminal, with real Spark, killed, restarted, stopped and restored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest
from support.commands import terminal

from sparkstate.cli import main
from sparkstate.runner import workdir

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
START_S = 180.0
"""Spark starts in ten seconds; a machine that runs several of them takes its time."""
QUICK = ("spec.checkpointing.interval=1s", "spec.trigger.processingTime=200ms", "spec.driver.memory=512Mi")

BOUNDED = ("spec.trigger.processingTime=null", "spec.trigger.availableNow=true")


class Shop:
    """The job that ``sparkstate init`` writes, with its input."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = str(folder / "job.yaml")
        self.mark = uuid.uuid4().hex
        self.work = workdir.WorkDir(folder / ".sparkstate" / "shop")
        assert main.main(["init", str(folder)]) == 0

    def make_input(self, files: int) -> None:
        subprocess.run([sys.executable, str(self.folder / "make_input.py"), str(files)], check=True)

    def run(self, *overrides: str) -> terminal.Terminal:
        sets = [part for override in (*QUICK, *overrides) for part in ("--set", override)]
        command = [sys.executable, "-m", "sparkstate.cli.main", "run", self.manifest, *sets]
        return terminal.Terminal(command, {**os.environ, terminal.MARK: self.mark, "COLUMNS": "200"})

    def status(self, capsys) -> dict:
        """The job's status by the command; empty while nobody answers."""
        code = main.main(["status", self.manifest, "-o", "json"])
        text = capsys.readouterr().out
        return json.loads(text) if code == 0 else {}

    def wait_for(self, condition, running: terminal.Terminal, capsys) -> dict:
        """The first status of which ``condition`` is true."""
        found: list[dict] = []

        def look() -> bool:
            assert running.exit_code is None, running.screen
            status = self.status(capsys)
            if status and condition(status):
                found.append(status)
            return bool(found)

        terminal.wait_until(look, START_S, lambda: running.screen[-3000:])
        return found[0]

    def purchases(self) -> Counter[str]:
        rows = [json.loads(line) for file in (self.folder / "input").glob("*.json") for line in file.open()]
        return Counter(row["customer"] for row in rows)

    def counted(self) -> Counter[str]:
        """The published output: one row per purchase, the last of each customer says how many there were."""
        table = pyarrow.dataset.dataset(self.folder / "output" / "purchases", format="parquet").to_table()
        newest: Counter[str] = Counter()
        numbers: dict[str, list[int]] = {}
        for row in table.to_pylist():
            numbers.setdefault(row["customer"], []).append(row["purchases"])
        for customer, counts in numbers.items():
            assert sorted(counts) == list(range(1, len(counts) + 1)), f"{customer}: a row is lost or doubled"
            newest[customer] = len(counts)
        return newest


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop")
    yield shop
    for pid in terminal.marked(shop.mark):
        os.kill(pid, signal.SIGKILL)


def is_running(status: dict) -> bool:
    return status["phase"] == "RUNNING"


def test_a_job_is_killed_restarted_stopped_with_a_savepoint_and_restored(shop: Shop, capsys) -> None:
    shop.make_input(20)
    first = shop.run()
    before = shop.wait_for(
        lambda s: is_running(s) and s["rows_total"] >= 2000 and s["last_checkpoint"] is not None,
        first,
        capsys,
    )
    assert before["attempt"] == 1

    os.kill(shop.work.driver().pid, signal.SIGKILL)
    again = shop.wait_for(lambda s: is_running(s) and s["attempt"] == 2, first, capsys)
    assert again["lineage"] == before["lineage"]
    assert again["incarnation"] > before["incarnation"]
    assert again["restored_from"] is not None
    assert "the driver was killed by SIGKILL; attempt 2 starts in" in first.screen

    shop.make_input(10)
    expected = shop.purchases()
    arguments = [
        "state",
        "get",
        shop.manifest,
        "--operator",
        "purchases",
        "--state",
        "count",
        "--key",
        '"ada"',
    ]

    def ada() -> int:
        main.main(arguments)
        return json.loads(capsys.readouterr().out or "null") or 0

    terminal.wait_until(lambda: ada() == expected["ada"], START_S, lambda: first.screen[-3000:])

    assert main.main(["savepoint", shop.manifest, "--trigger-id", "mine"]) == 0
    mine = capsys.readouterr().out.strip()
    assert main.main(["savepoint", shop.manifest, "--trigger-id", "mine"]) == 0
    assert capsys.readouterr().out.strip() == mine
    assert main.main(["checkpoints", shop.manifest]) == 0
    assert mine in capsys.readouterr().out
    assert "epoch " in first.screen
    assert "\r\x1b[2K" in first.screen  # one line, renewed in place

    first.type("\x03")
    assert first.wait(START_S) == 0, first.screen
    assert "shop stopped with savepoint" in first.screen
    assert terminal.marked(shop.mark) == {}
    assert sorted(path.name for path in shop.work.root.iterdir()) == [
        "attempt",
        "lineage",
        "lock",
        "logs",
        "termination.json",
    ]

    assert main.main(["restore-info", shop.manifest, "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert stored["closed_by"] == stored["savepoints"][-1]["url"]
    assert stored["restore_point"]["epoch"] == stored["savepoints"][-1]["epoch"]
    assert stored["closed_by"] in first.screen
    assert stored["attempt"] == 2
    assert stored["savepoints"][0]["trigger_id"] == "mine"
    [operator] = stored["restore_point"]["operators"]
    assert {state["name"] for state in operator["states"]} >= {"count", "total", "last"}

    shop.make_input(5)
    second = shop.run(*BOUNDED, "spec.slots=3")
    assert second.wait(START_S) == 0, second.screen
    assert "state of lineage" in second.screen
    assert "shop finished" in second.screen
    assert shop.counted() == shop.purchases()
    assert terminal.marked(shop.mark) == {}


def test_nothing_survives_a_runner_that_is_killed_and_the_next_run_goes_on(shop: Shop, capsys) -> None:
    shop.make_input(5)
    first = shop.run()
    shop.wait_for(lambda s: is_running(s) and s["last_checkpoint"] is not None, first, capsys)
    assert len(terminal.marked(shop.mark)) >= 5  # runner, driver, JVM, two slots
    first.kill()
    terminal.wait_until(
        lambda: not terminal.marked(shop.mark), 60.0, lambda: json.dumps(terminal.marked(shop.mark), indent=1)
    )
    second = shop.run(*BOUNDED)
    assert second.wait(START_S) == 0, second.screen
    assert shop.work.last_attempt() == 2
    assert shop.counted() == shop.purchases()


@pytest.mark.extra
def test_a_second_ctrl_c_kills_the_job_at_once(shop: Shop, capsys) -> None:
    shop.make_input(2)
    running = shop.run()
    shop.wait_for(is_running, running, capsys)
    running.type("\x03")
    terminal.wait_until(lambda: "press Ctrl-C again" in running.screen, 30.0, lambda: running.screen)
    running.type("\x03")
    assert running.wait(60.0) in (0, 130)  # 0 if the savepoint was quicker than the second key
    terminal.wait_until(lambda: not terminal.marked(shop.mark), 60.0, lambda: str(terminal.marked(shop.mark)))


def test_a_run_that_is_to_start_empty_does_although_its_first_driver_dies_at_once(shop: Shop) -> None:
    shop.make_input(2)
    before = shop.run(*BOUNDED)
    assert before.wait(START_S) == 0, before.screen
    output = shop.folder / "output" / "purchases"
    output.rename(output.with_name("before"))

    anew = shop.run(*BOUNDED, "spec.startEmpty=true")

    def driver() -> int | None:
        words = terminal.marked(shop.mark).items()
        return next((pid for pid, command in words if "-m sparkstate.driver " in command), None)

    terminal.wait_until(driver, START_S, lambda: anew.screen[-3000:])
    os.kill(driver() or 0, signal.SIGKILL)
    assert anew.wait(START_S) == 0, anew.screen
    assert "the driver was killed by SIGKILL; attempt 3 starts in" in anew.screen
    assert shop.counted() == shop.purchases(), "it has read all input again"


def test_a_second_run_of_the_same_folder_is_refused(shop: Shop, capsys) -> None:
    with shop.work.locked():
        refused = shop.run()
        assert refused.wait(60.0) == 1
    assert "is in use by another `sparkstate run`" in refused.screen


def test_a_second_run_that_would_share_the_disk_of_the_driver_is_refused(shop: Shop, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with workdir.WorkDir(tmp_path / "another", disk / "sparkstate-shop").locked():
        refused = shop.run(f"spec.localStorage.paths={disk}")
        assert refused.wait(60.0) == 1
    assert f"{disk}/sparkstate-shop is in use by another `sparkstate run`" in refused.screen
    assert "--set spec.localStorage.paths=" in refused.screen


@pytest.mark.extra
def test_a_job_whose_code_raises_ends_with_the_reason(shop: Shop) -> None:
    job = shop.folder / "job.py"
    job.write_text(
        job.read_text().replace(
            "count = (self.count", "raise ValueError('no such shop')\n        count = (self.count"
        )
    )
    shop.make_input(1)
    failed = shop.run("spec.restart.strategy=none", "spec.restart.fixedDelay=null")
    assert failed.wait(START_S) == 1
    assert "UserCodeError" in failed.screen
    assert "no such shop" in failed.screen
    assert terminal.marked(shop.mark) == {}
