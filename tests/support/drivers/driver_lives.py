"""A driver's life from its begin to its end, by a script: Spark, slots and storage are scripted, what tells a phase is
real: the attempt, the claim, the job, the start of an incarnation, its epochs, pauses and restarts."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.control.documents import DriverPhase
from sparkstate.control.driver_life import Transition
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import attempt, claiming, incarnation, preparing, starting
from sparkstate.driver.context import DriverContext
from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.job import JobDriver
from sparkstate.driver.outcomes import Outcome
from sparkstate.driver.parts import Origin, Parts
from sparkstate.driver.view import JobView
from sparkstate.log.fence import Verdict
from sparkstate.log.records import SavepointCommitted
from sparkstate.settings import CheckpointSettings, EntryPoint, JobSettings
from sparkstate.slots.last_lines import LastLines
from sparkstate.spark import capture

Event = Callable[["Life"], object]
Arrow = tuple[DriverPhase, Transition]


@dataclass
class Life:
    """Events by where they happen, one for each time that the driver comes there: ``claim``, ``restore``, ``fill`` (the
    slots), ``run`` (the query), ``end`` (the last epoch of bounded input). Where none is left, all goes well."""

    events: dict[str, list[Event]]
    bounded: bool = True
    """Whether the input has an end. A query over one that has none runs until an event ends it."""
    arrows: set[Arrow] = field(default_factory=set)
    verdicts: list[Verdict] = field(default_factory=list)
    request: SavepointTrigger | None = None
    context: DriverContext = field(init=False)
    loop: EpochLoop = field(init=False)
    query: _Query = field(init=False)
    """Of the newest incarnation."""
    pauses: Any = None
    stopped_with: SavepointCommitted | None = None
    """What the log says once something has failed."""

    def live(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome | None:
        """From the begin to the end, whichever that is. None: the job has failed."""
        settings = JobSettings(
            name="job", entry=EntryPoint(module="a"), checkpoint=CheckpointSettings(storage=str(folder))
        )
        self._replace_edges(monkeypatch)
        options = Namespace(attempt=1, token_file=None, listen="", status_file=None)
        spark = cast("Any", SimpleNamespace(claimed=lambda life: None, loss=lambda wait_s: None))
        with contextlib.suppress(errors.SparkstateError):
            return attempt.run(options, settings, (), spark, None, lambda told: None, LastLines())
        return None

    def happens(self, where: str) -> None:
        """The next event there."""
        if self.events.get(where):
            self.events[where].pop(0)(self)

    def check(self) -> Verdict:
        """What the log says of our claim."""
        return self.verdicts.pop(0) if self.verdicts else Verdict.GO

    def _replace_edges(self, monkeypatch: pytest.MonkeyPatch) -> None:
        life, go, clock = self, JobView._go, ManualClock()

        def noted(view: JobView, what: Transition) -> str:
            if what.after(view.phase) is not view.phase:
                life.arrows.add((view.phase, what))
            return go(view, what)

        def claimed(*_: object) -> object:
            life.happens("claim")
            lineage = SimpleNamespace(created=True, id="l", store=SimpleNamespace(url="file:///l"))
            return SimpleNamespace(lineage=lineage, log=SimpleNamespace(token=SimpleNamespace(life=1)))

        def runner(_parts: Parts, _origin: Origin, _pool: object, pauses: object, *_: object) -> object:
            life.pauses = pauses
            made = mock.MagicMock()
            result = SimpleNamespace(
                waited_ms=0, held_bytes=0, duration_ms=1, rows=0, watermarks=SimpleNamespace(current=0),
                next_event_timer=None, next_processing_timer=None, late_rows=0, dropped_rows=0, timers_fired=0,
                operators=(),
            )  # fmt: skip
            made.run.side_effect = lambda *_args, **_named: (life.happens("end"), result)[1]
            return made

        def loop(*given: Any) -> EpochLoop:
            life.loop = EpochLoop(*given)
            return life.loop

        endpoint = SimpleNamespace(address="", metrics=mock.MagicMock())
        server = SimpleNamespace(
            parse=lambda _: ("", 0), ControlServer=lambda *_: contextlib.nullcontext(endpoint)
        )
        monkeypatch.setattr(JobView, "_go", noted)
        monkeypatch.setattr(attempt, "clock", SimpleNamespace(SystemClock=lambda: clock))
        monkeypatch.setattr(attempt, "signal", mock.MagicMock())
        monkeypatch.setattr(attempt, "server", server)
        monkeypatch.setattr(attempt, "JobDriver", lambda context: _Driver(context, life))
        monkeypatch.setattr(claiming, "claim", claimed)
        monkeypatch.setattr(preparing, "prepare", lambda *_: mock.MagicMock())
        monkeypatch.setattr(incarnation, "watching", SimpleNamespace(watch=lambda *_: None))
        monkeypatch.setattr(starting, "SlotPool", SimpleNamespace(start=lambda *_: self._slot_pool()))
        monkeypatch.setattr(starting, "_query", lambda *_: _Query(life))
        monkeypatch.setattr(starting, "_runner", runner)
        monkeypatch.setattr(starting, "_checkpoints", lambda *_: self._checkpoints())
        monkeypatch.setattr(starting, "EpochLoop", loop)
        monkeypatch.setattr(EpochLoop, "_position", lambda *_: capture.CapturedPosition())

    def _slot_pool(self) -> Any:
        made = mock.MagicMock()
        made.group.addresses = ()
        made.restore.side_effect = lambda _: self.happens("fill")
        return made

    def _checkpoints(self) -> Any:
        """None succeeds that is to stop the job."""
        made = mock.MagicMock(closed_by=None, is_awaited=False)
        made.stop_requested.side_effect = lambda: self.request
        made.next_request.return_value = None
        return made


class _Driver(JobDriver):
    def __init__(self, context: DriverContext, life: Life) -> None:
        super().__init__(context)
        self._life = life
        life.context = context

    def _parts(self, *_: object) -> Parts:
        job_storage = mock.MagicMock(outages=self._context.view.outages, stopped_with=self._life.stopped_with)
        guard = SimpleNamespace(check=self._life.check, cause=None, reason_behind=lambda error: error)
        made = mock.MagicMock(context=self._context, job_storage=job_storage, guard=guard)
        made.heartbeat = not self._life.bounded
        return cast("Parts", made)

    def _restore(self, parts: Parts) -> Origin:
        self._life.happens("restore")
        return cast("Origin", mock.MagicMock(number=1, epoch=-1))


class _Query:
    """Spark's: over bounded input it runs as long as its events last, and then its input has ended."""

    def __init__(self, life: Life) -> None:
        self._life, self.failure = life, cast("BaseException | None", None)
        self.directory = Path("of no query")
        self.ended = life.bounded
        self.has_read_all = lambda: life.bounded and not self.stopped
        self.stopped = False
        life.query = self

    def wait(self, _: float) -> bool:
        try:
            self._life.happens("run")
        except errors.SparkstateError as error:
            self.failure, self.ended = error, True
        return self.ended and not self._life.context.requests.ending()

    def hold(self, *_: object) -> None:
        """No further epoch."""

    stop = abandon = hold


