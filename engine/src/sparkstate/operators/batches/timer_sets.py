"""The sets in which due timers that are objects fire: in order of time, or in order of time for each key alone."""

from __future__ import annotations

import bisect
import itertools
from typing import Any, Final

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
        self._keys: dict[Any, dict[object, None]] = {}
        """By namespace, the keys whose first timer is of it, or was when they were put there."""
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
            self._keys.clear()

    def _take_stretch(self) -> bool:
        for timer in itertools.islice(self._due, _STRETCH * CHUNK_TIMERS):
            self._timers.changes[timer] = True
            self._waiting.setdefault(timer[1], []).append(timer)
            self._end = timer[0]
        for key, timers in self._waiting.items():
            timers.reverse()
            self._file(key, timers)
        return bool(self._waiting)

    def _first_of_keys(self) -> list[TimerKey]:
        found: list[TimerKey] = []
        while self._keys and not found:
            namespace = next(iter(self._keys))
            for key in self._keys.pop(namespace):
                timers = self._waiting.pop(key, [])
                while timers and not self._timers.changes.get(timers[-1]):
                    timers.pop()  # deleted meanwhile, or registered again and fired
                if timers and timers[-1][2] == namespace and len(found) < CHUNK_TIMERS:
                    found.append(timers.pop())
                if timers:
                    self._waiting[key] = timers
                    self._file(key, timers)
        for timer in found:
            self._timers.changes[timer] = False
        return found

    def _file(self, key: object, timers: list[TimerKey]) -> None:
        self._keys.setdefault(timers[-1][2], {})[key] = None

    def _join(self) -> None:
        """Take in what the last call registered up to the end of the stretch."""
        while self._waiting and (time := self._timers.peek()) is not None and time <= self._end:
            timer = self._timers.pop()
            timers = self._waiting.setdefault(timer[1], [])
            bisect.insort(timers, timer, key=lambda each: -each[0])
            self._file(timer[1], timers)
