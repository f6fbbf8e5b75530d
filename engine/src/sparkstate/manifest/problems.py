"""Findings about a manifest, collected so that several are reported together."""

from __future__ import annotations

from collections.abc import Sequence

from sparkstate import errors
from sparkstate_spec.problems import NOT_IN_THIS_VERSION, Problem


def raise_if_any(problems: Sequence[Problem], name: str) -> None:
    """Raise one error that lists all problems; ``NotInThisVersion`` if nothing else is wrong."""
    if not problems:
        return
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    later = all(NOT_IN_THIS_VERSION in problem.message for problem in problems)
    kind = errors.NotInThisVersion if later else errors.SpecInvalid
    text = lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    raise kind(f"{name}: {text}" if len(lines) == 1 else f"{name} has {len(lines)} problems:{text}")
