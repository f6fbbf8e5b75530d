"""Texts that others have written, such as errors, as a document of bounded size can have them. Pure."""

from __future__ import annotations

from typing import Final

FAILURE: Final = 2000
"""Characters of a failure's message."""
CAUSE: Final = 1000
"""Of a recovery's cause. The status carries a hundred, a character takes up to six bytes there, and the operator reads
no document of more than 1 MiB."""


def cut(text: str, longest: int) -> str:
    """Head and tail of ``text``, in which errors say what happened and what caused it; whole where it has room.
    Half of a character, which JSON cannot have, is written out."""
    sound = text.encode(errors="backslashreplace").decode()
    if len(sound) <= longest:
        return sound
    tail = longest // 4
    return f"{sound[: longest - tail - 3]} … {sound[-tail:]}"
