"""The rows of a task attempt, on their way from the socket to the operator (RFC 0007).

The task is answered when its rows have arrived, not when they are processed, so that Spark plans and shuffles the next
epoch while the slots still work on this one. One thread takes batches from the socket (:meth:`Incoming.put`). Another
runs the operator over them once every earlier epoch is committed, since records must see that state. At most
``limit_bytes`` wait between the two in memory. Batches that do not fit wait in a file while an earlier epoch is not
committed yet: they must not wait in the task, because that commit may need the core that the task occupies, and neither
would ever go on. In this epoch's turn the socket is read later.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from sparkstate.operators.rows.files import EpochFiles
from sparkstate.slots.turns import Turn

LIMIT_BYTES: Final = 32 << 20
_LOOK_AGAIN_S: Final = 0.05


class Incoming:
    """The batches of one attempt. ``put`` and ``end`` belong to one thread, everything else to any."""

    def __init__(
        self,
        process: Callable[[pa.RecordBatch], None],
        turn: Turn,
        directory: Path,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._process = process
        self._turn = turn
        self._files = directory
        self._overflow: EpochFiles | None = None
        self._limit = limit_bytes
        self._changed = threading.Condition()
        self._waiting: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._ended = False
        self._done = threading.Event()
        self.failure: BaseException | None = None
        self.rows = 0
        """Rows that have arrived."""
        threading.Thread(target=self._run, name="operator", daemon=True).start()

    # -- from the socket ----------------------------------------------------------------------------------------

    def put(self, batch: pa.RecordBatch) -> None:
        """Take one batch. After a failure batches are counted and dropped."""
        self.rows += batch.num_rows
        with self._changed:
            while self.failure is None and self._overflow is None and self._bytes > self._limit:
                if not self._turn.has_come():
                    self._overflow = EpochFiles(self._files)
                else:
                    self._changed.wait(_LOOK_AGAIN_S)
            if self.failure is not None:
                return
            if self._overflow is not None:
                self._overflow.append(None, [batch])
                return
            self._waiting.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()

    def end(self) -> None:
        """All batches have come."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def give_up(self, failure: BaseException) -> None:
        """No more will come, and what came is worth nothing."""
        with self._changed:
            self.failure = self.failure or failure
            self._ended = True
            self._waiting.clear()
            self._changed.notify_all()

    # -- to the operator ----------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Until everything is processed. Raises what processing raised."""
        self._done.wait()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self._turn.wait()
            for batch in self._batches():
                self._process(batch)
        except BaseException as error:
            self.give_up(error)
        finally:
            if self._overflow is not None:
                self._overflow.close()
            self._done.set()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._take()) is not None:
            yield batch
        if self._overflow is not None and self.failure is None:
            with contextlib.closing(self._overflow):
                yield from self._overflow.read(None)

    def _take(self) -> pa.RecordBatch | None:
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            if not self._waiting:
                return None
            batch = self._waiting.popleft()
            self._bytes -= batch.nbytes
            self._changed.notify_all()
            return batch
