"""The operator's process: connect, lead, and end in good order."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import secrets
from collections.abc import Callable

from sparkstate_operator import clock, errors, keys, labels, managing, naming_cluster
from sparkstate_operator.config import Config
from sparkstate_operator.edges.kube import Kube
from sparkstate_operator.edges.web import Web
from sparkstate_operator.leading import END_S, Leading
from sparkstate_operator.lease import Leadership
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.process import Process
from sparkstate_operator.watching import handlers

_log = logging.getLogger(__name__)
STALLED_S = 300.0
LOOP_S = 60.0
DEAF_S = 600.0
"""Twice the longest time that a watch may last."""


async def run(config: Config, process: Process) -> None:
    """Run until SIGTERM or SIGINT, then end the process without waiting for kopf to shut down. Its exit code is 1 if it
    ends because its watches hang."""
    main = asyncio.current_task()
    assert main is not None
    # kopf installs signal handlers only once it runs. A leader that a signal kills before that leaves its Lease behind,
    # and the next leader has to wait until the Lease expires.
    handlers.on_signals(lambda: main.cancelling() or main.cancel())
    code = 0
    try:
        await _Operator(config, process).run()
    except asyncio.CancelledError:
        if not main.cancelling():
            raise
    except errors.WatchesBlocked as error:
        _log.error("%s: %s", error.reason, error)
        code = 1
    logging.shutdown()
    # Not ``sys.exit``, which would wait for kopf: its own end takes seconds, or does not come.
    os._exit(code)


class _Operator:
    def __init__(self, config: Config, process: Process) -> None:
        lease = process.lease
        self._own = managing.Manager(lease.namespace, lease.name, config.operator_class)
        self._told = dataclasses.replace(config, mark=self._own.text)
        """As it was given: the cluster's name may be missing."""
        self._process = process
        self._clock = clock.SystemClock()
        self._metrics = Metrics()
        self._loop_s = self._clock.monotonic()
        self._lacking = {"the cluster's name": "", "the Lease": "", "the key": ""}
        """Why it is missing."""
        self._leading: Leading | None = None
        """None until this process leads."""

    async def run(self) -> None:
        process = self._process
        web = Web(process.host, process.port, self._alive, self._ready, self._text)
        web.start()
        beat = asyncio.create_task(self._beat())
        # The Lease has connections of its own, so that a renewal never waits for one that a reconcile holds.
        leases = await Kube.connect(process.kubeconfig, count=self._metrics.count_request)
        try:
            await self._in_turn(leases)
        finally:
            beat.cancel()
            await leases.close()
            web.stop()

    async def _in_turn(self, leases: Kube) -> None:
        """Wait for the Lease, lead, and release it."""
        process, metrics = self._process, self._metrics
        config = await self._named(leases)
        notes = {labels.CLUSTER: config.cluster, **self._own.notes(config.namespaces)}
        tell = self._lack("the Lease")
        leadership = Leadership(leases, process.lease, self._clock, notes=notes, tell=tell)
        kube = await Kube.connect(process.kubeconfig, leadership.require, metrics.count_request)
        try:
            await leadership.acquire()
            metrics.leading.set(1)
            keeping = asyncio.create_task(leadership.keep(), name="lease")
            try:
                await self._lead(kube, leadership, config, keeping)
            finally:
                keeping.cancel()
                await asyncio.wait([keeping], timeout=END_S)
        finally:
            metrics.leading.set(0)
            await leadership.release()
            if self._leading is not None:
                await self._leading.close()
            await kube.close()

    async def _named(self, leases: Kube) -> Config:
        """The configuration with the cluster's name, found where none was given."""
        told = self._told
        tell = self._lack("the cluster's name")
        name = await naming_cluster.find(leases, told, self._process.lease, tell)
        uid = await naming_cluster.identity(leases, told)
        return dataclasses.replace(told, cluster=name, cluster_found=not told.cluster, cluster_id=uid)

    async def _lead(
        self, kube: Kube, leadership: Leadership, config: Config, keeping: asyncio.Task[None]
    ) -> None:
        key, require = await self._key(kube), leadership.require
        self._leading = Leading(
            kube, require, key, self._own, config, self._process, self._clock, self._metrics
        )
        await self._leading.run(keeping)

    async def _key(self, kube: Kube) -> bytes:
        process = self._process
        if process.key is not None:
            return process.key
        place, name = process.lease.namespace, process.key_secret
        return await keys.wait(kube, place, name, lambda: secrets.token_hex(32), self._lack("the key"))

    def _lack(self, what: str) -> Callable[[str], None]:
        """Takes why the process lacks this, and an empty text once it does not."""

        def tell(why: str) -> None:
            self._lacking[what] = why

        return tell

    async def _beat(self) -> None:
        while True:
            self._loop_s = self._clock.monotonic()
            await asyncio.sleep(1.0)

    # -- asked from the web's threads ---------------------------------------------------------------------------------

    def _text(self) -> bytes:
        leading = self._leading
        self._metrics.count_jobs(leading.phases() if leading is not None else [])
        if leading is not None:
            self._metrics.queue_waiting.set(leading.waiting)
        return self._metrics.text()

    def _alive(self) -> str:
        """Why the process should be restarted; empty if it should not."""
        hung_s = self._clock.monotonic() - self._loop_s
        if hung_s > LOOP_S:
            return f"the event loop has not run for {hung_s:.0f} s"
        if (leading := self._leading) is None:
            return ""
        if (stalled_s := leading.stalled_s()) > STALLED_S:
            return f"no reconcile has ended for {stalled_s:.0f} s"
        deaf_s = leading.deaf_s()
        return f"a watch has sent no request for {deaf_s:.0f} s" if deaf_s > DEAF_S else ""

    def _ready(self) -> str:
        """Which watches are not live, or why there is no key or no access to the Lease. Empty if all is well, or if
        another process leads: a process that could not take over from it must not replace it in a rollout."""
        for why in self._lacking.values():
            if why:
                return why
        return self._leading.wrong() if self._leading is not None else ""
