"""What failed checkpoints and savepoints and killed writers left: deleted beside the job, as soon as it is known dead.

What belongs to a checkpoint that never becomes complete is deleted when the log has its tombstone, and once more after
the next completed checkpoint, for its slots may have gone on for a while. What older incarnations left is the business
of sweeps; here it is only the parts of uploads that were broken off, which no listing of objects shows. All of it runs
in one thread, and a storage that refuses it, or is away, keeps nobody waiting: the next incarnation tries again.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable

from sparkstate import errors
from sparkstate.checkpoint.savepoint import Savepoints
from sparkstate.log.lineage import Lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.records import key_of
from sparkstate.sinks import file_sink
from sparkstate.storage import layout
from sparkstate.storage.objectstore import ObjectStore

_log = logging.getLogger("sparkstate.driver")
_Work = Callable[[], object]


class Leftovers:
    """Of one lineage. ``opened`` gives a store by its URL, ``sinks`` the URLs of the job's sinks. Thread-safe."""

    def __init__(
        self,
        lineage: Lineage,
        log: LineageLog,
        savepoints: Savepoints,
        opened: Callable[[str], ObjectStore],
        sinks: Callable[[], Iterable[str]],
    ) -> None:
        self._lineage = lineage
        self._lineage_log = log
        self._savepoints = savepoints
        self._open = opened
        self._sinks = sinks
        self._lock = threading.Lock()
        self._again: list[_Work] = []
        self._work: queue.Queue[_Work] = queue.Queue()
        self._thread: threading.Thread | None = None

    def of_checkpoint(self, checkpoint_id: int) -> None:
        """The log says that this one of the present incarnation never becomes complete."""
        incarnation = self._lineage_log.state.incarnation

        def delete() -> None:
            for url in self._sinks():
                file_sink.discard_staged(self._open(url), self._lineage.id, incarnation, checkpoint_id)

        self._do(delete, delete)

    def of_savepoint(self, url: str) -> None:
        """It has failed, and its slots have been told; empty: it had no folder yet."""
        if not url:
            return
        self._do(lambda: self._savepoints.abandon(url, confirm=False), lambda: self._savepoints.abandon(url))

    def look_again(self) -> None:
        """A later checkpoint is complete: who wrote for an earlier one has ended."""
        with self._lock:
            again, self._again = self._again, []
        for work in again:
            self._put(work)

    def of_older_incarnations(self, incarnation: int, number: int) -> None:
        """Drop uploads that were broken off. ``number``: the entry of the log with which ``incarnation`` began; what
        was begun after it may be a living writer's."""
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

        self._put(drop)

    def settle(self) -> None:
        """Wait until nothing is left to do."""
        self._work.join()

    def _do(self, now: _Work, again: _Work) -> None:
        with self._lock:
            self._again.append(again)
        self._put(now)

    def _put(self, work: _Work) -> None:
        with self._lock:
            self._work.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leftovers", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            try:
                self._carry_out(work)
            finally:
                self._work.task_done()

    def _carry_out(self, work: _Work) -> None:
        try:
            work()
        except errors.Fenced:
            pass  # the newer driver sweeps
        except (errors.SparkstateError, OSError) as error:
            _log.warning("what was left of something that failed stays until the next restart: %s", error)
