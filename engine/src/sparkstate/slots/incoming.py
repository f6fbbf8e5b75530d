"""The rows of an attempt, on their way from the sockets to the operator (RFC 0007, RFC 0033).

A task is answered when its rows have arrived, not when they are processed, so that Spark plans and reads the next
epoch while the slots still work on this one. Threads take batches from the sockets of the attempt's tasks
(:meth:`Incoming.put`). Another thread runs the operator over them once every earlier epoch is committed, since records
must see that state; it takes batches that wait together as one. At most ``limit_bytes`` wait between the two in memory.
Batches that do not fit wait in a file while an earlier epoch is not committed yet: they must not wait in the task,
because that commit may need the core that the task occupies, and neither would ever go on. In this epoch's turn the
sockets are read later.

All tasks write to one overlay, so the rows of one that breaks off cannot be taken out again. The whole attempt is then
broken, and the driver begins another. For the same reason a part of the epoch belongs to the task that comes with it
first, and the finish says how many rows have to be there.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from sparkstate import errors
from sparkstate.operators.rows.files import EpochFiles
from sparkstate.slots.turns import Turn

LIMIT_BYTES: Final = 32 << 20
_LOOK_AGAIN_S: Final = 0.05
_TOGETHER_ROWS: Final = 4096
"""Batches that wait are joined up to this size, or the operator's. So it seldom does what it does once per batch, even
where a task's batches are split among many slots."""


class Incoming:
    """The batches of one attempt. Any thread may call any method."""

    def __init__(
        self,
        process: Callable[[pa.RecordBatch], None],
        turn: Turn,
        directory: Path,
        limit_bytes: int = LIMIT_BYTES,
        rows_at_once: int = 0,
        waits_for_end: bool = False,
    ) -> None:
        """``waits_for_end``: no batch is processed before :meth:`end`, by which the driver has chosen the attempt."""
        self._process = process
        self._turn = turn
        self._waits_for_end = waits_for_end
        self._files = directory
        self._overflow: EpochFiles | None = None
        self._limit = limit_bytes
        self._wanted_rows = rows_at_once
        self._size = _Size(max(_TOGETHER_ROWS, rows_at_once), max(1, limit_bytes // 2))
        self._changed = threading.Condition()
        self._waiting: deque[pa.RecordBatch] = deque()
        self._bytes = self._rows = 0
        """Of those that wait."""
        self._ended = False
        self._tasks: dict[int, int] = {}
        """The task that brings each part."""
        self._done = threading.Event()
        self.failure: BaseException | None = None
        self.rows = 0
        """Rows that have arrived."""
        threading.Thread(target=self._run, name="operator", daemon=True).start()

    # -- from the sockets ---------------------------------------------------------------------------------------

    def claim(self, part: int, task: int) -> None:
        """Task ``task`` is about to bring ``part``. Raises ``FeedBroken`` if another one brought it,
        or why that one failed."""
        with self._changed:
            owner = self._tasks.setdefault(part, task)
        if owner != task:
            told = f"part {part} comes from task {task} and came from task {owner} before"
            raise self.failure or errors.FeedBroken(told)

    def put(self, batch: pa.RecordBatch) -> None:
        """Take one batch. After the end it is dropped: a task that still brings rows does not count."""
        with self._changed:
            while not self._ended and self._overflow is None and self._bytes > self._limit:
                if self._waits_for_end or not self._turn.has_come():
                    self._overflow = EpochFiles(self._files)
                else:
                    self._changed.wait(_LOOK_AGAIN_S)
            if self._ended:
                return
            self.rows += batch.num_rows
            if self._overflow is not None:
                self._overflow.append(None, [batch])
                return
            self._waiting.append(batch)
            self._bytes += batch.nbytes
            self._rows += batch.num_rows
            self._changed.notify_all()

    def break_off(self, failure: BaseException) -> None:
        """A task will not bring the rest of its part. After the end such a task does not count."""
        with self._changed:
            if not self._ended:
                self.give_up(failure)

    def end(self, rows: int) -> None:
        """Everything has come, and has ``rows`` rows; if not, the attempt is broken."""
        with self._changed:
            if not self._ended and self.rows != rows:
                self.give_up(errors.FeedBroken(f"{self.rows} rows came where Spark's tasks brought {rows}"))
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
            try:
                if self._overflow is not None:
                    self._overflow.close()
            except OSError as error:  # a network volume may tell of a full disk only here
                self.give_up(error)
            finally:
                self._done.set()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._take()) is not None:
            yield batch
        if self._overflow is not None and self.failure is None:
            with contextlib.closing(self._overflow):
                yield from self._size.together(self._overflow.read(None))

    def _take(self) -> pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(self._is_enough)
            if not self._waiting:
                return None
            batches = self._size.take(self._waiting)
            self._rows -= sum(batch.num_rows for batch in batches)
            self._bytes -= sum(batch.nbytes for batch in batches)
            self._changed.notify_all()
        return _joined(batches)

    def _is_enough(self) -> bool:
        is_full = self._rows >= self._wanted_rows or self._bytes >= self._size.most_bytes
        return self._ended or (
            not self._waits_for_end and bool(self._waiting) and (is_full or self._overflow is not None)
        )


@dataclass(frozen=True)
class _Size:
    """How large a batch may become by joining others. A batch stays whole, however large it is."""

    most_rows: int
    most_bytes: int

    def take(self, waiting: deque[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Remove the first ones, as many as become one batch; at least one."""
        taken: list[pa.RecordBatch] = []
        rows = size = 0
        while waiting and not (taken and self._is_more(rows, size, waiting[0])):
            batch = waiting.popleft()
            taken.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        return taken

    def together(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows in fewer batches."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            if waiting and self._is_more(rows, size, batch):
                yield _joined(waiting)
                waiting, rows, size = [], 0, 0
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if waiting:
            yield _joined(waiting)

    def _is_more(self, rows: int, size: int, batch: pa.RecordBatch) -> bool:
        """Whether so many rows and bytes would become too large by this batch."""
        return bool(rows + batch.num_rows > self.most_rows or size + batch.nbytes > self.most_bytes)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
