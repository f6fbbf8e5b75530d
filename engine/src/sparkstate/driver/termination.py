"""The last word of a process to whoever started it: one JSON line, short enough for a pod's termination message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 4096
"""Kubernetes keeps no more; a JSON document that was cut could not be read."""
_LONG: Final = "message"


def encode(document: Mapping[str, object]) -> str:
    """One line of ASCII, at most :data:`LIMIT_BYTES`; what is too long is the ``message``, of which the end is kept."""
    whole = json.dumps(document)
    if len(whole) <= LIMIT_BYTES:
        return whole
    room = LIMIT_BYTES - len(json.dumps({**document, _LONG: "…"}))
    return json.dumps({**document, _LONG: "…" + _tail(str(document.get(_LONG, "")), room)})


def _tail(text: str, room: int) -> str:
    """The end of ``text`` that takes at most ``room`` bytes once it is escaped."""
    kept = 0
    for character in reversed(text):
        room -= len(json.dumps(character)) - 2
        if room < 0:
            break
        kept += 1
    return text[len(text) - kept :]


def write(path: Path | None, document: Mapping[str, object]) -> None:
    """Write it to ``--termination-log``, if there is one."""
    if path is not None:
        path.write_text(encode(document))
