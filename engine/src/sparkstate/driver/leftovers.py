"""What failed checkpoints and savepoints and killed writers left: deleted beside the job, as soon as it is known dead.

What belongs to a checkpoint that never becomes complete is deleted when the log has its tombstone, and once more after
the next completed checkpoint, for its slots may have gone on for a while. What older incarnations left is the business
of sweeps; here it is only the parts of uploads that were broken off, which no listing of objects shows. All of it runs
beside the job, and a storage that refuses it, or is away, keeps nobody waiting: the next incarnation tries again.
There are two threads, because a storage may also hang for ever: what lies where the job need not be able to write, in
savepoints and in folders of former sinks, holds up neither a restart nor the rest.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial

from sparkstate import errors
from sparkstate.checkpoint.savepoint import Savepoints
from sparkstate.driver.away import Places
from sparkstate.log.lineage import Lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.records import key_of
from sparkstate.sinks import file_sink
from sparkstate.storage import layout
from sparkstate.storage.objectstore import ObjectStore

_log = logging.getLogger("sparkstate.driver")
_Work = Callable[[], object]


class Lane:
    """What is to be done, one after another, in a thread that begins with the first. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._work: queue.Queue[_Work] = queue.Queue()
        self._thread: threading.Thread | None = None

    def put(self, work: _Work) -> None:
        """Returns at once."""
        with self._lock:
            self._work.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def settle(self) -> None:
        """Wait until nothing is left to do."""
        self._work.join()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            try:
                carry_out(work)
            finally:
                self._work.task_done()


def carry_out(work: _Work) -> None:
    """Raises nothing that a storage or the log may raise."""
    try:
        work()
    except errors.Fenced:
        pass  # the newer driver sweeps
    except (errors.SparkstateError, OSError) as error:
        _log.warning("what was left of something that failed stays until the next restart: %s", error)


class Leftovers:
    """Of one lineage. ``opened`` gives a store by its URL, ``sinks`` the URLs of the job's sinks. Thread-safe."""

    def __init__(
        self,
        lineage: Lineage,
        log: LineageLog,
        savepoints: Savepoints,
        opened: Callable[[str], ObjectStore],
        sinks: Callable[[], Iterable[str]],
        places: Places,
    ) -> None:
        self._lineage = lineage
        self._lineage_log = log
        self._savepoints = savepoints
        self._open = opened
        self._sinks = sinks
        self._places = places
        self._lock = threading.Lock()
        self._again: list[tuple[Lane, _Work]] = []
        self.own = Lane("leftovers")
        self.elsewhere = Lane("leftovers-elsewhere")

    def of_checkpoint(self, checkpoint_id: int) -> None:
        """The log says that this one of the present incarnation never becomes complete."""
        incarnation = self._lineage_log.state.incarnation

        def delete() -> None:
            for url in self._sinks():
                file_sink.discard_staged(self._open(url), self._lineage.id, incarnation, checkpoint_id)

        self._do(self.own, delete, delete)

    def of_savepoint(self, url: str) -> None:
        """It has failed, and its slots have been told; empty: it had no folder yet."""
        if not url:
            return

        def abandon(*, confirm: bool) -> None:
            self._told(url, lambda: self._savepoints.abandon(url, confirm=confirm))

        self._do(self.elsewhere, partial(abandon, confirm=False), partial(abandon, confirm=True))

    def look_again(self) -> None:
        """A later checkpoint is complete: who wrote for an earlier one has ended."""
        with self._lock:
            again, self._again = self._again, []
        for lane, work in again:
            lane.put(work)

    def of_older_incarnations(self, incarnation: int, number: int, former: Iterable[str]) -> None:
        """Drop uploads that were broken off, savepoints that were given up, and what was staged in the ``former``
        folders of sinks. ``number``: the entry of the log with which ``incarnation`` began; what was begun after it may
        be a living writer's."""
        with self._lock:
            self._again = []

        def is_dead(key: str) -> bool:
            written = layout.written_by(key)
            return written is not None and written[0] < incarnation

        def drop() -> None:
            store = self._lineage.store
            since_ms = store.head(key_of(number)).modified_ms
            store.abort_uploads("", is_dead, since_ms)
            for url in self._sinks():
                file_sink.abort_uploads(self._open(url), self._lineage.id, incarnation, since_ms)

        def sweep(url: str) -> None:
            file_sink.sweep_staging(self._open(url), self._lineage.id, incarnation)

        self.own.put(drop)
        for url in former:
            self.elsewhere.put(partial(self._told, url, partial(sweep, url)))
        self.elsewhere.put(partial(self._savepoints.sweep, self._told))

    def settle(self) -> None:
        """Wait until nothing is left to do."""
        self.own.settle()
        self.elsewhere.settle()

    def _told(self, url: str, work: _Work) -> None:
        """Tried once; as long as ``url`` does not answer, the status says so."""
        doing = "delete what something that failed left"
        self._places.insist(url, doing, work, lambda: True, needed=False)

    def _do(self, lane: Lane, now: _Work, again: _Work) -> None:
        with self._lock:
            self._again.append((lane, again))
        lane.put(now)
