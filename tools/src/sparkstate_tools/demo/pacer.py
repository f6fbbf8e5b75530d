"""Releases the prepared files into the watched folder at a steady rate: a stream one can look at."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path


class Pacer:
    """Releases one file every ``interval_s`` seconds, in order, from a thread of its own."""

    def __init__(self, files: Sequence[Path], folder: Path, interval_s: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = files
        self._folder = folder
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pacer", daemon=True)
        self.released = 0
        """Files that the job can see."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Release no more; returns when the thread has ended."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def flows(self) -> bool:
        """Whether more files will come."""
        return self._thread.is_alive()

    @property
    def done(self) -> bool:
        """Whether all files are released."""
        return self.released == len(self._files)

    def _run(self) -> None:
        begun = time.monotonic()
        for number, path in enumerate(self._files):
            # Counted from the beginning, so that a slow machine does not slow the stream down.
            wait_s = begun + number * self._interval_s - time.monotonic()
            if self._stopped.wait(max(0.0, wait_s)):
                return
            release(path, self._folder)
            self.released = number + 1


def release(path: Path, folder: Path) -> None:
    """Copy under a hidden name, then rename: Spark's file source ignores the one and sees the other whole.

    The modification time is kept, since it decides the order in which the source takes the files.
    """
    hidden = folder / f".{path.name}.tmp"
    shutil.copy2(path, hidden)
    os.replace(hidden, folder / path.name)
