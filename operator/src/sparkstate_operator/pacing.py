"""How often drivers are asked, progress is written and jobs are looked at, depending on the number of jobs (RFC 0024).

One idle job costs little; thousands of them do not. Polls, writes and looks have a bounded rate for all jobs together.
Beyond a number of jobs each of them waits longer, and operator and API server cost the same however many there are.
Urgent news needs no poll: a pod that fails, a driver that is no longer ready (its readiness probe fails while it pauses
or recovers) and a changed spec are events of the watches.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from sparkstate_operator.config import Config


def listen_s(config: Config, jobs: int) -> float:
    """Between two polls of one driver, among so many jobs. Up to 1,000 jobs it is ``listen_s`` (RFC 0020)."""
    return max(config.listen_s, jobs / config.polls_per_s)


def progress_s(config: Config, jobs: int) -> float:
    """Between two writes of one job's progress, among so many jobs."""
    return max(config.progress_s, jobs / config.progress_writes_per_s)


def resync_s(config: Config, jobs: int) -> float:
    """Between two looks at a job of which there is no event, among so many jobs. Up to 900 jobs it is ``resync_s``.
    Without this bound, the cost of all looks grew with the square of the jobs, because the API server scans the objects
    of all jobs for the list of one (RFC 0024)."""
    return max(config.resync_s, jobs / config.looks_per_s)


def wait_s(config: Config, decided_s: float | None, *, calm: bool) -> float | None:
    """Until a look that waits for no pace, given when the decision wants one. ``calm``: the job's driver answers, or
    nothing has to run. Any other job is looked at every ``resync_s`` however many there are: if an event about its pod
    was lost, nothing else would tell."""
    if calm:
        return decided_s
    return config.resync_s if decided_s is None else min(decided_s, config.resync_s)


SPARE_S = 1.0
"""Between two that pass while urgent work lacks a worker. Without it, looks without a reason and writes of progress
took most of the answers of a slow API server, while failed pods waited for their successors."""


BURST, CATCH_UP = 10.0, 3.0
"""Of those that ask seldom: so many pass at once, and then so many times the rate. With 5,000 jobs 1,600 held turns
until their next looks, and all had them within a second when a watch had to list anew. The rate itself would be too
few: who comes too soon waits for its next look, and some would wait for hours."""


class Pace:
    """Lets this many jobs pass in a second, first those that have waited longest. It spreads thousands of jobs that
    become due at once because all were looked at together. When chance decided, one of 5,000 waited for two hours,
    because those that had passed were due again before all others had.

    ``places``: this many may be under way, until each calls :meth:`end`. If they take longer than the rate allows for,
    fewer pass, so that they do not hold workers that others wait for. A job that does not pass asks again. ``behind``:
    whether urgent work lacks a worker; then few pass, and the API server is left to that work. ``burst``: this many
    whose turn has come pass at once; for jobs that ask so seldom that many turns are held.

    A waiting job has a place in a line rather than a time, because the speed of the line may change: jobs that have
    waited for a slow API server pass at full rate once it is fast again."""

    def __init__(
        self,
        per_s: float,
        monotonic: Callable[[], float],
        places: float = math.inf,
        behind: Callable[[], bool] = lambda: False,
        burst: float = math.inf,
    ) -> None:
        self._every_s = 1.0 / per_s
        self._places = self._free = places
        self._monotonic = monotonic
        self._behind = behind
        self._line: OrderedDict[Hashable, None] = OrderedDict()
        """Those that wait for their turn, in the order in which they first asked."""
        self._called: set[Hashable] = set()
        """Those whose turn has come, and who have not asked since, or found no place, or came with too many others."""
        self._may_call, self._at_s = 1.0, monotonic()
        """How many turns have come that nobody has had yet, and when that was counted."""
        self._may_pass = self._burst = burst
        """How many of those may pass at this moment."""
        self._began: dict[Hashable, float] = {}
        self._takes_s = 0.0
        """How long one is under way, smoothed."""

    def take(self, key: Hashable) -> bool:
        """Whether it is this one's turn; if so it has passed."""
        now_s = self._monotonic()
        self._call(now_s, key)
        if key not in self._called or self._free < 1 or self._may_pass < 1.0:
            return False
        self._may_pass -= 1.0
        self._called.discard(key)
        self._began[key] = now_s
        self._free -= 1
        return True

    def _call(self, now_s: float, key: Hashable) -> None:
        """Call as many as the time since the last call allows; ``key`` joins the line. While nobody waits, at most one
        turn is saved up, so that no burst follows a quiet time."""
        spare_s = SPARE_S if self._behind() else 0.0
        pause_s = max(self._every_s, self._takes_s / self._places, spare_s)
        turns, self._at_s = (now_s - self._at_s) / pause_s, now_s
        self._may_call = min(self._may_call + turns, len(self._line) + 1.0)
        self._may_pass = min(self._may_pass + CATCH_UP * turns, self._burst)
        if key not in self._called:
            self._line.setdefault(key)
        while self._line and self._may_call >= 1.0:
            self._may_call -= 1.0
            self._called.add(self._line.popitem(last=False)[0])

    def end(self, key: Hashable) -> None:
        """One that passed is no longer under way."""
        took_s = self._monotonic() - self._began.pop(key)
        self._takes_s += (took_s - self._takes_s) / 8
        self._free += 1

    def drop(self, key: Hashable) -> None:
        """It need not pass any more, and those behind it come sooner."""
        self._line.pop(key, None)
        self._called.discard(key)


def comparisons(
    config: Config, monotonic: Callable[[], float], behind: Callable[[], bool] = lambda: False
) -> Pace:
    """Of the looks that compare all children. A job asks at each of its looks, of which there may be one in a quarter
    of an hour."""
    return Pace(config.deep_looks_per_s, monotonic, behind=behind, burst=BURST)


@dataclass
class Dues:
    """When the operator looks at a job although there was no event, in the clock's seconds."""

    timed_s: float = 0.0
    """Because of something that is to happen then."""
    resync_s: float = 0.0
    """Without any reason, as far as the pace lets."""

    def after_look(self, now_s: float, wait_s: float | None, resync_s: float) -> None:
        """There was a look. ``wait_s``: when its decision wants another one."""
        self.timed_s = math.inf if wait_s is None else now_s + wait_s
        self.resync_s = now_s + resync_s

    def no_later(self, now_s: float, wait_s: float | None) -> None:
        """A decision without a look wants one."""
        self.timed_s = min(self.timed_s, math.inf if wait_s is None else now_s + wait_s)

    def within_s(self, now_s: float, longest_s: float) -> float:
        """How long nothing is due, at most ``longest_s``, which it also is if a look only waits for its pace."""
        resync_s = self.resync_s - now_s if self.resync_s > now_s else longest_s
        return min(longest_s, resync_s, max(0.2, self.timed_s - now_s))
