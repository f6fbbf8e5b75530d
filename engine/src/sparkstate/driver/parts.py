"""What the pieces of a driver share over all incarnations of its job."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparkstate import clock, phases
from sparkstate.driver.durable import Durable
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.keys import Keys
from sparkstate.log.fence import FenceGuard
from sparkstate.settings import JobSettings
from sparkstate.slots.starting import Here
from sparkstate.spark import graph
from sparkstate.spark.session import SparkSession


class End(enum.Enum):
    """How an incarnation ended when it did not fail."""

    INPUT_ENDED = "input-ended"
    SAVEPOINT = "savepoint"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What lives longer than one incarnation."""

    settings: JobSettings
    session: SparkSession
    declared: graph.Graph
    durable: Durable
    guard: FenceGuard
    requests: Requests
    view: JobView
    clock: clock.Clock
    phases: phases.Phases
    keys: Keys
    work_dir: Path
    python_path: tuple[str, ...]
    slots_here: Here | None
    """Starts slots beside the driver; None where they live in executors."""
    saved: Callable[[float], object]
    """Called when the pod is to end and nothing more is saved, with the seconds of work that no checkpoint holds: it
    ends the process there."""
    say: Callable[[str], None]
    """Prints a sentence for the log."""
    reached: Callable[[str], None]
    """Tells a step of a start, to which it adds how long after the driver's begin it was reached."""

    def given_up(self) -> bool:
        """Whether nobody waits for a start any more: the job is to end, or another driver has it."""
        return self.requests.ending() or self.guard.fenced
