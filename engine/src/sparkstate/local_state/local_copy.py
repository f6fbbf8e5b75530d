"""The files of the newest completed checkpoint, on this disk until the next one is
complete (Flink's ``TaskLocalStateStore``).

They are hard links of RocksDB's files, so they cost nothing while the store has the files too. Files that
a compaction has since taken away from the store cost their size; they are kept up to a share of the checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sparkstate.local_state import verified_files

SHARE: Final = 0.5
"""The share of a checkpoint's bytes that the disk may hold for that checkpoint alone. A compaction needs as much beside
the state while it runs, so a disk has that room anyway."""
_log = logging.getLogger("sparkstate.slots")


@dataclass
class _File:
    size: int
    links: int
    """In all of the file system."""
    paths: list[Path] = field(default_factory=list)
    """Those below our directory."""


class LocalCopy:
    """``directory`` is this object's alone, on the device of the stores. Thread-safe by what the file system does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def store(self, checkpoint_id: int, prepared: Path) -> None:
        """Make ``prepared``, the folder of a snapshot that was stored, ours, except the files that RocksDB may write
        to. Nothing fails where that cannot be done: the next restore downloads more."""
        with contextlib.suppress(OSError):
            for path in verified_files.files_below(prepared):
                if path.suffix != verified_files.IMMUTABLE:
                    path.unlink()
            self._directory.mkdir(exist_ok=True)
            prepared.rename(self._directory / str(checkpoint_id))

    def folder(self, checkpoint_id: int) -> Path:
        """Where the checkpoint's folders of shards are, if it is kept."""
        return self._directory / str(checkpoint_id)

    def confirm(self, checkpoint_id: int) -> None:
        """This one is the newest that a restore begins with: older ones go."""
        for folder in self._folders():
            if int(folder.name) < checkpoint_id:
                shutil.rmtree(folder, ignore_errors=True)

    def abort(self, checkpoint_id: int) -> None:
        """No restore will begin with this one."""
        shutil.rmtree(self.folder(checkpoint_id), ignore_errors=True)

    def trim(self) -> None:
        """Give back what is here alone and beyond :data:`SHARE`. A file of two checkpoints counts once: otherwise the
        bound is up to twice as wide while the newer one's outcome is open."""
        found: dict[int, _File] = {}
        for path in verified_files.files_below(self._directory):
            with contextlib.suppress(FileNotFoundError):  # its checkpoint was followed by another
                look = path.stat()
                found.setdefault(look.st_ino, _File(look.st_size, look.st_nlink)).paths.append(path)
        room = sum(file.size for file in found.values()) * SHARE
        for file in sorted(found.values(), key=lambda file: (file.size, file.paths)):
            if file.links > len(file.paths):  # the store has it
                continue
            room -= file.size
            if room < 0:
                for path in file.paths:
                    path.unlink(missing_ok=True)
                _log.debug(
                    "%s, %d bytes, is not kept: compactions have replaced too much",
                    file.paths[0].name,
                    file.size,
                )

    def _folders(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):  # nothing has been kept
            yield from self._directory.iterdir()
