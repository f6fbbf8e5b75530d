"""The bound that a source sets on the rows of an epoch: which of its options is one, and what to say if none is set."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Final

_BOUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "file": ("maxFilesPerTrigger", "maxBytesPerTrigger"),
    "kafka": ("maxOffsetsPerTrigger",),
    "rate-micro-batch": ("rowsPerBatch",),
}
"""By format, for the sources of Spark itself. It ignores any other option, a misspelt one as well."""
_NO_BOUNDS: Final = frozenset({"minoffsetspertrigger"})
"""Options that Spark has, of names like those above."""
_OF_OTHERS: Final = re.compile(r"max\w*pertrigger|rowsperbatch", re.IGNORECASE)
"""For the formats of others, whose options nobody knows here."""
_ALIKE: Final = 0.75
"""From this likeness on, of 0 to 1, a name is taken for a slip of the other."""


def is_bounded(kind: str, options: Collection[str]) -> bool:
    """Whether one of the options, by name, bounds an epoch of a source of this kind."""
    if kind not in _BOUNDS:
        return any(_OF_OTHERS.fullmatch(name) for name in options)
    return not {name.lower() for name in options}.isdisjoint(name.lower() for name in _BOUNDS[kind])


def remedy(kind: str, provider: str, options: Collection[str]) -> str:
    """The option to set, for the end of a message. ``provider``: the format as the job names it."""
    slips = [name for name in options if name.lower() not in _NO_BOUNDS]
    pairs = [(_likeness(name, bound), name, bound) for name in slips for bound in _BOUNDS.get(kind, ())]
    likeness, slip, meant = max(pairs, default=(0.0, "", ""))
    if likeness >= _ALIKE:
        return f"{slip} is not an option of {provider!r}; did you mean {meant}?"
    return f"set {' or '.join(_BOUNDS.get(kind, _BOUNDS['file']))}"


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other.lower()).ratio()
