"""The memory that this process has of one job. All of it can be lost; the operator then reads more, or waits longer.

Three parts are about one job, by its uid, and go with it: what became of its attempts, what the last look saw, and what
its driver said last. The rest is about the next step, whichever job has the name. A field about one job belongs to one
of the three parts: :meth:`Memory.is_about` replaces those, and any other field outlives the job.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkstate_operator import errors, observed, plan
from sparkstate_operator.echoes import Echo
from sparkstate_operator.pacing import Dues


@dataclass
class Attempts:
    """Facts that nobody else knows of the job's attempts. Written by watch, reader and applier."""

    sightings: dict[int, observed.Pod] = field(default_factory=dict)
    """The last sight of each driver pod, by attempt. Once a pod is gone, nobody else knows how it ended; without this
    the next attempt waits longer."""
    revisions: dict[str, plan.Revision] = field(default_factory=dict)
    never_made: int = 0
    """The attempt whose pod the API server has refused; 0: none."""
    unanswered: int = 0
    """The attempt whose pod may exist, because the request for it had no answer; 0: none."""
    unkept: str = ""
    """Why the API server refused the revision of the job's spec at the last look, which then did nothing else."""
    unasked: observed.CommandRefusal | None = None
    """The check whose Job could not be made. The name is that of one question, so the next one is asked anew."""
    unwritten: str = ""
    """Uid of the job, if it was seen before our finalizer was on it and no status has been written since. A new job
    whose first status write failed would otherwise look like one whose status was lost, and wait for the storage."""

    @contextlib.contextmanager
    def noting_refusals(self, *, of_spec: bool) -> Iterator[None]:
        """``of_spec``: it is about the revision of the job's spec. The next look does without that one."""
        try:
            yield
        except errors.TOLD as error:
            self.unkept = str(error) if of_spec else ""
            raise

    @contextlib.contextmanager
    def noting_check(self, name: str) -> Iterator[None]:
        """``name``: of the check's Job. The last answer counts."""
        self.unasked = None
        try:
            yield
        except errors.OperatorError as error:
            passes = isinstance(error, errors.ApiError) and not error.judged
            judged = isinstance(error, errors.TOLD) and not passes
            self.unasked = observed.CommandRefusal(name, str(error), judged)
            raise

    def take_unkept(self) -> str:
        """For one look: the one after it tries the revision again."""
        unkept, self.unkept = self.unkept, ""
        return unkept


@dataclass
class LastLook:
    """The result of the last look at the whole job, and when that was."""

    deep_s: float | None = None
    """When what hardly ever changes was read."""
    progress_s: float | None = None
    """When the status was written."""
    leftovers: bool = False
    """Whether there was anything of older attempts."""
    snapshots: tuple[str, ...] = ()
    """Versions of the job's snapshots."""
    kept: bytes | None = None
    """Its result (``kept_look``), while there has been no event since and nothing is under way."""
    listed: dict[str, str] = field(default_factory=dict)
    """Versions of the job's pods in the inventory, by uid, of which the watch has said nothing yet."""
    listed_s: float = 0.0
    """When they were listed."""


@dataclass
class Driver:
    """The job's driver between two looks."""

    endpoint: observed.DriverEndpoint | None = None
    """None: there is none that can be asked."""
    news: observed.News = observed.NO_NEWS
    """The news that it told at the last look."""


@dataclass
class Memory:
    """See the module."""

    uid: str = ""
    """Of the job that the three parts are about."""
    attempts: Attempts = field(default_factory=Attempts)
    last: LastLook = field(default_factory=LastLook)
    driver: Driver = field(default_factory=Driver)
    phase: str = ""
    phase_since_s: float | None = None
    echo: Echo = field(default_factory=Echo)
    """Of what was written into the job's status."""
    stirred: bool = True
    """Whether there was an event since the last look."""
    dues: Dues = field(default_factory=Dues)
    """When the next look is due without any event."""

    def is_about(self, uid: str) -> bool:
        """Whether it is about the job with this uid. If it was about another of the same name, that is forgotten: its
        pods were not this one's."""
        same = self.uid in ("", uid)
        if not same:
            self.attempts, self.last, self.driver = Attempts(), LastLook(), Driver()
        self.uid = uid
        return same
