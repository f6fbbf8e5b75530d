"""RocksDB's errors in our words. rocksdict raises plain ``Exception`` with RocksDB's status as text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from sparkstate import errors, local_disk


def is_stall(error: Exception) -> bool:
    """Whether a write was refused only because RocksDB wants it later (``no_slowdown``)."""
    text = str(error)
    return "Write stall" in text or "Result incomplete" in text


def translate(error: Exception, path: Path, doing: str) -> errors.SparkstateError:
    """The error to raise instead: what was done, where, what RocksDB said, and the remedy."""
    what, text = f"{doing} the state in {path}", str(error)
    if "Corruption" in text and not local_disk.is_full(text):
        return errors.CorruptData(
            f"{what} failed, its files are damaged: {text}. Restore from the last checkpoint, and check the disk"
        )
    return local_disk.translated(error, what)


def reraise(error: Exception, path: Path, doing: str) -> NoReturn:
    """Raise rocksdict's error as ours. Ours pass, and so do the interpreter's own."""
    # rocksdict's Exception has no type of its own, only its DbClosedError has.
    is_rocksdicts = type(error) is Exception or type(error).__name__ == "DbClosedError"
    if is_rocksdicts or isinstance(error, (OSError, MemoryError)):
        raise translate(error, path, doing) from error
    raise error


@contextlib.contextmanager
def translated(path: Path, doing: str) -> Iterator[None]:
    """:func:`reraise` what is raised within."""
    try:
        yield
    except Exception as error:
        reraise(error, path, doing)
