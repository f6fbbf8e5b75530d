"""The due timers of an overlay that are on disk, a chunk at a time, while others fire beside them.

Each timer that fires leaves a deletion on disk, in the order in which timers are read. So no part is read a second
time because something went to disk, except from the time on at which more came: a pass over many timers would
read the deletions of all before it each time.
"""

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
        self._position: bytes | None = None if spill is None else b""
        """From where on nothing was read; None: everything was."""
        self._chunk: deque[Timer] = deque()

    def peek(self) -> Timer | None:
        """The next one; None if there is none."""
        if not self._chunk and self._position is not None and self._spill is not None:
            timers, behind = self._spill.due(self._spec, self._position, self._until, self._limit)
            self._position = behind if len(timers) == self._limit else None
            self._chunk.extend(timers)
            self._prefetch(timers)
        return self._chunk[0] if self._chunk else None

    def pop(self) -> None:
        """Take the one that ``peek`` saw."""
        self._chunk.popleft()

    def restart(self, spill: Spill | None, least: int | None) -> None:
        """More went to disk: due timers among it have the timestamp ``least`` or a later one (None: there are none).
        Some that were read may be deleted there."""
        self._spill = spill
        if spill is None:
            self._chunk.clear()
            self._position = None
            return
        waiting = list(self._chunk)
        if least is not None:
            waiting = [timer for timer in waiting if timer.timestamp < least]
            since = spill.position(least)
            self._position = since if self._position is None else min(self._position, since)
        flags = spill.standing(self._spec, waiting) if waiting else ()
        self._chunk = deque(timer for timer, stands in zip(waiting, flags, strict=True) if stands)
        self._prefetch(self._chunk)

    def standing(self, timers: list[Timer]) -> list[Timer]:
        """Those of the committed timers that are not deleted on disk."""
        if self._spill is None or not timers:
            return timers
        flags = self._spill.standing(self._spec, timers)
        return [timer for timer, standing in zip(timers, flags, strict=True) if standing is not False]
