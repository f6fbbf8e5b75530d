"""Leadership by a Lease of our own, and the promise that a process that has lost it writes nothing more.

kopf's peering does not elect a leader (two fresh processes are both active for a moment, or none is). Here one
process holds a ``coordination.k8s.io`` Lease, and renews it three times within its duration with the resourceVersion as
the precondition. A request that hangs is given up long before the Lease is lost, and tried again. Three things keep a
holder from going on after it stalled, was paused, or was cut off:

* another process takes the Lease only after it has seen it unchanged for the whole duration on its own clock, so
  skewed clocks do not matter; for a process that has seen it, a Lease that is deleted counts for as long;
* a thread ends the process by ``os._exit`` when the last renewal is older than ``duration - margin``, even while
  the event loop is blocked;
* every write asks :meth:`Leadership.require` before it is sent, so that a process that was paused past its Lease
  cannot be faster than that thread.

One overlap is left. A process that starts after somebody has deleted the Lease has seen no leader, and creates the
Lease at once. The old leader ends when it next renews (:attr:`LeaseSettings.renew_s`), or by that thread if its
requests hang. Until then both lead, which does no harm: an object that both create has one name, and of two changes of
one version the API server refuses the later.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_operator import clock, errors
from sparkstate_operator.edges.kube import LEASES, Kube

_log = logging.getLogger(__name__)
EXIT_CODE = 70
"""Of a process that could not renew its Lease."""
GONE = "gone"
"""Instead of a version, which is a number: the Lease is not there."""


@dataclass(frozen=True)
class LeaseSettings:
    """Which Lease, who we are, and for how long one renewal holds."""

    namespace: str
    name: str
    identity: str
    duration_s: int = 15
    margin_s: float = 3.0
    """A holder ends this long before its Lease expires, because its last request may still be on its way."""

    @property
    def held_s(self) -> float:
        """A renewal holds this long: then the holder ends."""
        return self.duration_s - self.margin_s

    @property
    def renew_s(self) -> float:
        """Between two renewals that succeed."""
        return self.held_s / 3

    @property
    def limit_s(self) -> float:
        """Of one renewal with all its requests. After a pause and a renewal that hung, there is time for another one
        before the holder ends. The client's own limit (``kube.REQUEST_TIMEOUT_S``, 15 s) is longer than a renewal holds
        (12 s by default): with that limit alone, a single request that hung ended the leader."""
        return (self.held_s - self.renew_s - self.retry_s) / 2

    @property
    def retry_s(self) -> float:
        """Between a renewal that failed and the next."""
        return self.duration_s / 30


class Leadership:
    """One process's claim. :meth:`acquire`, then :meth:`keep` beside the work. ``notes``: annotations that are set on
    the Lease with the first write. ``tell`` is told which right is missing while the API server refuses the Lease, and
    an empty text once it does not."""

    def __init__(
        self,
        kube: Kube,
        settings: LeaseSettings,
        clock_: clock.Clock,
        end: Callable[[int], Any] = os._exit,
        notes: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._kube = kube
        self._settings = settings
        self._clock = clock_
        self._end = end
        self._tell = tell
        self._renewed_s: float | None = None
        self._lease: dict[str, Any] | None = None
        self._seen: tuple[str, float, float] | None = None
        """Another holder's Lease: its version (``GONE`` where it was deleted), when we first saw it so, and how long it
        counts from then."""
        self._notes = dict(notes or {})

    @property
    def held(self) -> bool:
        """Whether we may write now."""
        return self._holds(self._renewed_s)

    def _holds(self, renewed_s: float | None) -> bool:
        if renewed_s is None:
            return False
        return self._clock.monotonic() - renewed_s < self._settings.held_s

    def require(self) -> None:
        """Return if the Lease is held; else end the process at once."""
        renewed_s = self._renewed_s  # read once: the event loop may release the Lease at any moment
        if renewed_s is not None and not self._holds(renewed_s):
            self._exit()

    def _exit(self) -> None:
        # Not through logging: its lock may be held by the very thread that hangs.
        os.write(
            2,
            b'{"level": "error", "reason": "LeaseLost", "message": "the Lease could not be renewed in time"}\n',
        )
        self._end(EXIT_CODE)

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        pause_s = self._settings.duration_s / 5
        while not await self._try():
            await asyncio.sleep(pause_s)
        threading.Thread(target=self._watch, name="lease-watch", daemon=True).start()
        _log.info("leading", extra={"lease": f"{self._settings.namespace}/{self._settings.name}"})

    async def keep(self) -> None:
        """Renew for ever; the watching thread ends the process if that fails for too long."""
        before_s: float | None = None
        while True:
            # After a failed renewal only a short pause: two whole ones would not fit before the holder ends.
            fresh = self._renewed_s != before_s
            before_s = self._renewed_s
            await asyncio.sleep(self._settings.renew_s if fresh else self._settings.retry_s)
            if not await self._try():
                self._exit()

    async def release(self) -> None:
        """Let another process take over at once. Nothing may be written after this."""
        if self._lease is None or not self.held:
            return
        self._lease["spec"] = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            async with asyncio.timeout(self._settings.limit_s):
                await self._kube.replace(LEASES, self._settings.namespace, self._lease)
        except (TimeoutError, errors.ApiError) as error:
            _log.warning("the Lease could not be released: %s", str(error) or "no answer in time")
        self._renewed_s = None
        self._lease = None

    async def _try(self) -> bool:
        """One read and, if the Lease is ours to take, one write. An error of the server costs a holder nothing until
        its last renewal is too old."""
        started_s = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._settings.limit_s):
                written = await self._written()
        except errors.Conflict:
            self._tell("")
            return self.held
        except errors.Forbidden as error:
            why = f"the Lease cannot be reached: {error}{self._remedy(error)}"
            _log.warning("%s", why)
            self._tell(why)
            return self.held
        except (TimeoutError, errors.ApiError) as error:
            why = str(error) or f"no answer within {self._settings.limit_s:.1f} s"
            _log.warning("the Lease cannot be reached: %s", why)
            return self.held
        self._tell("")
        if written is None:
            return False
        # The time from before the request: the server may have stamped the Lease at any moment since.
        self._renewed_s, self._lease = started_s, written
        return True

    def _remedy(self, error: errors.Forbidden) -> str:
        if error.terminating:
            return ""
        verbs = "to get, create and update Leases (`lease` in the chart's files/rules.yaml)"
        return f"; in the namespace {self._settings.namespace} the operator needs the rights {verbs}"

    async def _written(self) -> dict[str, Any] | None:
        """The Lease as we wrote it; None if it is another's."""
        lease = await self._kube.get(LEASES, self._settings.namespace, self._settings.name)
        if lease is None:
            return await self._create() if self._may_create() else None
        return await self._take(lease) if self._may_take(lease) else None

    def _may_take(self, lease: dict[str, Any]) -> bool:
        spec = lease.get("spec", {})
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._settings.identity):
            return True
        version = lease["metadata"]["resourceVersion"]
        return self._expired(version, float(spec.get("leaseDurationSeconds") or self._settings.duration_s))

    def _may_create(self) -> bool:
        """Whether to create the Lease that is not there: at once if we lead, or have seen nobody lead. Otherwise
        somebody deleted it, and its holder leads until it would have expired."""
        if self._lease is not None or self._seen is None:
            return True
        return self._expired(GONE, self._seen[2])

    def _expired(self, version: str, duration_s: float) -> bool:
        """Whether another's Lease has been as it is for its whole duration, by our clock."""
        now_s = self._clock.monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now_s, duration_s)
            return False
        return now_s - self._seen[1] > duration_s

    def _spec(self, transitions: int, acquired: str) -> dict[str, Any]:
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": self._settings.duration_s,
            "acquireTime": acquired,
            "renewTime": clock.micro_text(self._clock.now()),
            "leaseTransitions": transitions,
        }

    async def _create(self) -> dict[str, Any]:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._settings.name,
                "namespace": self._settings.namespace,
                "annotations": dict(self._notes),
            },
            "spec": self._spec(0, clock.micro_text(self._clock.now())),
        }
        return await self._kube.create(LEASES, self._settings.namespace, body)

    async def _take(self, lease: dict[str, Any]) -> dict[str, Any]:
        old = lease.get("spec", {})
        ours = old.get("holderIdentity") == self._settings.identity
        transitions = int(old.get("leaseTransitions") or 0) + (0 if ours else 1)
        acquired = old.get("acquireTime") if ours else None
        lease["metadata"]["annotations"] = {**(lease["metadata"].get("annotations") or {}), **self._notes}
        lease["spec"] = self._spec(transitions, acquired or clock.micro_text(self._clock.now()))
        return await self._kube.replace(LEASES, self._settings.namespace, lease)

    def _watch(self) -> None:
        stop = threading.Event()
        while True:
            stop.wait(0.2)
            if self._renewed_s is None:
                return
            self.require()
