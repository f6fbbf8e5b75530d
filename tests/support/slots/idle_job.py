"""A job that has epochs without rows: a real slot and a real storage, and epochs without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.slots import slots
from support.slots.running import Running

from sparkstate import phases
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.parts import Origin
from sparkstate.spark import capture
from sparkstate.spark.epochs import EpochRunner
from sparkstate.spark.watermarks import SourceTime, Watermarks
from sparkstate.testing.manual_clock import ManualClock

IDLE_MS = 30_000
NEW = RestoredSnapshot(RestorePlan("empty", "nothing was found"))


class IdleJob:
    """Its checkpoints are due at the end of every epoch. Of its two partitions, one is behind until it is idle, and the
    other has reached ``ahead``."""

    def __init__(
        self, folder: Path, time: ManualClock, ahead: int, restored: RestoredSnapshot = NEW, **options: Any
    ) -> None:
        self.running = Running(folder, interval_s=0.0, **options)
        self.time = time
        declared: Any = SimpleNamespace(operators={}, sinks=(), sources=())
        session: Any = None
        of_partitions = SourceTime(0, IDLE_MS, 0, ("partition",))
        self.runner = EpochRunner(
            session,
            declared,
            slots.KEY_SPACE,
            self.running.group,
            Watermarks((of_partitions,)).advance({(0, "a"): ahead, (0, "b"): 50}, 0),
            self.time,
            phases.Phases("driver", self.time, {}),
            lambda: None,
            60.0,
        )
        context = SimpleNamespace(view=self.running.view, clock=self.time, reached=lambda _: None)
        parts: Any = SimpleNamespace(context=context)
        query: Any = SimpleNamespace(position=lambda *_: capture.CapturedPosition())
        pauses: Any = SimpleNamespace(hold_back=lambda *_: None)
        origin = Origin(restored, 1, slots.KEY_SPACE)
        self._loop = EpochLoop(
            parts, origin, query, self.runner, self.running.checkpoints, pauses, EpochPipeline()
        )
        self._following = 0

    @property
    def following(self) -> int:
        """The number of the next epoch."""
        return self._following

    def run(self, frame: Any = None) -> None:
        """An epoch, and the checkpoint that may follow it. Without a frame the heartbeat alone has started it."""
        self._loop.on_epoch(frame, self._following)
        self._following += 1
        self.running.checkpoints.wait()

    @property
    def completed(self) -> int:
        return self.running.view.status().checkpoints_completed

    def close(self) -> None:
        self.runner.close()
        self.running.close()
