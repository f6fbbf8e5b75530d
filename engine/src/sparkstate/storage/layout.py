"""Where the files of a lineage lie, as in Flink: ``chk-N/``, ``shared/``,
``taskowned/``, ``savepoint-…/``, ``_metadata``.

Data files carry ``<incarnation>-<checkpoint>-<unique id>`` in their names. Names are so never used twice, and
whose leftovers a file is can be told from its name alone.
"""

from __future__ import annotations

import re

METADATA = "_metadata"
SHARED = "shared"
TASK_OWNED = "taskowned"
SAVEPOINTS = "savepoints"
DATA_PREFIXES = ("chk-", f"{SHARED}/", f"{TASK_OWNED}/")
"""Prefixes of the names of all files of checkpoints: a listing of these leaves out the log."""

_DATA_FILE = re.compile(r"(?:chk-\d+|shared|taskowned)/(\d+)-(\d+)-[0-9a-zA-Z._-]+")
_METADATA_FILE = re.compile(r"chk-(\d+)/_metadata")


def checkpoint_folder(checkpoint_id: int) -> str:
    """``chk-N``: the files that belong to checkpoint N alone."""
    return f"chk-{checkpoint_id}"


def metadata_path(checkpoint_id: int) -> str:
    """The object whose log record makes checkpoint N complete."""
    return f"{checkpoint_folder(checkpoint_id)}/{METADATA}"


def data_name(incarnation: int, checkpoint_id: int, unique: str) -> str:
    """The last segment of a data file's path."""
    return f"{incarnation}-{checkpoint_id}-{unique}"


def written_by(path: str) -> tuple[int, int] | None:
    """(incarnation, checkpoint id) of a data file's path; None for any other path."""
    match = _DATA_FILE.fullmatch(path)
    return (int(match[1]), int(match[2])) if match else None


def checkpoint_of_metadata(path: str) -> int | None:
    """N of ``chk-N/_metadata``, else None."""
    match = _METADATA_FILE.fullmatch(path)
    return int(match[1]) if match else None


def savepoint_folder(lineage: str, unique: str) -> str:
    """``savepoint-<first six digits of the lineage>-<unique id>``."""
    return f"savepoint-{lineage[:6]}-{unique}"
