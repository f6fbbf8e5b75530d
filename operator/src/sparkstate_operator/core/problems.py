"""Why a spec cannot run, by field, value and remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparkstate_operator import errors


@dataclass(frozen=True)
class Problem:
    """One finding: ``field`` is the path to change, ``message`` says what to do, ``value`` what stands there."""

    field: str
    message: str
    value: str = ""

    def __str__(self) -> str:
        shown = f" (it is {self.value})" if self.value else ""
        return f"{self.field}: {self.message}{shown}"


def raise_if_any(problems: Iterable[Problem]) -> None:
    """``SpecInvalid`` that lists all findings, if there are any."""
    found = [str(problem) for problem in problems]
    if found:
        raise errors.SpecInvalid("; ".join(found))
