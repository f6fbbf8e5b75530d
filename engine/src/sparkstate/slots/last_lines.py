"""The last lines of a log, for the job's page: bounded, and without the secrets that this process knows.

No line of ours has a secret in it. But libraries, and functions of users, print what they like: their settings, a URL
with a password, the environment. So two nets catch what they can: every known secret is replaced wherever it stands,
and so is the value beside a word that says it is one.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO, cast

LINES: Final = 200
LINE_CHARACTERS: Final = 2000
_FILE_BYTES: Final = 128 << 10
"""Of the end of a file, what is read."""
_SHORTEST: Final = 6
"""A shorter secret would blot out words that mean something else."""
_HIDDEN: Final = "***"
_VARIABLES: Final = re.compile(r"SECRET|PASS|TOKEN|CREDENTIAL|PRIVATE_KEY|API_KEY|ACCESS_KEY_ID")
_WORDS: Final = re.compile(
    r"""(?ix) ( (?: secret | passw(?:or)?d | token | credential | private[._-]?key | api[._-]?key | access[._-]?key )
                [\w.-]{0,40} ["']? [ ]{0,3} [=:] [ ]{0,3} )
        ( "[^"]*" | '[^']*' | [^\s,;)}\]]+ )"""
)
"""Its repetitions have bounds, so that a line that somebody has made for it takes no longer than another."""
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_USER_INFO: Final = re.compile(r"(\w://)[^/\s@]+@")
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
"""Colours of a terminal, and characters that no reader expects."""


class Hiding:
    """Replaces secrets. ``known`` are this process's own."""

    def __init__(self, known: Iterable[str | None]) -> None:
        parts = (part.strip() for value in known if value for part in value.splitlines())  # as logs have them
        longest_first = sorted({part for part in parts if len(part) >= _SHORTEST}, key=len, reverse=True)
        self._secrets = tuple(longest_first)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @classmethod
    def of_process(cls, environment: Mapping[str, str], *further: str | None) -> Hiding:
        """The secrets that the environment's names tell of, and ``further`` ones."""
        named = (value for name, value in environment.items() if _VARIABLES.search(name.upper()))
        return cls((*named, *further))

    def hide(self, text: str) -> str:
        """The text without secrets."""
        if self._known is not None:
            text = self._known.sub(_HIDDEN, text)
        text = _BEARER.sub(rf"\1 {_HIDDEN}", text)
        text = _WORDS.sub(rf"\1{_HIDDEN}", text)
        return _USER_INFO.sub(rf"\1{_HIDDEN}@", text)

    def lines(self, raw: Iterable[str]) -> tuple[str, ...]:
        """The last :data:`LINES` of these, each hidden and cut."""
        return tuple(self._line(line) for line in deque(raw, maxlen=LINES))

    def _line(self, line: str) -> str:
        text = self.hide(_CONTROL.sub("", line[: 2 * LINE_CHARACTERS]))
        if len(line) >= 2 * LINE_CHARACTERS:  # it may end in the first half of a secret
            text = text[: len(text) - max((_overlap(text, secret) for secret in self._secrets), default=0)]
        return _cut(text)


class LastLines:
    """The last lines that a process writes to its standard output and error. Thread-safe."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES)
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """One line, without its end."""
        with self._lock:
            self._lines.append(line[: 2 * LINE_CHARACTERS])

    def raw(self) -> list[str]:
        """As they came, oldest first."""
        with self._lock:
            return list(self._lines)


class HeardStream:
    """Stands before a text stream: all that is written goes on to it, and whole lines to ``heard`` as well."""

    def __init__(self, stream: TextIO, heard: LastLines) -> None:
        self._stream = stream
        self._heard = heard
        self._rest = threading.local()

    def write(self, text: str) -> int:
        """As the stream does. Of an unfinished line that does not end, no more is kept than is shown."""
        written = self._stream.write(text)
        *lines, rest = (getattr(self._rest, "text", "") + text).split("\n")
        self._rest.text = rest[: 2 * LINE_CHARACTERS]
        for line in lines:
            self._heard.add(line)
        return written

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextlib.contextmanager
def hearing(heard: LastLines) -> Iterator[None]:
    """Meanwhile ``heard`` gets the lines that Python writes to standard output and error, which get them too."""
    out, err = cast("TextIO", HeardStream(sys.stdout, heard)), cast("TextIO", HeardStream(sys.stderr, heard))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def of_file(path: Path) -> list[str]:
    """The end of a log file, and of the one before it where this one has just begun. Files that are gone are empty."""
    before = path.with_name(path.name + ".1")
    found = _end_of(path)
    if len(found) < LINES:
        found = [*_end_of(before), *found]
    return found[-LINES:]


def _end_of(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _FILE_BYTES))
            text = file.read(_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.splitlines()
    return lines[1:] if size > _FILE_BYTES else lines  # the first one has lost its head


def _overlap(text: str, secret: str) -> int:
    """How many characters of the end of ``text`` are the beginning of ``secret``."""
    return next((size for size in range(len(secret) - 1, 0, -1) if text.endswith(secret[:size])), 0)


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…"
