"""The things that a driver is given at its start and has until its end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sparkstate import clock, phases
from sparkstate.driver.code_settings import CodeSettings
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.keys import Keys
from sparkstate.settings import JobSettings
from sparkstate.slots.starting import LocalSlots
from sparkstate.spark.session import Beginning

_LOOK_S = 0.05


@dataclass(frozen=True, kw_only=True)
class DriverContext:
    """Of one driver process, which is one life of one attempt."""

    settings: JobSettings
    attempt: int
    spark: Beginning
    """Spark's session, which is on its way."""
    slots_here: LocalSlots | None
    """Starts slots beside the driver; None where they live in executors."""
    keys: Keys
    work_dir: Path
    view: JobView
    requests: Requests
    clock: clock.Clock
    phases: phases.Phases
    rng: random.Random
    """For the jitter of restarts."""
    began_s: float
    """When the driver began, by the monotonic clock."""
    say: Callable[[str], None]
    """Prints a sentence for the log."""
    saved: Callable[[float], object]
    """Called when the pod must end and nothing more is saved, with the seconds of work that no checkpoint holds: it
    ends the process there."""
    code: CodeSettings = field(default_factory=CodeSettings)
    """Decides the settings again once the job's code has had its word."""

    def reached(self, step: str) -> None:
        """Tell a step of a start, and how long after the driver's begin it was reached."""
        self.say(f"{step}, {self.clock.monotonic() - self.began_s:.1f} s after the driver began")

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the job is asked to end."""
        deadline = self.clock.monotonic() + seconds
        while self.clock.monotonic() < deadline and not self.requests.ending():
            self.clock.sleep(_LOOK_S)
