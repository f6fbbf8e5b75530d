"""The work of the process that leads: it watches, puts keys into the queue, and reconciles them."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from sparkstate_operator import clock, errors, inventory, managing, pacing
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import DRIVER_PORT, Config
from sparkstate_operator.edges.driver import Drivers
from sparkstate_operator.edges.kube import Kube
from sparkstate_operator.edges.neighbours import Neighbours
from sparkstate_operator.events import Recorder
from sparkstate_operator.memories import Key
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.observe import Observer
from sparkstate_operator.process import Process
from sparkstate_operator.queue import KeyedQueue
from sparkstate_operator.reconcile import Reconciler
from sparkstate_operator.watching import handlers, relabelled_jobs, retrying, served_kinds
from sparkstate_operator.watching.watches import Watches

_log = logging.getLogger(__name__)
END_S = 1.0
CREST = 1.2
"""Drivers polled in a second at most, as a multiple of their average: room enough to make up for polls that were held.
"""


class Leading:
    """See the module. :meth:`run` works; probes and metrics ask the rest, from threads of their own. ``key``: what
    drivers' tokens derive from. ``require`` ends a process that has lost its Lease; ``kube`` asks it by itself."""

    def __init__(
        self,
        kube: Kube,
        require: Callable[[], None],
        key: bytes,
        own: managing.Manager,
        config: Config,
        process: Process,
        clock_: clock.Clock,
        metrics: Metrics,
    ) -> None:
        self._kube, self._own, self._config, self._process = kube, own, config, process
        self._clock = clock_
        self._rng = random.Random()
        paths = (kind.path(place) for kind in handlers.KINDS for place in config.namespaces or (None,))
        self._watches = Watches(paths, clock_.monotonic)
        self._queue: KeyedQueue[Key] = KeyedQueue(
            monotonic=clock_.monotonic,
            rng=self._rng,
            on_error=_tell,
            held=self._watches.lists,
            patient_per_s=CREST * config.polls_per_s,
        )
        self._drivers = Drivers(clock_, process.driver_port or DRIVER_PORT, self._queue.aside, require)
        neighbours = Neighbours(kube, own, clock_)
        self._reconciler = Reconciler(
            Observer(kube, self._drivers, key, neighbours),
            neighbours,
            Applier(kube, self._drivers, config, key, process.hooks),
            Recorder(clock_, process.lease.identity),
            config,
            clock_,
            metrics,
            self._queue.behind,
        )
        self._memories = self._reconciler.memories

    async def run(self, keeping: asyncio.Task[None]) -> None:
        """Work. ``keeping`` renews the Lease: its end is the end of this."""
        config, process = self._config, self._process
        await self._adopt()
        stop = asyncio.Event()
        heard = handlers.Listeners(self._enqueue, self._memories.saw_pod, self._memories.listed_snapshot)
        registry = handlers.registry(heard, process.kubeconfig, self._watches, config.operator_class)
        keep_watching = retrying.keep(
            functools.partial(served_kinds.wait, self._kube, self._watches.hold),
            functools.partial(handlers.watch, registry, config.namespaces, stop.set, self._watches),
            self._watches,
        )
        watching = asyncio.create_task(keep_watching, name="watch")
        held = relabelled_jobs.find(self._kube, self._own, config.namespaces, self._enqueue)
        tasks = [
            watching,
            asyncio.create_task(_at_work(held), name="relabelled"),
            asyncio.create_task(self._queue.run(config.workers, self._reconciler.reconcile), name="work"),
            keeping,
            asyncio.create_task(_stopped(stop), name="stop"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            asyncio.get_running_loop().set_exception_handler(_ending)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=END_S)

    async def _adopt(self) -> None:
        """Take over the jobs that run, without a look at each of them."""
        config = self._config
        found = await inventory.take(self._kube, config, self._clock.now())
        for one in found:
            look_s = self._rng.uniform(0.0, pacing.resync_s(config, len(found)))
            first_s = self._rng.uniform(0.0, len(found) / config.polls_per_s)
            self._queue.add(self._memories.adopt(one, look_s), first_s, patient=True)

    def _enqueue(self, key: Key, version: str = "") -> None:
        if self._memories.stir(key, version):
            self._queue.add(key)

    async def close(self) -> None:
        """Close the connections to drivers."""
        await self._drivers.close()

    def phases(self) -> list[str]:
        """Of all jobs that were looked at."""
        return self._memories.phases()

    @property
    def waiting(self) -> int:
        """Keys that are due and not yet taken."""
        return self._queue.waiting

    def stalled_s(self) -> float:
        """How long there has been work without any reconcile ending."""
        return self._queue.stalled_s()

    def deaf_s(self) -> float:
        """How long some watch has sent no request."""
        return self._watches.silent_s()

    def wrong(self) -> str:
        """Which watches are not live, and why; empty if all are."""
        return self._watches.wrong()


def _ending(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """kopf leaves tasks behind whose connections are closed under them. Asyncio would report their exceptions as
    errors, although nobody waits for these tasks."""
    _log.info(
        "the process ended while a task was running: %s", context.get("exception") or context["message"]
    )


async def _at_work(once: Awaitable[None]) -> None:
    """Something that is done once, and whose error ends the process as that of any other task."""
    await once
    await asyncio.Event().wait()


async def _stopped(stop: asyncio.Event) -> None:
    await stop.wait()


def _tell(key: Key, error: Exception, delay_s: float) -> None:
    """A reconcile failed. An error raised on purpose is a warning, because the reconcile is tried again; anything else
    is our bug."""
    fields = {**key._asdict(), "retry_s": round(delay_s, 1)}
    fields["object"] = fields.pop("name")
    if isinstance(error, errors.OperatorError):
        _log.warning("%s: %s", error.reason, error, extra=fields)
    else:
        _log.error("reconcile failed: %s", error, exc_info=error, extra=fields)
