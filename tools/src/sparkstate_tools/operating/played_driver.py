"""A driver played by a test: the engine's real control endpoint before a job that lives in memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from sparkstate import keys
from sparkstate.control import documents, server
from sparkstate.control.port import SavepointTrigger
from sparkstate_operator.core import keys as attempt_keys
from sparkstate_tools.drivers import control_job
from sparkstate_tools.operating.operator_process import KEY


class PlayedDriver(control_job.InMemoryJob):
    """The driver of one attempt. Savepoints complete when the test calls :meth:`complete`."""

    def __init__(self, uid: str, attempt: int) -> None:
        super().__init__(
            documents.JobStatus(
                job_uid=uid,
                name="orders",
                attempt=attempt,
                phase=documents.DriverPhase.RUNNING,
                backend="hashmap",
                lineage="00aa11bb22cc33dd",
                slots=(control_job.slot(0), control_job.slot(1)),
            )
        )

    def until_asked(self, timeout_s: float = 20.0) -> SavepointTrigger:
        """The newest savepoint request, once there is one."""
        deadline = time.monotonic() + timeout_s
        while not self.requests():
            assert time.monotonic() < deadline, "the driver is not asked for a savepoint"
            time.sleep(0.05)
        return self.requests()[-1]

    def complete(self, request: SavepointTrigger, location: str) -> None:
        """The savepoint is there."""
        self.finish_savepoint(
            request.trigger_id, status=documents.SavepointPhase.COMPLETED, location=location, epoch=7
        )

    def fail(self, request: SavepointTrigger, failure: str) -> None:
        """The savepoint has failed."""
        self.finish_savepoint(request.trigger_id, status=documents.SavepointPhase.FAILED, failure=failure)

    def checkpoints_done(self, number: int) -> None:
        """So many checkpoints have completed."""
        self.update(last_checkpoint=control_job.checkpoint(number), checkpoints_completed=number)


@contextlib.contextmanager
def serving(uid: str, attempt: int, port: int) -> Iterator[PlayedDriver]:
    """It answers on the loopback, as the pod that the tests' kubelet gives that address."""
    driver = PlayedDriver(uid, attempt)
    own = attempt_keys.of_attempt(KEY.encode(), uid, attempt)
    held = keys.Keys(admin=own.admin, read=own.read, slots=own.slots)
    with server.ControlServer(driver, held, "127.0.0.1", port):
        yield driver
