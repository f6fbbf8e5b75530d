"""One job under the real supervisor, whose driver is ``fake_driver``."""

import io
import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sparkstate import clock, restart, settings, storage
from sparkstate.control import client
from sparkstate.log import lineage, log
from sparkstate.runner import command, periodic, process, progress, schedule, supervisor, watching, workdir
from sparkstate.runner.savepoint_store import SavepointStore
from sparkstate.stored import lineages

TESTS = str(Path(__file__).parents[2])
NAME = "rotations"
FULL_NAME = f"local/default/{NAME}"
QUICK = settings.RestartSettings(strategy="fixed-delay", attempts=3, delay_s=0.05)


class World:
    """One job's folder, storage and runner."""

    def __init__(self, tmp_path: Path) -> None:
        self.clock = clock.SystemClock()
        self.folder = workdir.WorkDir(tmp_path / "work")
        self.storage = (tmp_path / "storage").as_uri()
        self.output = io.StringIO()
        self.stop = watching.StopRequest()
        self.restart = QUICK
        self.savepoints = settings.SavepointSettings()
        self.behaviour: dict[str, object] = {"storage": self.storage, "name": NAME}
        self.first_attempt = 1
        self.started: list[process.DriverProcess] = []

    @property
    def job(self) -> settings.JobSettings:
        return settings.JobSettings(
            name=NAME,
            entry=settings.EntryPoint(),
            checkpoint=settings.CheckpointSettings(storage=self.storage),
            savepoint=self.savepoints,
            restart=self.restart,
        )

    def launch(self, attempt: int) -> process.DriverProcess:
        arguments = command.DriverArguments(manifest=Path("job.yaml"))
        known = self.folder.known_lineage(self.storage, FULL_NAME)
        words = command.driver_command(arguments, self.folder, attempt, known)
        words[2] = "support.drivers.fake_driver"  # in place of `sparkstate.driver`
        environment = {**os.environ, "PYTHONPATH": TESTS, "FAKE_DRIVER": json.dumps(self.behaviour)}
        log = self.folder.new_log_file(attempt)
        self.started.append(process.DriverProcess.start(words, environment, log, self.clock))
        return self.started[-1]

    def connect(self, address: str) -> client.ControlClient:
        return client.ControlClient(address, self.folder.read_token() or "", timeout_s=5.0)

    def run(self) -> int:
        reporter = progress.Reporter(self.output, self.clock)
        plan = schedule.from_settings(self.savepoints)
        savepoints = None
        if plan is not None:
            savepoints = periodic.PeriodicSavepoints(
                plan,
                self.savepoints,
                SavepointStore(self.job, self.clock),
                self.clock,
                reporter.message,
                first_start_ms=self.clock.now_ms(),
            )
        with self.folder.locked():
            self.folder.write_token("t0ken-of-the-supervisor-tests-0123456789")
            found = lineages.find(self.job, self.clock)
            code = supervisor.Supervisor(
                job=watching.Job(
                    name=NAME,
                    first_attempt=self.first_attempt,
                    savepoint_on_stop=self.savepoints.on_stop,
                    storage=self.storage,
                    full_name=FULL_NAME,
                    kept_before=found.state.restore_point if found else None,
                ),
                folder=self.folder,
                launch=self.launch,
                connect=self.connect,
                counters=restart.FailureCounters(restart.RestartStrategy(self.restart, random.Random(1))),
                savepoints=savepoints,
                savepoint_store=SavepointStore(self.job, self.clock),
                stop=self.stop,
                clock=self.clock,
                reporter=reporter,
            ).run()
            if savepoints is not None:
                savepoints.close()
            self.folder.clean()
        return code

    def driver(self) -> workdir.DriverAddress:
        """The running driver, once it has written where it is."""
        return wait_for(self.folder.driver)

    def lineage_log(self) -> log.LineageLog:
        found = lineage.find(
            storage.open_store(self.storage), lineage.JobName(cluster="local", namespace="default", name=NAME)
        )
        assert found is not None
        opened = log.LineageLog(found.store, self.clock)
        opened.refresh()
        return opened


def wait_for(look, timeout_s: float = 60.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{look} gave nothing within {timeout_s} s")


def in_background(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread
