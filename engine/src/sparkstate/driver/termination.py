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
    excess = len(whole) - LIMIT_BYTES
    if excess <= 0:
        return whole
    message = str(document.get(_LONG, ""))
    # A character may take up to twelve bytes once it is escaped; cutting as many characters as bytes is enough.
    kept = message[excess + 2 :]
    return encode({**document, _LONG: f"…{kept}"}) if kept else json.dumps({**document, _LONG: ""})


def write(path: Path | None, document: Mapping[str, object]) -> None:
    """Write it to ``--termination-log``, if there is one."""
    if path is not None:
        path.write_text(encode(document))
