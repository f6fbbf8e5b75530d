"""One keyed queue for everything that waits for a reconcile.

It promises this:

* At most one reconcile of a key runs at a time (single flight).
* A key that is added while it waits is reconciled once (coalescing); one that is added while it runs is reconciled
  once more afterwards.
* A failed key comes back after an exponential delay of its own. A healthy one comes back after the delay that its
  reconcile asked for, spread by jitter so that a thousand jobs do not return in the same second.
* Few *patient* keys (thousands of polls) are under way at once, so that no event waits behind all of them when polls
  take longer than they should.

The queue knows asyncio alone, and neither Kubernetes nor jobs; time and randomness come through the constructor.

After client-go's workqueue and controller-runtime's ``Result{RequeueAfter}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkstate_operator.patience import Patience

Key = TypeVar("Key", bound=Hashable)
BEHIND_S = 1.0
"""A key that is not patient and has been due for longer than this lacks a worker."""


@dataclass(frozen=True)
class Backoff:
    """Delays after failures in a row."""

    first_s: float = 0.5
    factor: float = 2.0
    longest_s: float = 60.0

    def after(self, failures: int) -> float:
        """The delay after this many failures in a row (at least 1)."""
        return min(self.first_s * self.factor ** min(failures - 1, 30), self.longest_s)


@dataclass(frozen=True)
class Requeue:
    """A reconcile's answer: come back after ``delay_s``. ``exact`` leaves the jitter out; ``patient``: it then waits
    while many others that are patient are under way."""

    delay_s: float
    exact: bool = False
    patient: bool = False


@dataclass
class _Entry:
    """The queue's knowledge of one key."""

    due_s: float | None = None
    patient: bool = False
    running: bool = False
    since_s: float = 0.0
    """When the key that runs was due."""
    again_s: float | None = None
    failures: int = 0
    ticket: int = 0


