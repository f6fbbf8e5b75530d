"""The table of a life, written out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparkstate_operator.core.transitions import Cause, Step


def every(causes: tuple[Cause, ...]) -> Iterator[Step]:
    """All that a table has: transitions, and phases that go on in spite of a cause."""
    for cause in causes:
        yield from (Step(before, cause.to, cause) for before in sorted(cause.ends | cause.stale))
        yield from (Step(before, before, cause) for before in sorted(cause.keeps))


def untaken(steps: Iterable[Step], lives: Iterable[Iterable[Step]]) -> set[Step]:
    """The steps that none of these lives takes. When all are taken, no further life is lived."""
    left = set(steps)
    for life in lives:
        left.difference_update(life)
        if not left:
            break
    return left
