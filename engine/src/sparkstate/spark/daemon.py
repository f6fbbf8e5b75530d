"""``python -m sparkstate.spark.daemon``: Spark's daemon of Python workers, with what they import loaded already.

Every worker is a fork of the daemon, so a module that is loaded here is loaded once per executor, and its memory is
shared; Spark's own daemon loads next to nothing, and each worker then spends a second or two of a processor on pandas
and pyarrow. Spark runs this one by ``spark.python.daemon.module``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from pathlib import Path

_LOADED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyarrow.compute",
    "pandas",
    "sparkstate.spark.feed",
    "sparkstate.spark.slotlaunch",
)
"""What rows on their way through ``mapInArrow``, and the start of a slot, need. pandas need not be there."""
_ARCHIVE = "pyspark/python/lib/pyspark.zip"


def prefer_folders(path: list[str]) -> list[str]:
    """``path`` without PySpark's archive where the installation that it is part of is on ``path`` too: Spark puts the
    archive first, but it holds no bytecode, so that every process would compile what it imports from it."""
    return [entry for entry in path if not (entry.endswith(_ARCHIVE) and str(Path(entry).parents[3]) in path)]


def main() -> None:
    """Load, then serve as Spark's daemon does."""
    sys.path[:] = prefer_folders(sys.path)
    for name in _LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
