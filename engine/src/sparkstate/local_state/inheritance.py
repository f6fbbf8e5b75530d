"""The fate of a slot's folder once the slot is gone: its state stays, for the restores that come.

A slot that leaves renames its folder, or whoever finds that it has died does. The first commit of the slots that came
after it removes all that is left.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Final

from sparkstate.local_state import folders

_OF_A_JOB: Final = "sparkstate-"
_WITH_STATE: Final = frozenset({folders.LOCAL_COPY, folders.STORES, folders.DOWNLOADS})


def retire(folder: Path) -> None:
    """A slot is gone or goes: its folder gives up its name, for which others wait, and keeps only what a restore can
    use. May be repeated."""
    # Renamed first: RocksDB's threads may still make files in it. So a folder that was emptied in place now and then
    # stayed, and the next incarnation waited ten seconds before it killed the slot.
    away = folder.with_name(folder.name + folders.LEFT)
    with contextlib.suppress(OSError):
        folder.rename(away)
    with contextlib.suppress(FileNotFoundError):
        for entry in away.iterdir():
            if entry.name not in _WITH_STATE:
                _remove(entry)
    shutil.rmtree(folder, ignore_errors=True)


def retire_all(base: Path) -> None:
    """A driver begins: whatever is under ``base`` is of an earlier one, and only state and logs are kept."""
    for entry in base.iterdir() if base.exists() else ():
        if folders.is_slot(entry):
            retire(entry)
        elif entry.suffix != folders.LEFT and not folders.is_log(entry.name):
            _remove(entry)


def inherit(work_dir: Path) -> None:
    """An attempt has claimed its job, so the other attempts' drivers are fenced and may use nothing on this disk.

    Working directories that may outlive a pod are named by their attempt's number, side by side in a folder of the job;
    of any other name there is nothing to inherit. May be repeated.
    """
    if not (work_dir.name.isdigit() and work_dir.parent.name.startswith(_OF_A_JOB)):
        return
    for other in work_dir.parent.iterdir():
        if not other.name.isdigit() or other == work_dir:
            continue
        retire_all(other / folders.SLOTS)
        for folder in (other / folders.SLOTS).glob(f"*{folders.LEFT}"):
            with contextlib.suppress(OSError):  # another disk is mounted there: it is downloaded
                folder.rename(work_dir / folders.SLOTS / f"{other.name}-{folder.name}")
        _remove(other)


def discard(base: Path) -> None:
    """Remove everything that was left under ``base``."""
    for folder in base.glob(f"*{folders.LEFT}"):
        shutil.rmtree(folder, ignore_errors=True)


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            entry.unlink()
