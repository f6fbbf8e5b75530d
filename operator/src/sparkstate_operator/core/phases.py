"""The phases of a job and of a snapshot, and what each means to somebody who waits for the object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sparkstate_operator.model.snapshot import SnapshotPhase
from sparkstate_operator.model.status import JobPhase


@dataclass(frozen=True)
class Meaning:
    """``as_wanted``: the object is as its spec asks. ``progressing``: the operator or the driver works on it.
    ``stuck``: nothing happens until a person does something."""

    as_wanted: bool = False
    progressing: bool = False
    stuck: bool = False


JOB: dict[JobPhase, Meaning] = {
    "Pending": Meaning(progressing=True),
    "Starting": Meaning(progressing=True),
    "Running": Meaning(as_wanted=True),
    "Upgrading": Meaning(progressing=True),
    "Suspending": Meaning(progressing=True),
    "Suspended": Meaning(as_wanted=True),
    "Failing": Meaning(progressing=True),
    "RestoreBlocked": Meaning(stuck=True),
    "Failed": Meaning(stuck=True),
    "Finished": Meaning(as_wanted=True),
    "Deleting": Meaning(progressing=True),
}

SNAPSHOT: dict[SnapshotPhase, Meaning] = {
    "Pending": Meaning(progressing=True),
    "Triggered": Meaning(progressing=True),
    "InProgress": Meaning(progressing=True),
    "Completed": Meaning(as_wanted=True),
    "Failed": Meaning(stuck=True),
    "Deleting": Meaning(progressing=True),
}

assert set(JOB) == set(get_args(JobPhase)) and set(SNAPSHOT) == set(get_args(SnapshotPhase))
