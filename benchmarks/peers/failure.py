"""The reason for a failure out of the log of a program, in one line for the table."""

from __future__ import annotations

LONGEST = 160


def reason(log: str) -> str:
    """The last cause that Java names; otherwise the last line that is not part of a stack."""
    lines = [line for line in log.splitlines() if line.strip()]
    causes = [line for line in lines if line.lstrip().startswith("Caused by: ")]
    told = [line for line in lines if not line[0].isspace()]
    found = (causes or told or lines or ["no message"])[-1]
    return found.strip().removeprefix("Caused by: ")[:LONGEST]
