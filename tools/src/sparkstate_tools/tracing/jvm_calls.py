"""The calls of Spark's JVM that a Python process makes, counted while it runs.

py4j sends each use of a Java object over a socket and waits for the answer: a method, a constructor, a field, and each
part of a name such as ``org.apache.spark`` that Python looks up. Another thread releases objects that Python no longer
needs, one call each, and nobody waits for that.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from py4j import protocol

_METHOD: Final = protocol.CALL_COMMAND_NAME
_CONSTRUCTOR: Final = protocol.CONSTRUCTOR_COMMAND_NAME
RELEASE: Final = "release"
_KINDS: Final = {
    _METHOD: "method",
    _CONSTRUCTOR: "constructor",
    protocol.REFLECTION_COMMAND_NAME: "name",
    protocol.FIELD_COMMAND_NAME: "field",
    protocol.MEMORY_COMMAND_NAME: RELEASE,
}


@dataclass(frozen=True)
class Call:
    """One call. ``begun_s`` is Unix time."""

    begun_s: float
    took_s: float
    kind: str
    """``method``, ``constructor``, ``name``, ``field``, ``release`` or ``other``."""
    name: str
    """Of the method or the class; empty for other kinds."""
    size: int
    """Characters sent. Bytes travel as four characters for three."""


def kind_and_name(command: str) -> tuple[str, str]:
    """The kind of call that a command of py4j's protocol asks for, and its name."""
    kind = _KINDS.get(command[:2], "other")
    lines = command.split("\n", 3)
    if command.startswith(_METHOD):
        return kind, lines[2]
    return kind, lines[1] if command.startswith(_CONSTRUCTOR) else ""


class Calls:
    """Hands each call of a process to ``tell`` once it is answered, until :meth:`stop`. ``client`` is py4j's, which all
    Java objects of a Spark session share."""

    def __init__(self, client: Any, tell: Callable[[Call], None]) -> None:
        self._client = client
        self._tell = tell
        self._send = client.send_command
        self._here = threading.local()
        client.send_command = self._counted

    def stop(self) -> None:
        """Count no more."""
        self._client.send_command = self._send

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Within it, this thread's calls are not counted."""
        self._here.is_uncounted = True
        try:
            yield
        finally:
            self._here.is_uncounted = False

    def _counted(self, command: str, *arguments: Any, **named: Any) -> Any:
        if getattr(self._here, "is_uncounted", False):
            return self._send(command, *arguments, **named)
        begun, started = time.time(), time.monotonic()
        try:
            return self._send(command, *arguments, **named)
        finally:
            self._tell(Call(begun, time.monotonic() - started, *kind_and_name(command), len(command)))


def written(path: Path) -> Callable[[Call], None]:
    """A ``tell`` that appends each call to a file, one JSON object per line."""
    file = path.open("a", buffering=1, encoding="utf-8")  # a driver may end without closing its files
    lock = threading.Lock()

    def tell(call: Call) -> None:
        with lock:
            file.write(json.dumps(asdict(call)) + "\n")

    return tell


def read(path: Path) -> Sequence[Call]:
    """The calls of such a file."""
    return [Call(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
