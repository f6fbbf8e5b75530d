"""The size of a job as a user gives it: ``rows/s,keys,bytes``."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate import errors
from sparkstate_spec import units

EXAMPLE = "50k,10M,200"
_WRITE = f"write --size rows/s,keys,bytes, for example --size {EXAMPLE} or --size 50krows/s,10Mkeys,200bytes"


@dataclass(frozen=True)
class Size:
    """Rows in a second, different keys in the state, encoded bytes of one key's values (without the key)."""

    rows_per_s: int
    keys: int
    key_bytes: int


@dataclass(frozen=True)
class _Part:
    """One of the three numbers. ``words``: what may stand behind it; ``most``: its largest value."""

    name: str
    words: tuple[str, ...]
    most: int


_PARTS = (
    _Part("rows/s", ("rows/s",), 10**9),
    _Part("keys", ("keys",), 10**13),
    # An encoded value may have no more (docs/state-backends.md).
    _Part("bytes", ("bytes", "b", "B"), 2**31 - 1),
)


def parse(text: str) -> Size:
    """The size that the text gives. Numbers are quantities as in the spec: ``200``, ``50k``, ``1.5M``, ``2Ki``; behind
    each may stand what it counts. Raises ``SpecInvalid``."""
    given = text.split(",")
    if len(given) != len(_PARTS):
        raise errors.SpecInvalid(f"--size is {text[:80]!r}, {len(given)} value(s) instead of three; {_WRITE}")
    return Size(*(_number(part, each.strip()) for part, each in zip(_PARTS, given, strict=True)))


def _number(part: _Part, text: str) -> int:
    word = next((word for word in part.words if text.endswith(word)), "")
    try:
        number = units.quantity_bytes(text.removesuffix(word).rstrip())
    except ValueError:
        raise errors.SpecInvalid(
            f"--size: {part.name} is {text[:80]!r}, not a number such as 200, 50k or 1.5M; {_WRITE}"
        ) from None
    if not 1 <= number <= part.most:
        raise errors.SpecInvalid(
            f"--size: {part.name} is {text[:80]!r}; it must lie between 1 and {part.most:,}"
        )
    return number
