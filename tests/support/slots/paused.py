"""An incarnation that may take nothing in, over a real slot and a real storage."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.slots import slots
from support.slots.running import Running, settings

from sparkstate import clock, errors
from sparkstate.control import driver_life
from sparkstate.control.documents import DriverPhase, JobIdentity
from sparkstate.driver.pausing import Pauses
from sparkstate.driver.view import JobView
from sparkstate.log.fence import FenceGuard


class Paused:
    """An incarnation between two epochs."""

    def __init__(self, folder: Path, **checkpointing: float) -> None:
        self.running = Running(folder, **checkpointing)
        self.over = threading.Event()
        self.lost: errors.SparkstateError | None = None
        time_ = clock.SystemClock()
        self.view = JobView(JobIdentity(job_uid="u", attempt=1), "job", "default", "hashmap", time_)
        self.view.happened(driver_life.RESTORES)
        self.view.happened(driver_life.FILLED)
        self.said: list[str] = []
        context = SimpleNamespace(
            view=self.view,
            clock=time_,
            requests=self.running.requests,
            say=self.said.append,
            settings=settings(folder, **checkpointing),
        )
        parts: Any = SimpleNamespace(
            context=context,
            job_storage=self.running.job_storage,
            guard=FenceGuard(self.running.job_storage.log, 1.0, time_),
        )
        self.guard = parts.guard
        self.pauses = Pauses(parts, lambda: self.lost, self.over)

    def commit(self, epoch: int, total: int) -> None:
        self.running.slot.epoch(epoch, slots.rows(("a", total)))
        self.running.checkpoints.unsaved.held_bytes = self.held()

    def held(self) -> int:
        (status,) = self.running.group.status(30)
        return status.held_bytes

    def hold_back(self, epoch: int) -> threading.Thread:
        checkpoints = self.running.checkpoints
        thread = threading.Thread(
            target=self.pauses.hold_back, args=(checkpoints, lambda: self.running.start(epoch))
        )
        thread.start()
        return thread

    def is_paused(self) -> bool:
        return self.view.phase is DriverPhase.PAUSED
