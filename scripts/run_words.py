"""How pages tell of a benchmark's run: where it was made, and Markdown tables of its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def place(run: Mapping[str, Any], *versions: str) -> str:
    """Command, day, commit, machine and versions, as words that follow "a run". ``versions``: besides its own."""
    return (
        f"of `{run['command']}` on {run['date']}, commit {run['commit']}, on {run['machine'].replace('(R)', '')}, "
        f"with {', '.join([run['versions'], *versions])}"
    )


def rounds(results: Iterable[Mapping[str, Any]]) -> int:
    """The most that a result has; those without rounds do not count."""
    return max((len(each["rounds"]) for each in results if "rounds" in each), default=0)


def told_rounds(results: Iterable[Mapping[str, Any]]) -> str:
    """Of how many rounds the rates are, as a sentence."""
    number = rounds(results)
    return (
        "Each rate is of one round." if number == 1 else f"Rates are medians of {number} alternating rounds."
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """With a rule below the head."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
