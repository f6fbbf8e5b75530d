"""Sorted runs of few rows, so that small tests meet several steps, reads and merges."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from sparkstate.backends.rocksdb import sorted_run, sorted_runs, spilled_columns


@contextlib.contextmanager
def small_runs() -> Iterator[pytest.MonkeyPatch]:
    """The limits of runs are two and three rows meanwhile. Gives the patch, for further limits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_run, "STEP", 2)
        patch.setattr(sorted_run, "_STEPS_AT_ONCE", 2)
        patch.setattr(sorted_run, "CHECKED", 2)
        patch.setattr(sorted_runs, "MOST_RUNS", 2)
        patch.setattr(sorted_runs, "_ROWS_AT_ONCE", 3)
        patch.setattr(spilled_columns, "_ROWS_AT_ONCE", 2)
        yield patch
