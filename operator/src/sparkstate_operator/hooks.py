"""Hooks by which tests kill the operator right before or right after one of its writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sparkstate_operator.actions import Write

VARIABLE = "SPARKSTATE_OPERATOR_CRASH"
"""``before:create-pod`` or ``after:create-pod``; with ``:2`` at the end the second such write."""
EXIT_CODE = 137


class Hooks(Protocol):
    """Called around every write."""

    def before(self, write: Write) -> None:
        """The write is about to be sent."""

    def after(self, write: Write) -> None:
        """The write has been answered with success."""


class NoHooks:
    """In production."""

    def before(self, write: Write) -> None:
        pass

    def after(self, write: Write) -> None:
        pass


class Crash:
    """Ends the process, as ``kill -9`` would, at one write."""

    def __init__(
        self, moment: str, write: Write, count: int = 1, end: Callable[[int], Any] = os._exit
    ) -> None:
        self._moment, self._write, self._left, self._end = moment, write, count, end

    def before(self, write: Write) -> None:
        self._reached("before", write)

    def after(self, write: Write) -> None:
        self._reached("after", write)

    def _reached(self, moment: str, write: Write) -> None:
        if (moment, write) != (self._moment, self._write):
            return
        self._left -= 1
        if self._left == 0:
            self._end(EXIT_CODE)


def from_environment(environment: Mapping[str, str]) -> Hooks:
    """By :data:`VARIABLE`. Raises ValueError for an unknown write or moment."""
    text = environment.get(VARIABLE)
    if not text:
        return NoHooks()
    moment, name, *count = text.split(":")
    if moment not in ("before", "after"):
        raise ValueError(f"{VARIABLE} is {text!r}; write before:WRITE or after:WRITE")
    return Crash(moment, Write(name), int(count[0]) if count else 1)
