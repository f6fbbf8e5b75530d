"""Attempt 3 of a job as the operator asks it: the operator's real client before the engine's real endpoint."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from sparkstate import keys as engine
from sparkstate.control import documents
from sparkstate_operator.core import keys as operator
from sparkstate_tools.drivers import control_job

UID = "0f9c5a86-4b7e-4b4e-9f8d-0c1d2e3f4a5b"
OWN = operator.of_attempt(b"an operator's own key, 32 bytes.", UID, 3)
HELD = engine.Keys(admin=OWN.admin, read=OWN.read, slots=OWN.slots)
HERE = "127.0.0.1"


class LoopClock:
    """The event loop's."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.monotonic(), UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def job() -> control_job.InMemoryJob:
    return control_job.InMemoryJob(
        documents.JobStatus(
            job_uid=UID, name="orders", attempt=3, phase=documents.DriverPhase.RUNNING, backend="hashmap"
        )
    )
