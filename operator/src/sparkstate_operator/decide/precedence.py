"""A decision as a list of rules in their order of precedence.

Each rule is a pure function over what was seen. It gives what follows, or None where it does not apply, and its
docstring says why it stands where it does. The first one that gives anything counts, so the list is the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def first(rules: Iterable[Callable[_P, _T | None]], *seen: _P.args, **more: _P.kwargs) -> _T | None:
    """The result of the first rule that applies; None if none does."""
    return next((found for rule in rules if (found := rule(*seen, **more)) is not None), None)
