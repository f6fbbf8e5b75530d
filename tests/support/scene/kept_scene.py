"""A job of which a look was kept, with a script of the world: what reads and writes is scripted, all else is real."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import pickle
from collections.abc import Callable
from datetime import datetime
from typing import Any

from support.scene.decisions import NOW, job, pod, revision, running_status

from sparkstate_operator import errors, labels, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Others
from sparkstate_operator.memories import Key
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.observe import HeardReport, Look, Memory
from sparkstate_operator.queue import Requeue
from sparkstate_operator.reconcile import Reconciler

KEY = Key("job", "shop", "orders")
ENDPOINT = observed.DriverEndpoint("10.0.0.1", "uid-1", 1)
RUNNING: dict[str, Any] = {
    "phase": "RUNNING",
    "restarts": 0,
    "last_checkpoint": {"id": 6, "path": "s3://b/6"},
}


def said(checkpoint: int = 6, **fields: Any) -> observed.Report:
    last = {"id": checkpoint, "path": f"s3://b/{checkpoint}"}
    return observed.Report({**RUNNING, "last_checkpoint": last, **fields})


def settled() -> observed.Document:
    """The status of a job whose driver says what ``said()`` says, when nothing is left to do about it."""
    status: observed.Document = running_status()
    for _ in range(5):
        seen = observed.ObservedState(job(status), NOW, drivers=(pod(),), report=said())
        found = decide(seen, {revision().name: revision()}, revision(), "", Config()).status
        if dict(found) == dict(status):
            return status
        status = found
    raise AssertionError(f"it changes for ever: {status}")


SETTLED = settled()


def too_deep() -> dict[str, Any]:
    """A document that pickle refuses for its depth, which differs among versions of Python."""
    document: dict[str, Any] = {}
    while True:
        for _ in range(100):
            document = {"a": document}
        try:
            pickle.dumps(document)
        except RecursionError:
            for _ in range(100):
                document = {"a": document}
            return document


class Clock:
    """Goes as far as it is told."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def now(self) -> datetime:
        return NOW


class World:
    """What is there, and what has been done: observer and applier at once. ``report``: what the driver says; None: it
    does not answer. ``compares``: a write is refused whose object has been changed since."""

    def __init__(self, config: Config, *, compares: bool) -> None:
        self._config, self._compares = config, compares
        notes = {labels.MANAGER: config.mark} if config.mark else {}
        self.job = dataclasses.replace(job(SETTLED), annotations=notes)
        self.pods: tuple[observed.Pod, ...] = (pod(),)
        self.report: observed.Report | None = said()
        self.strays: tuple[tuple[k.Kind, observed.Child], ...] = ()
        self.looks = 0
        self.compared = 0
        """Looks that read all children."""
        self.done: list[tuple[str, int]] = []
        """Acts, with how many looks there had been."""
        self.written: list[observed.Document] = []
        self.conflicts = 0
        self.meanwhile: Callable[[], None] = lambda: None

    async def look(
        self, _namespace: str, _name: str, memory: Memory, now: datetime, *, deep: bool, **_: Any
    ) -> Look:
        self.looks += 1
        self.compared += deep
        if self.job.labels.get(labels.OPERATOR_CLASS, "") != self._config.operator_class:
            return Look(None, {}, others=Others(self.job, None))
        memory.is_about(self.job.uid)
        memory.driver.endpoint = ENDPOINT if self.pods else None
        children = () if deep else None
        seen = observed.ObservedState(self.job, now, drivers=self.pods, report=self.report, children=children)
        return Look(seen, {revision().name: revision()}, self.strays)

    async def listen(self, endpoint: observed.DriverEndpoint) -> HeardReport:
        return HeardReport(endpoint, self.report)

    async def running_revision(self, _job: observed.Job, memory: Memory) -> plan.Revision:
        return memory.attempts.revisions.setdefault(revision().name, revision())

    async def status(
        self, _kind: Any, about: observed.Job, _namespace: str, status: observed.Document
    ) -> str:
        self.meanwhile()
        if self.conflicts or (self._compares and about.resource_version != self.job.resource_version):
            self.conflicts = max(0, self.conflicts - 1)
            raise errors.Conflict(409, "the object has been modified")
        self.done.append(("status", self.looks))
        self.written.append(status)
        self.job = dataclasses.replace(self.job, resource_version=str(len(self.written) + 7), status=status)
        return self.job.resource_version

    def __getattr__(self, name: str) -> Any:
        async def act(*_: Any, **__: Any) -> str:
            self.done.append((name, self.looks))
            return "99"

        return act


class Recorder:
    """Every Event is new."""

    def body(self, *_: Any) -> dict[str, Any]:
        return {}


class Scene:
    """A job that runs, of which a look was kept."""

    def __init__(self, jobs: int = 1, config: Config | None = None, *, compares: bool = False) -> None:
        self.clock, self.config = Clock(), config or Config()
        self.world = World(self.config, compares=compares)
        self.metrics = Metrics()
        self.behind = False
        """Whether urgent work lacks a worker."""
        parts = (self.world, None, self.world, Recorder(), self.config, self.clock, self.metrics)
        self.reconciler = Reconciler(*parts, behind=lambda: self.behind)  # type: ignore[arg-type]
        for number in range(jobs - 1):
            self.reconciler.memories.of(Key("job", "shop", f"other-{number}"))
        self.step()
        assert self.memory.last.kept is not None
        self.world.looks, self.world.done = 0, []

    @property
    def memory(self) -> Memory:
        return self.reconciler.memories.of(KEY)

    def hear(self, version: str) -> None:
        """There is an event."""
        self.reconciler.memories.stir(KEY, version)

    def step(self, later_s: float = 0.0) -> float:
        """One step, so much later; how long it wants to wait then."""
        self.clock.now_s += later_s
        found = asyncio.run(self.reconciler.reconcile(KEY))
        return found.delay_s if found is not None else math.inf

    def result(self) -> Requeue:
        """What the next step answers."""
        found = asyncio.run(self.reconciler.reconcile(KEY))
        assert found is not None
        return found
