"""What slots that are gone have left on this disk, for those that come after them (Flink's local recovery).

A slot's folder is ``<incarnation>-<slot>`` under a base that is the same for all slots of an executor. A slot that
leaves, or whoever finds that it has died, renames the folder to ``….left`` and keeps RocksDB's files in it, and the
links to those of the newest checkpoint (``slots.kept``). They never change once they are written: a restore links what
its checkpoint refers to instead of downloading it. A file is taken for what the checkpoint names if a slot has noted
its checksum and nobody has written to it since (``slots.proven``), or if its SHA-256 says so; else it is downloaded
(``checkpoint.downloader``).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from pathlib import Path
from typing import Final

from sparkstate.checkpoint.downloader import beforehand
from sparkstate.handles import FileHandle, ShardHandle
from sparkstate.slots import kept, logs, proven

SLOTS: Final = "slots"
"""Of a driver's or executor's working directory: the base of its slots' folders."""
_OF_A_JOB: Final = "sparkstate-"
_SUFFIX: Final = ".left"
_STORES: Final = (f"{kept.FOLDER}/*", "db", "download")
"""Where the shards' folders are, below a slot's."""
_WITH_STATE: Final = frozenset(stores.partition("/")[0] for stores in _STORES)


def shard_folder(directory: Path, shard: int) -> Path:
    """Where a shard's files are, in a slot's folder of stores or of downloads."""
    return directory / f"shard-{shard:05d}"


def is_slot(folder: Path) -> bool:
    """Whether this is the folder of a slot that has not left."""
    incarnation, _, slot = folder.name.partition("-")
    return incarnation.isdigit() and slot.isdigit() and folder.is_dir()


def keep(folder: Path) -> None:
    """A slot is gone or goes: away from its name, for which others wait, and only what a restore can use is kept.

    RocksDB's threads may still make files in it meanwhile. May be repeated.
    """
    away = folder.with_name(folder.name + _SUFFIX)
    with contextlib.suppress(OSError):
        folder.rename(away)
    with contextlib.suppress(FileNotFoundError):
        for entry in away.iterdir():
            if entry.name not in _WITH_STATE:
                _remove(entry)
    shutil.rmtree(folder, ignore_errors=True)


def settle(base: Path) -> None:
    """A driver begins: whatever is under ``base`` is of an earlier one, and only state is kept."""
    for entry in base.iterdir() if base.exists() else ():
        if is_slot(entry):
            keep(entry)
        elif entry.suffix != _SUFFIX and not logs.is_log(entry.name):
            _remove(entry)


def inherit(work_dir: Path) -> None:
    """An attempt has claimed its job, so nobody may use any more what the other attempts' drivers have on this disk.

    Working directories that may outlive a pod are named by their attempt's number, side by side in a folder of the job;
    of any other name there is nothing to inherit. May be repeated.
    """
    if not (work_dir.name.isdigit() and work_dir.parent.name.startswith(_OF_A_JOB)):
        return
    for other in work_dir.parent.iterdir():
        if not other.name.isdigit() or other == work_dir:
            continue
        settle(other / SLOTS)
        for folder in (other / SLOTS).glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # another disk is mounted there: it is downloaded
                folder.rename(work_dir / SLOTS / f"{other.name}-{folder.name}")
        _remove(other)


def clear(base: Path) -> None:
    """Remove everything that was left under ``base``."""
    for folder in base.glob(f"*{_SUFFIX}"):
        shutil.rmtree(folder, ignore_errors=True)


def take(base: Path, shard: ShardHandle, directory: Path) -> frozenset[str]:
    """Link what may be files of this shard into ``directory`` (created), for its download to look at first; then
    remove what else was left of the shard, so that a restore needs no more room than the state.

    Returns the names of those that are known to be right, which lie there under these names.
    """
    directory.mkdir(parents=True, exist_ok=True)
    folders = [
        folder
        for pattern in _STORES
        for stores in base.glob(f"*{_SUFFIX}/{pattern}")
        if (folder := shard_folder(stores, shard.shard)).is_dir()
    ]
    wanted = {(handle.name, handle.size): handle for handle in shard.files if _may_be_left(handle)}
    checksums = {seen: checksum for folder in folders for seen, checksum in proven.take(folder).items()}
    right = set()
    for path in itertools.chain(*map(proven.files_below, folders)):
        with contextlib.suppress(OSError):  # gone meanwhile, or another device: it is downloaded
            seen = proven.look(path)
            handle = wanted.get((_name(path), seen.size))
            if handle is None:
                continue
            if checksums.get(seen) == handle.checksum:
                os.link(path, directory / handle.name)
                right.add(handle.name)
            else:
                os.link(path, beforehand(directory / handle.name))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return frozenset(right)


def _may_be_left(handle: FileHandle) -> bool:
    return handle.inline is None and handle.name.endswith(proven.IMMUTABLE)


def _name(path: Path) -> str:
    """What RocksDB calls it; a restore that was interrupted has links that nobody has looked at yet."""
    number, dot, _ = path.name.lstrip(".").partition(proven.IMMUTABLE)
    return number + dot


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            entry.unlink()
