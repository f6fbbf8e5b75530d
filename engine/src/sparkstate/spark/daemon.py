"""``python -m sparkstate.spark.daemon``: Spark's daemon of Python workers, with what they import loaded already.

Every worker is a fork of the daemon, so a module that is loaded here is loaded once per executor, and its memory is
shared; Spark's own daemon loads next to nothing, and each worker then spends a second or two of a processor on pandas
and pyarrow. Spark runs this one by ``spark.python.daemon.module``.

Spark's loads nothing because a process with threads must not fork. So threads are avoided here (Arrow's allocator has
one unless told otherwise; numpy's has none because Spark sets ``OMP_NUM_THREADS``), and counted: where there is one
all the same, or nobody can tell, this process becomes Spark's own daemon.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

_LOADED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyarrow.compute",
    "pandas",
    "sparkstate.spark.feed",
    "sparkstate.spark.slotlaunch",
)
"""Modules for rows on their way through ``mapInArrow``, and for the start of a slot. pandas need not be there."""
Worker = Callable[[socket.socket, bool], int]
_GONE = 1
"""Any exit code but zero makes the daemon's fork end."""
_ARCHIVE = "/pyspark/python/lib/pyspark.zip"


def prefer_folders(path: list[str]) -> list[str]:
    """``path`` without PySpark's archive where the installation that it is part of is on ``path`` too: Spark puts the
    archive first, but it holds no bytecode, so that every process would compile what it imports from it."""

    def spare(entry: str) -> bool:
        real = Path(entry).resolve()
        return str(real).endswith(_ARCHIVE) and str(real.parents[3]) in path

    return [entry for entry in path if not spare(entry)]


def load() -> bool:
    """Load all of it. Returns whether this process may still fork."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for name in _LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    threads = Path("/proc/self/task")
    return threads.is_dir() and len(list(threads.iterdir())) == 1


def quiet(work: Worker) -> Worker:
    """Spark's ``worker`` without its traceback when Spark has closed its end, as it does with every worker whose task
    was cancelled: nobody is left to read it, and the job's log would end with what looks like a failure."""

    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return _GONE

    return run


def main() -> None:
    """Load, then serve as Spark's daemon does."""
    sys.path[:] = prefer_folders(sys.path)
    if not load():
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    gc.freeze()
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
