"""Real volumes that are small or read-only: a tmpfs of one's own, mounted for one test. Needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Volume:
    """A mounted tmpfs at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave: int = 0) -> None:
        """Fill it until ``leave`` bytes are free: an ``ENOSPC`` as real as a full disk's."""
        free = os.statvfs(self.path)
        size = free.f_bavail * free.f_bsize - leave
        if size > 0:
            with self._filler.open("ab") as file:
                file.write(b"\0" * size)

    def free(self) -> None:
        """Take the filling away."""
        self._filler.unlink(missing_ok=True)

    @contextlib.contextmanager
    def unmounted(self) -> Iterator[None]:
        """The volume is away inside, its mount point stays; then the same volume is back."""
        kept = self.path.with_name(f"{self.path.name}-kept")
        kept.mkdir()
        _run("mount", "--bind", str(self.path), str(kept))
        try:
            _run("umount", "--lazy", str(self.path))
            try:
                yield
            finally:
                _run("mount", "--bind", str(kept), str(self.path))
        finally:
            _run("umount", "--lazy", str(kept))
            kept.rmdir()

    def remount(self, options: str) -> None:
        """``ro`` or ``rw``."""
        _run("mount", "-o", f"remount,{options}", str(self.path))


@contextlib.contextmanager
def mounted(path: Path, size: str = "8m") -> Iterator[Volume]:
    """A new tmpfs at ``path``; the test is skipped where this process may not mount one."""
    path.mkdir(parents=True)
    try:
        _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a tmpfs here ({error}); run as root")
    try:
        yield Volume(path)
    finally:
        # Lazily: a process that a failed test left behind must not keep it.
        _run("umount", "--lazy", str(path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