class KeyedQueue(Generic[Key]):
    """See the module. ``held``: whether patient keys have to wait now. ``patient_per_s``: how many of them are taken a
    second at most."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        rng: random.Random,
        backoff: Backoff | None = None,
        jitter: float = 0.1,
        on_error: Callable[[Key, Exception, float], None] = lambda key, error, delay_s: None,
        held: Callable[[], bool] = lambda: False,
        patient_per_s: float = math.inf,
    ) -> None:
        self._monotonic = monotonic
        self._rng = rng
        self._backoff = backoff or Backoff()
        self._jitter = jitter
        self._on_error = on_error
        self._patience: Patience[Key] = Patience(monotonic, held, patient_per_s)
        self._entries: dict[Key, _Entry] = {}
        self._heaps: dict[bool, list[tuple[float, int, Key]]] = {False: [], True: []}
        """Of those that are not patient, and of those that are."""
        self._tickets = itertools.count(1)
        self._changed = asyncio.Event()
        self._places = asyncio.Semaphore(0)
        self._ended_s = monotonic()
        """When a reconcile last ended."""

    def add(self, key: Key, delay_s: float = 0.0, *, patient: bool = False) -> None:
        """Reconcile ``key``, at the earliest after ``delay_s``; never later than it would have been anyway."""
        entry = self._entries.setdefault(key, _Entry())
        now_s = self._monotonic()
        due_s = now_s + delay_s
        overtakes = entry.patient and not patient and due_s <= now_s
        if entry.running:
            entry.again_s = due_s if entry.again_s is None else min(entry.again_s, due_s)
        elif entry.due_s is None or due_s < entry.due_s or overtakes:
            self._schedule(key, entry, due_s, patient=patient)

    def __len__(self) -> int:
        """Keys that are known."""
        return len(self._entries)

    @property
    def waiting(self) -> int:
        """Keys that are due and not yet taken. May be asked from any thread."""
        now_s = self._monotonic()
        dues_s = [entry.due_s for entry in self._known()]
        return sum(1 for due_s in dues_s if due_s is not None and due_s <= now_s)

    def behind(self) -> bool:
        """Whether a key that is not patient has been due for a while and was not taken."""
        if self._head_s(patient=False) != 0.0:
            return False
        return self._monotonic() - self._heaps[False][0][0] > BEHIND_S

    def stalled_s(self) -> float:
        """How long there has been work without any reconcile ending. The liveness probe's question,
        asked from its thread.

        Time without work does not count. Otherwise the first key after a quiet night would look like a stall of hours
        until its reconcile ends, and the operator would be restarted for it.
        """
        now_s = self._monotonic()
        work_s = [entry.since_s if entry.running else entry.due_s for entry in self._known()]
        since_s = min((one_s for one_s in work_s if one_s is not None), default=now_s)
        return max(0.0, now_s - max(since_s, self._ended_s))

    def _known(self) -> list[_Entry]:
        """A copy, made in one step of the interpreter. Probes and scrapes ask from threads of their own, and failed now
        and then when the event loop added or removed a key while they iterated."""
        return list(self._entries.values())

    def _schedule(self, key: Key, entry: _Entry, due_s: float, *, patient: bool) -> None:
        entry.due_s, entry.patient, entry.ticket = due_s, patient, next(self._tickets)
        heapq.heappush(self._heaps[patient], (due_s, entry.ticket, key))
        self._changed.set()

    def take(self) -> Key | None:
        """The key that is due longest, marked as running; None if none is due. :meth:`done` must follow.

        Patient keys come first, as long as few of them are under way. They stand aside at once (:meth:`aside`), so they
        cost the others nothing. When they came last, events held all workers while the API server was slow, and among
        5,000 jobs 6 drivers a second were polled instead of 100."""
        for patient in (True, False):
            if self._head_s(patient=patient) == 0.0:
                due_s, _, key = heapq.heappop(self._heaps[patient])
                entry = self._entries[key]
                entry.since_s, entry.running = due_s, True
                entry.due_s = None
                if patient:
                    self._patience.begin(key)
                return key
        return None

    def next_due_s(self) -> float | None:
        """Seconds until something is due that may be taken; None while nothing is planned."""
        heads_s = (self._head_s(patient=False), self._head_s(patient=True))
        return min((head_s for head_s in heads_s if head_s is not None), default=None)

    def _head_s(self, *, patient: bool) -> float | None:
        free_s = self._patience.free_s() if patient else 0.0
        if free_s is None:
            return None
        heap = self._heaps[patient]
        while heap:
            due_s, ticket, key = heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry.ticket == ticket and entry.due_s is not None:
                return max(free_s, due_s - self._monotonic())
            heapq.heappop(heap)  # an entry that a later one for the same key has replaced
        return None

    def done(self, key: Key, result: Requeue | Exception | None) -> None:
        """The reconcile of ``key`` has ended, with an answer or an error."""
        entry = self._entries[key]
        entry.running = False
        self._patience.end(key)
        self._changed.set()  # a patient one may be taken now
        self._ended_s = self._monotonic()
        again_s, entry.again_s = entry.again_s, None
        due_s = self._due_after(key, entry, result)
        if isinstance(result, Exception) and again_s is not None and due_s is not None:
            again_s = (
                None  # a reconcile that fails may cause events, which must not cut its own backoff short
            )
        if again_s is not None and (due_s is None or again_s <= due_s):
            self._schedule(key, entry, again_s, patient=False)
        elif due_s is not None:
            self._schedule(key, entry, due_s, patient=isinstance(result, Requeue) and result.patient)
        else:
            del self._entries[key]

    def _due_after(self, key: Key, entry: _Entry, result: Requeue | Exception | None) -> float | None:
        now_s = self._monotonic()
        if isinstance(result, Exception):
            entry.failures += 1
            told_s = getattr(result, "retry_after_s", None) or self._backoff.after(entry.failures)
            delay_s = min(told_s, self._backoff.longest_s)  # a proxy may ask for a day
            self._on_error(key, result, delay_s)
            return now_s + self._spread(delay_s)
        entry.failures = 0
        if result is None:
            return None
        return now_s + (result.delay_s if result.exact else self._spread(result.delay_s))

    def _spread(self, delay_s: float) -> float:
        return delay_s * (1 + self._rng.uniform(0, self._jitter))

    async def run(self, workers: int, work: Callable[[Key], Awaitable[Requeue | None]]) -> None:
        """Work until cancelled, with at most ``workers`` reconciles at once, those that stand aside not counted.
        ``work`` reconciles one key: returns :class:`Requeue` or None (not before it is added again)."""
        self._places = asyncio.Semaphore(workers)
        async with asyncio.TaskGroup() as group:
            while True:
                while self.next_due_s() != 0.0:
                    await self._wait()
                # Only once a key is due. A place taken earlier would be idle, while a reconcile that comes back from
                # standing aside waits for one.
                await self._places.acquire()
                key = self.take()
                if key is None:
                    self._places.release()
                else:
                    group.create_task(self._one(key, work))

    @contextlib.asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """In a reconcile: while it waits for something that may hang, another key may use its place. The key itself
        counts as running, so it is not taken a second time."""
        self._places.release()
        try:
            yield
        finally:
            await self._places.acquire()

    async def _one(self, key: Key, work: Callable[[Key], Awaitable[Requeue | None]]) -> None:
        result: Requeue | Exception | None
        try:
            result = await work(key)
        except Exception as error:  # whatever fails, the key comes back after its own backoff
            result = error
        finally:
            self._places.release()
        self.done(key, result)

    async def _wait(self) -> None:
        self._changed.clear()
        delay_s = self.next_due_s()
        if delay_s == 0.0:
            return
        try:
            async with asyncio.timeout(delay_s):
                await self._changed.wait()
        except TimeoutError:
            return
