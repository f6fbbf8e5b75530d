"""A file system that refuses writes, as one that is mounted read-only does, without a mount."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

_CHANGING = ("mkdir", "unlink", "rmdir", "link", "rename", "replace")


def make_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, the calls by which a store changes a folder raise ``EROFS``."""
    for name in _CHANGING:
        monkeypatch.setattr(os, name, _refusing(lambda *_: True, getattr(os, name)))
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    monkeypatch.setattr(os, "open", _refusing(lambda _path, flags, *_: bool(flags & writing), os.open))


def _refusing(when: Callable[..., bool], real: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any, *given: Any, **named: Any) -> Any:
        # A folder that exists is said to exist even there.
        exists = real.__name__ == "mkdir" and os.path.isdir(path)
        if when(path, *given) and not exists:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, *given, **named)

    return call
