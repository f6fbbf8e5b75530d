"""The sets in which due timers that are objects fire: in order of time, or in order of time for each key alone."""

from __future__ import annotations

import bisect
import itertools
from typing import Final

from sparkstate.operators.common.due_timers import DueTimers
from sparkstate.operators.state.overlay import TimerKey, TimerOverlay

CHUNK_TIMERS: Final = 8192
"""The most in a set: a function does much once per call."""
_STRETCH: Final = 2
"""So many times the largest set is the stretch in which the first timers of keys are looked for. Its timers are taken
out of the place where they lie, and what that takes of memory is not weighed."""


class TimerSets:
    """Each set has timers of one namespace: the longest beginning without a repeated key."""

    def __init__(self, due: DueTimers, timers: TimerOverlay) -> None:
        self._due = due
        self._timers = timers

    def next_set(self) -> list[TimerKey]:
        """Marked as fired; empty if none is due."""
        found: list[TimerKey] = []
        keys: set[object] = set()
        for timer in self._due:
            _, key, namespace = timer
            if key in keys or (found and namespace != found[0][2]):
                # It may not count as fired: the calls of this set may delete it, or register one before it.
                self._timers.put_back(timer)
                break
            found.append(timer)
            keys.add(key)
            if len(found) == CHUNK_TIMERS:
                break
        return found

    def make_room(self) -> None:
        """Between two sets: entries and timers may go to disk."""
        self._due.make_room()


class SetsByKey(TimerSets):
    """Each set has the first timer of each key in a stretch of all timers. Those that wait for another one of their key
    count as registered: a call may delete them."""

    def __init__(self, due: DueTimers, timers: TimerOverlay) -> None:
        super().__init__(due, timers)
        self._waiting: dict[object, list[TimerKey]] = {}
        """By key; the first one to fire is the last of a list."""
        self._end = 0
        """The time of the last timer of the stretch."""

    def next_set(self) -> list[TimerKey]:
        self._join()
        while self._waiting or self._take_stretch():
            if found := self._first_of_keys():
                return found
        return []

    def make_room(self) -> None:
        least = min((timers[-1][0] for timers in self._waiting.values()), default=None)
        if self._due.make_room(least):
            self._waiting.clear()  # they are on disk, and due from there

    def _take_stretch(self) -> bool:
        for timer in itertools.islice(self._due, _STRETCH * CHUNK_TIMERS):
            self._timers.changes[timer] = True
            self._waiting.setdefault(timer[1], []).append(timer)
            self._end = timer[0]
        for timers in self._waiting.values():
            timers.reverse()
        return bool(self._waiting)

    def _first_of_keys(self) -> list[TimerKey]:
        found: list[TimerKey] = []
        for key, timers in list(self._waiting.items()):
            while timers and not self._timers.changes.get(timers[-1]):
                timers.pop()  # deleted meanwhile, or registered again and fired
            if timers and (not found or timers[-1][2] == found[0][2]):
                found.append(timers.pop())
            if not timers:
                del self._waiting[key]
            if len(found) == CHUNK_TIMERS:
                break
        for timer in found:
            self._timers.changes[timer] = False
        return found

    def _join(self) -> None:
        """Take in what the last call registered up to the end of the stretch."""
        while self._waiting and (time := self._timers.peek()) is not None and time <= self._end:
            timer = self._timers.pop()
            bisect.insort(self._waiting.setdefault(timer[1], []), timer, key=lambda each: -each[0])
