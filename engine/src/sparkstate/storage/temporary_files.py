"""Files of a local store that have no name in it yet."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def removed(path: Path) -> Iterator[None]:
    """Whatever happens inside, ``path`` is not left behind."""
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def writer_is_dead(name: str) -> bool:
    """Whether the temporary file ``host-pid-id`` belongs to a process of this host that has ended."""
    host, pid, _ = name.rsplit("-", 2) if name.count("-") >= 2 else ("", "0", "")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
