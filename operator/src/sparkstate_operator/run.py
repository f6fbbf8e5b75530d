"""The operator's process: connect, lead, watch, work, and end in good order."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sparkstate_operator import (
    clock,
    errors,
    inventory,
    keys,
    labels,
    managing,
    naming_cluster,
    pacing,
    relabelled_jobs,
)
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import DRIVER_PORT, Config
from sparkstate_operator.edges import handlers
from sparkstate_operator.edges.driver import Drivers
from sparkstate_operator.edges.kube import Kube
from sparkstate_operator.edges.neighbours import Neighbours
from sparkstate_operator.edges.watches import Watches
from sparkstate_operator.edges.web import Web
from sparkstate_operator.events import Recorder
from sparkstate_operator.hooks import Hooks
from sparkstate_operator.lease import Leadership, LeaseSettings
from sparkstate_operator.memories import Key
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.observe import Observer
from sparkstate_operator.queue import KeyedQueue
from sparkstate_operator.reconcile import Reconciler

_log = logging.getLogger(__name__)
STALLED_S = 300.0
LOOP_S = 60.0
END_S = 1.0
CREST = 1.2
"""Drivers polled in a second at most, as a multiple of their average: room enough to make up for polls that were held.
"""


@dataclass(frozen=True)
class Process:
    """What a process is started with, beside the configuration."""

    lease: LeaseSettings
    key: bytes | None
    """What drivers' tokens derive from; None: it is in ``key_secret``, and made where that is not there."""
    hooks: Hooks
    key_secret: str = ""
    """Name of a Secret in the Lease's namespace."""
    kubeconfig: str | None = None
    host: str = ""
    port: int = 8081
    driver_port: int | None = None


async def run(config: Config, process: Process) -> None:
    """Run until SIGTERM or SIGINT, then end the process without waiting for kopf to shut down."""
    main = asyncio.current_task()
    assert main is not None
    # kopf installs signal handlers only once it runs. A leader that a signal kills before that leaves its Lease behind,
    # and the next leader has to wait until the Lease expires.
    handlers.on_signals(lambda: main.cancelling() or main.cancel())
    try:
        await _Operator(config, process).run()
    except asyncio.CancelledError:
        if not main.cancelling():
            raise
    logging.shutdown()
    # Not ``sys.exit``, which would wait for kopf: its own end takes five seconds.
    os._exit(0)


