"""The table of a life, written out."""

from __future__ import annotations

from collections.abc import Iterator

from sparkstate_operator.core.transitions import Cause, Step


def every(causes: tuple[Cause, ...]) -> Iterator[Step]:
    """All that a table has: transitions, and phases that go on in spite of a cause."""
    for cause in causes:
        yield from (Step(before, cause.to, cause) for before in sorted(cause.ends | cause.stale))
        yield from (Step(before, before, cause) for before in sorted(cause.keeps))