# -- events ------------------------------------------------------------------------------------------------------------


def fails(error: errors.SparkstateError) -> Event:
    """Whatever runs there does not come to its end."""

    def happens(_: Life) -> None:
        raise error

    return happens


def cancelled(life: Life) -> None:
    """The job is asked to end."""
    life.context.requests.cancelled.set()


def stopped_elsewhere(life: Life) -> None:
    """The job's code stops the query."""
    life.query.ended = life.query.stopped = True


def away(life: Life) -> None:
    """The log does not answer one question, and then it does."""
    life.verdicts = [Verdict.PAUSED]
    life.pauses.may_go_on()


class _StillWaits(Exception):
    """The thread that asks the log sleeps between two looks."""


def away_beyond(life: Life) -> None:
    """The log does not answer, and the driver's own thread goes on while another one waits for it."""
    sleep = life.context.clock.sleep

    def asleep(_: float) -> None:
        life.context.clock.sleep = sleep  # type: ignore[method-assign]
        raise _StillWaits

    life.context.clock.sleep = asleep  # type: ignore[method-assign]
    life.verdicts = [Verdict.PAUSED]
    with contextlib.suppress(_StillWaits):
        life.pauses.may_go_on()


def cancelled_while_away(life: Life) -> None:
    """The log never answers, and the job is asked to end in that pause."""
    life.verdicts = [Verdict.PAUSED, Verdict.PAUSED]
    sleep = life.context.clock.sleep

    def asleep(seconds: float) -> None:
        cancelled(life)
        sleep(seconds)

    life.context.clock.sleep = asleep  # type: ignore[method-assign]
    life.pauses.may_go_on()


def stopped_in_vain(*, drain: bool) -> Event:
    """The savepoint to stop with fails."""

    def happens(life: Life) -> None:
        life.request = SavepointTrigger(trigger_id="t", stop=True, drain=drain)
        life.loop._stop_with_savepoint(life.request, 1)

    return happens


def both(*events: Event) -> Event:
    """One after the other."""

    def happens(life: Life) -> None:
        for event in events:
            event(life)

    return happens


def told(arrows: set[Arrow]) -> list[str]:
    """For people."""
    return sorted(f"{before} -> {what.to}: {what.when}" for before, what in arrows)
