"""A file gets another name in its file system: once, because it loses the old one."""

from __future__ import annotations

import enum
import os
from pathlib import Path


class Renamed(enum.Enum):
    """The outcome of a renaming."""

    NOW = "it had the old name, and has the new one"
    BEFORE = "there is no file of the old name"
    NO_FOLDER = "the folder of the new name is gone"


def rename(source: Path, target: Path) -> Renamed:
    """``source`` becomes ``target``, whatever is there, with the present time: readers look for files newer than those
    they have read. A file of another user keeps its time, and so does one in a file system that sets none."""
    try:
        _touch(source)
        source.replace(target)
    except FileNotFoundError:
        return Renamed.NO_FOLDER if source.exists() else Renamed.BEFORE
    return Renamed.NOW


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except FileNotFoundError:
        raise
    except OSError:
        pass
