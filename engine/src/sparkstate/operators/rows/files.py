"""Batches of an epoch that do not stay in memory: outputs, and rows that wait to be sorted,
in Arrow's stream format."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from sparkstate import errors


class EpochFiles:
    """Files of one overlay in a directory of their own; ``close`` removes them.

    One thread writes. Once it has written everything, any number of threads may read, at the same time and each as far
    as it likes: every reader opens the file for itself.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._outputs: dict[str | None, _Output] = {}
        self._runs: list[Path] = []
        self._made = 0
        self._is_closed = False
        with _translated(directory):
            directory.mkdir(parents=True, exist_ok=True)

    def append(self, tag: str | None, batches: Iterable[pa.RecordBatch]) -> None:
        """Move batches of one output here, behind those that are here already."""
        output = self._outputs.get(tag)
        if output is None:
            output = self._outputs[tag] = _Output(self._directory / f"output-{len(self._outputs)}.arrow")
        with _translated(self._directory):
            for batch in batches:
                output.write(batch)

    def rows(self, tag: str | None) -> int:
        """How many rows of that output are here."""
        output = self._outputs.get(tag)
        return 0 if output is None else output.rows

    def read(self, tag: str | None) -> Iterator[pa.RecordBatch]:
        """The batches of that output that are here, one in memory at a time. Raises ``StateError`` for a reader that
        begins after :meth:`close`: what is gone must not look like an output without rows."""
        if self._is_closed:
            raise errors.StateError(
                f"the epoch's rows in {self._directory} were removed after their last reader"
            )
        output = self._outputs.get(tag)
        if output is not None:
            with _translated(self._directory):
                output.end()
            yield from read_stream(output.path)

    def new_rows(self) -> WaitingRows:
        """A file for rows that wait for their turn."""
        self._made += 1
        return WaitingRows(self._directory / f"rows-{self._made}.arrow")

    def add_run(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep sorted rows, to be merged with the other runs."""
        path = self._directory / f"run-{len(self._runs)}.arrow"
        output = _Output(path)
        with _translated(self._directory):
            for batch in batches:
                output.write(batch)
            output.end()
        self._runs.append(path)

    @property
    def runs(self) -> int:
        """How many runs are here."""
        return len(self._runs)

    def take_runs(self) -> list[Path]:
        """The runs in the order in which they were added; they are no longer kept here."""
        runs, self._runs = self._runs, []
        return runs

    def close(self) -> None:
        """Remove everything. Closing twice is allowed."""
        self._is_closed = True
        for output in self._outputs.values():
            output.abandon()
        self._outputs.clear()
        shutil.rmtree(self._directory, ignore_errors=True)


class WaitingRows:
    """Rows in a file, in the order in which they were added. They are taken once."""

    def __init__(self, path: Path) -> None:
        self._output = _Output(path)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Behind those that are here already."""
        with _translated(self._output.path):
            for batch in batches:
                self._output.write(batch)

    def take(self) -> Iterator[pa.RecordBatch]:
        """All rows, one batch in memory at a time; the file goes after the last one."""
        if not self._output.rows:
            return
        with _translated(self._output.path):
            self._output.end()
        yield from read_stream(self._output.path)
        self.close()

    def close(self) -> None:
        """Remove the file. Closing twice is allowed."""
        self._output.abandon()
        self._output.path.unlink(missing_ok=True)


class _Output:
    """One file, written batch by batch; reading ends the writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._ending = threading.Lock()
        self._sink: pa.NativeFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._sink = pa.OSFile(str(self.path), "wb")
            self._writer = pa.ipc.new_stream(self._sink, batch.schema)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def end(self) -> None:
        # Arrow lets other threads run while it closes, and two tasks may be the first readers: Spark reads an output
        # once for each time that a sink's plan has it.
        with self._ending:
            if self._writer is not None and self._sink is not None:
                self._writer.close()
                self._sink.close()
                self._writer = self._sink = None

    def abandon(self) -> None:
        if self._sink is not None:
            self._sink.close()


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """The batches of a file, one in memory at a time. Not memory-mapped: mapped pages count as resident."""
    with _translated(path), pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as stream:
        yield from stream


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Errors of the file system as ours."""
    try:
        yield
    except OSError as error:
        raise errors.StorageError(
            f"the epoch's rows cannot be kept in {path}: {error}; make room on the working volume"
        ) from error
