"""Leftovers of failed checkpoints, failed savepoints and killed writers: deleted beside the job, once known to be dead.

Files of a checkpoint that never becomes complete are deleted when the log has its tombstone, and once more after the
next completed checkpoint, because its slots may have gone on for a while. Slots write savepoints beside checkpoints, so
no checkpoint shows that they have ended with a savepoint that failed: the log goes on to condemn its folder until a
later savepoint is stored, or the next incarnation begins.

Sweeps delete what older incarnations left; this module deletes only the parts of interrupted uploads, which no listing
of objects shows. All of it runs beside the job, and a storage that refuses it, or is away, keeps nobody waiting: the
next incarnation tries again. A storage may also hang for ever, so there is a thread for the job's own places, and one
for each other place, where the job need not be able to write: the folder or bucket above a savepoint or a former sink.
None of them holds up a restart, or another place.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from sparkstate import errors
from sparkstate.checkpoint.savepoint import Savepoints
from sparkstate.driver.storage_outages import StorageOutages
from sparkstate.log.lineage import Lineage
from sparkstate.log.log import ClaimedLog
from sparkstate.log.records import key_of
from sparkstate.sinks import file_sink
from sparkstate.storage import layout, naming
from sparkstate.storage.objectstore import ObjectStore

_log = logging.getLogger("sparkstate.driver")
_Work = Callable[[], object]


@dataclass(frozen=True)
class _LaterDeletion:
    """A deletion that is carried out once more. ``url``: of the savepoint, empty for a checkpoint."""

    lane: Lane
    work: _Work
    url: str = ""


class Lane:
    """Work that is done piece by piece, in a thread that lives as long as there is any. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._work: queue.Queue[_Work] = queue.Queue()
        self._thread: threading.Thread | None = None

    def put(self, work: _Work) -> None:
        """Returns at once. Work for which the process gets no thread waits for the next piece of work."""
        with self._lock:
            self._work.put(work)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread is left
                    thread.start()
                    self._thread = thread

    def settle(self) -> None:
        """Wait until nothing is left to do."""
        self._work.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._work.empty():
                    self._thread = None
                    return
            work = self._work.get()
            try:
                carry_out(work)
            finally:
                self._work.task_done()


class Lanes:
    """A lane for each place: the folder or bucket above a URL. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._found: dict[str, Lane] = {}

    def of(self, url: str) -> Lane:
        """The lane of the place that ``url`` lies in."""
        with self._lock:
            return self._found.setdefault(naming.split_url(url)[0], Lane(self._name))

    def settle(self) -> None:
        """Wait until nothing is left to do anywhere."""
        with self._lock:
            lanes = tuple(self._found.values())
        for lane in lanes:
            lane.settle()


def carry_out(work: _Work) -> None:
    """Raises nothing that a storage or the log may raise."""
    try:
        work()
    except errors.Fenced:
        pass  # the newer driver sweeps
    except (errors.SparkstateError, OSError) as error:
        _log.warning("leftovers of a failed operation stay until the next restart: %s", error)


class Leftovers:
    """Of one lineage. ``opened`` gives a store by its URL, ``sinks`` are the URLs of the job's sinks. Thread-safe."""

    def __init__(
        self,
        lineage: Lineage,
        log: ClaimedLog,
        savepoints: Savepoints,
        opened: Callable[[str], ObjectStore],
        sinks: Collection[str],
        outages: StorageOutages,
    ) -> None:
        self._lineage = lineage
        self._lineage_log = log
        self._savepoints = savepoints
        self._open = opened
        self._sinks = sinks
        self._outages = outages
        self._lock = threading.Lock()
        self._again: list[_LaterDeletion] = []
        self._unconfirmed: list[_LaterDeletion] = []
        self.own = Lane("leftovers")
        self._elsewhere = Lanes("leftovers-elsewhere")

    def of_checkpoint(self, checkpoint_id: int) -> None:
        """The log says that this one of the present incarnation never becomes complete."""
        incarnation = self._lineage_log.own_incarnation

        def delete() -> None:
            for url in self._sinks:
                file_sink.discard_staged(self._open(url), self._lineage.id, incarnation, checkpoint_id)

        with self._lock:
            self._again.append(_LaterDeletion(self.own, delete))
        self.own.put(delete)

    def of_savepoint(self, url: str) -> None:
        """It has failed, and its slots have been told."""

        def abandon(*, confirm: bool) -> None:
            self._told(url, lambda: self._savepoints.abandon(url, confirm=confirm))

        lane, delete = self._elsewhere.of(url), partial(abandon, confirm=False)
        with self._lock:
            self._again.append(_LaterDeletion(lane, delete, url))
            self._unconfirmed.append(_LaterDeletion(lane, partial(abandon, confirm=True), url))
        lane.put(delete)

    def look_again(self) -> None:
        """A later checkpoint is complete, so the writers for an earlier one have ended."""
        with self._lock:
            again, self._again = self._again, []
        for one in again:
            one.lane.put(one.work)

    def confirm_savepoints(self) -> None:
        """All slots have stored a later savepoint. They write one after another, so they have ended with those that
        failed before it."""
        with self._lock:
            confirmed, self._unconfirmed = self._unconfirmed, []
            # Else the next checkpoint would condemn their folders anew.
            urls = {one.url for one in confirmed}
            self._again = [one for one in self._again if one.url not in urls]
        for one in confirmed:
            one.lane.put(one.work)

    def of_older_incarnations(self, incarnation: int, number: int, former: Iterable[str]) -> None:
        """Drop uploads that were broken off, savepoints that were given up, and what was staged in the ``former``
        folders of sinks. ``number``: the entry of the log with which ``incarnation`` began; what was begun after it may
        be a living writer's."""
        with self._lock:
            self._again, self._unconfirmed = [], []

        def is_dead(key: str) -> bool:
            written = layout.written_by(key)
            return written is not None and written[0] < incarnation

        def since_ms() -> int:
            return self._lineage.store.head(key_of(number)).modified_ms

        def drop() -> None:
            before_ms = since_ms()
            self._lineage.store.abort_uploads("", is_dead, before_ms)
            for url in self._sinks:
                file_sink.abort_uploads(self._open(url), self._lineage.id, incarnation, before_ms)

        def sweep(url: str) -> None:
            store = self._open(url)
            file_sink.sweep_staging(store, self._lineage.id, incarnation)
            file_sink.abort_uploads(store, self._lineage.id, incarnation, since_ms())

        self.own.put(drop)
        for url in former:
            self._put(url, partial(sweep, url))
        # The list of the doomed is read here, before this incarnation can give up a savepoint of its own: the deletion
        # of that one is not confirmed before its slots have ended.
        carry_out(partial(self._savepoints.sweep, self._put))

    def settle(self) -> None:
        """Wait until nothing is left to do."""
        self.own.settle()
        self._elsewhere.settle()

    def _put(self, url: str, work: _Work) -> None:
        self._elsewhere.of(url).put(partial(self._told, url, work))

    def _told(self, url: str, work: _Work) -> None:
        """Tried once; as long as it hangs, the status says so."""
        with self._outages.under_way(url, "delete the leftovers of a failed operation", awaited=False):
            work()
