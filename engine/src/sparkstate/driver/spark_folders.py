"""The folders that Spark makes in the working folder when it starts, and never again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LASTING: Final = ("blockmgr-*", "blockmgr-*/*", "spark-*/userFiles-*", "spark-*/pyspark-*")
"""They last as long as Spark's context, which remembers that it has made them. All others come and go."""


class SparkFolders:
    """Of the context of one driver, whose ``spark.local.dir`` is ``root``.

    Where a job has set another one, no folder is found."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: frozenset[Path] = frozenset()

    def note(self) -> None:
        """Remember the folders that are there now."""
        self._seen |= {path for pattern in _LASTING for path in self._root.glob(pattern) if path.is_dir()}

    @property
    def gone(self) -> Path | None:
        """The first of them that is there no longer. The context can never work again then, while that of another
        driver makes new ones."""
        return next((path for path in sorted(self._seen) if not os.path.isdir(path)), None)
