"""The due timers of an overlay that are on disk, a chunk at a time, while others fire beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from sparkstate.backends.base import Spill, TableSpec, Timer


class SpilledTimers:
    """A queue in order of time. ``prefetch`` is told of the timers of each chunk, so that their keys are known."""

    def __init__(
        self,
        spill: Spill | None,
        spec: TableSpec,
        until: int,
        limit: int,
        prefetch: Callable[[Sequence[Timer]], None],
    ) -> None:
        self._spill = spill
        self._spec = spec
        self._until = until
        self._limit = limit
        self._prefetch = prefetch
        self._position = b""
        """Behind the timer that was taken last."""
        self._chunk: deque[tuple[Timer, bytes]] = deque()
        self._exhausted = spill is None

    def peek(self) -> Timer | None:
        """The next one; None if there is none."""
        if not self._chunk:
            if self._exhausted or self._spill is None:
                return None
            timers, behind = self._spill.due(self._spec, self._position, self._until, self._limit)
            self._exhausted = len(timers) < self._limit
            self._chunk.extend(zip(timers, behind, strict=True))
            self._prefetch(timers)
        return self._chunk[0][0] if self._chunk else None

    def pop(self) -> None:
        """Take the one that ``peek`` saw."""
        _, self._position = self._chunk.popleft()

    def restart(self, spill: Spill | None, least: int | None) -> None:
        """More went to disk: due timers among it have the timestamp ``least`` or a later one (None: there are none)."""
        self._spill = spill
        self._chunk.clear()
        self._exhausted = spill is None
        if spill is not None and least is not None:
            self._position = min(self._position, spill.position(least))

    def standing(self, timers: list[Timer]) -> list[Timer]:
        """Those of the committed timers that are not deleted on disk."""
        if self._spill is None or not timers:
            return timers
        flags = self._spill.standing(self._spec, timers)
        return [timer for timer, standing in zip(timers, flags, strict=True) if standing is not False]