class _Operator:
    def __init__(self, config: Config, process: Process) -> None:
        lease = process.lease
        self._own = managing.Manager(lease.namespace, lease.name, config.operator_class)
        self._config = dataclasses.replace(config, mark=self._own.text)
        self._process = process
        self._clock = clock.SystemClock()
        self._metrics = Metrics()
        self._queue: KeyedQueue[Key] | None = None
        self._phases: Callable[[], list[str]] = list
        self._loop_s = self._clock.monotonic()
        self._watches: Watches | None = None
        self._lacking = ""

    async def run(self) -> None:
        process, metrics = self._process, self._metrics
        web = Web(process.host, process.port, self._alive, self._ready, self._text)
        web.start()
        kube = await Kube.connect(process.kubeconfig)
        kube.counted(metrics.count_request)
        drivers = Drivers(self._clock, process.driver_port or DRIVER_PORT)
        # The Lease has connections of its own, so that a renewal never waits for one that a reconcile holds.
        leases = await Kube.connect(process.kubeconfig)
        leases.counted(metrics.count_request)
        leadership = Leadership(leases, process.lease, self._clock)
        kube.before_write = leadership.require
        beat = asyncio.create_task(self._beat())
        try:
            name = await naming_cluster.find(leases, self._config, process.lease)
            found = not self._config.cluster
            of = await naming_cluster.identity(leases, self._config)
            self._config = dataclasses.replace(self._config, cluster=name, cluster_found=found, cluster_id=of)
            leadership.notes = {labels.CLUSTER: name, **self._own.notes(self._config.namespaces)}
            await leadership.acquire()
            metrics.leading.set(1)
            keeping = asyncio.create_task(leadership.keep(), name="lease")
            try:
                await self._lead(kube, drivers, keeping, await self._key(kube))
            finally:
                keeping.cancel()
                await asyncio.wait([keeping], timeout=END_S)
        finally:
            metrics.leading.set(0)
            beat.cancel()
            await leadership.release()
            await drivers.close()
            await kube.close()
            await leases.close()
            web.stop()

    async def _key(self, kube: Kube) -> bytes:
        process = self._process
        if process.key is not None:
            return process.key
        place, name = process.lease.namespace, process.key_secret
        return await keys.wait(kube, place, name, lambda: secrets.token_hex(32), self._lack)

    def _lack(self, why: str) -> None:
        self._lacking = why

    async def _lead(self, kube: Kube, drivers: Drivers, keeping: asyncio.Task[None], key: bytes) -> None:
        """Work. ``keeping`` renews the Lease: its end is the end of this."""
        process, config = self._process, self._config
        applier = Applier(kube, drivers, config, key, process.hooks)
        neighbours = Neighbours(kube, self._own, self._clock)
        observer = Observer(kube, drivers, key, neighbours)
        recorder = Recorder(self._clock, process.lease.identity)
        reconciler = Reconciler(observer, neighbours, applier, recorder, config, self._clock, self._metrics)
        memories = reconciler.memories
        rng = random.Random()
        places = config.namespaces or (None,)
        paths = (kind.path(place) for kind in handlers.KINDS for place in places)
        self._watches = watches = Watches(paths, self._clock.monotonic)
        queue: KeyedQueue[Key] = KeyedQueue(
            reconciler.reconcile,
            monotonic=self._clock.monotonic,
            rng=rng,
            on_error=_tell,
            held=watches.lists,
            patient_per_s=CREST * config.polls_per_s,
        )
        drivers.aside, reconciler.behind = queue.aside, queue.behind
        self._queue, self._phases = queue, memories.phases
        found = await inventory.take(kube, config, self._clock.now())
        for one in found:
            look_s = rng.uniform(0.0, pacing.resync_s(config, len(found)))
            first_s = rng.uniform(0.0, len(found) / config.polls_per_s)
            queue.add(memories.adopt(one, look_s), first_s, patient=True)
        del found
        stop = asyncio.Event()

        def enqueue(key: Key, version: str = "") -> None:
            if memories.stir(key, version):
                queue.add(key)

        heard = handlers.Listeners(enqueue, memories.saw_pod, memories.listed_snapshot)
        registry = handlers.registry(stop.set, heard, process.kubeconfig, watches, config.operator_class)
        watching = asyncio.create_task(handlers.watch(registry, config.namespaces), name="watch")
        held = relabelled_jobs.find(kube, self._own, config.namespaces, enqueue)
        tasks = [
            watching,
            asyncio.create_task(_at_work(held), name="relabelled"),
            asyncio.create_task(queue.run(config.workers), name="work"),
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

    async def _beat(self) -> None:
        while True:
            self._loop_s = self._clock.monotonic()
            await asyncio.sleep(1.0)

    def _text(self) -> bytes:
        self._metrics.count_jobs(self._phases())
        if self._queue is not None:
            self._metrics.queue_waiting.set(self._queue.waiting)
        return self._metrics.text()

    def _alive(self) -> str:
        """Why the process should be restarted; empty if it should not. Asked from the web thread."""
        hung_s = self._clock.monotonic() - self._loop_s
        if hung_s > LOOP_S:
            return f"the event loop has not run for {hung_s:.0f} s"
        stalled_s = self._queue.stalled_s() if self._queue is not None else 0.0
        return f"no reconcile has ended for {stalled_s:.0f} s" if stalled_s > STALLED_S else ""

    def _ready(self) -> str:
        """Which watches are not live, or why there is no key; empty if all is well, or if another process leads. Asked
        from the web thread."""
        if self._lacking:
            return self._lacking
        return self._watches.wrong() if self._watches is not None else ""


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
