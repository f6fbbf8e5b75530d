"""The restart strategy for new attempts: Flink's names and meanings, counted in the status.

Pure: the history is what the status holds. A failure that the job did not cause (a drained node, a deleted pod)
leads to a new attempt and does not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparkstate_operator import clock
from sparkstate_operator.core import naming
from sparkstate_operator.model.status import MOST_FAILURES
from sparkstate_operator.plan import Revision

KUBELET_FIRST_S, KUBELET_LONGEST_S = 10.0, 300.0
"""The kubelet's delays before it starts a container again: they double."""
_GROWING = "restart.exponentialDelay"


@dataclass(frozen=True)
class Restart:
    """Start a new attempt after ``delay_s``."""

    delay_s: float


@dataclass(frozen=True)
class NoRestart:
    """The strategy allows no other attempt."""

    why: str


def failures_of(counts: Mapping[str, Any]) -> list[datetime]:
    """The earlier ones that counted, oldest first, as the status' ``restarts`` holds them: those that a new attempt
    followed, and those after which the kubelet started the container again."""
    found = (clock.parse(text) for text in counts.get("recent") or ())
    return [moment for moment in found if moment is not None]


def answer(
    revision: Revision, failures: Sequence[datetime], now: datetime, spread: str = ""
) -> Restart | NoRestart:
    """Whether and when to start again; ``failures`` are the earlier ones that counted, oldest first.

    ``spread`` is a text that differs between jobs, a uid: it decides where in the range of ``jitterFactor`` a delay
    falls, so that jobs that failed together do not come back together. Empty: in the middle.
    """
    return {
        "none": _none,
        "fixed-delay": _fixed_delay,
        "failure-rate": _failure_rate,
        "exponential-delay": _exponential_delay,
    }[_strategy(revision)](revision, failures, now, spread)


def kept(revision: Revision) -> int:
    """How many failure times the strategy looks back on: 100, or as many as it allows, or as lead to its longest delay,
    if that is more. A strategy that allows more than the status keeps never gives up."""
    allowed = {
        "fixed-delay": "restart.fixedDelay.attempts",
        "failure-rate": "restart.failureRate.maxFailuresPerInterval",
        "exponential-delay": "restart.exponentialDelay.attemptsBeforeResetBackoff",
    }.get(_strategy(revision))
    asked = int(revision.get(allowed, 0)) if allowed else 0
    growing = len(_delays_s(revision)) - 1 if _strategy(revision) == "exponential-delay" else 0
    return min(max(asked, growing, 100), MOST_FAILURES)


def remembered(
    revision: Revision, failures: Sequence[datetime], now: datetime, spread: str = "", *, number: int = 1
) -> list[datetime]:
    """The failures to write down with those of ``now``, oldest first. Of exponential-delay only those in a row: the
    delay before each of them follows from its place. ``number``: how many have come since the last look."""
    earlier = [*failures, *[now] * (min(number, MOST_FAILURES) - 1)]
    found = [*earlier, now]
    if _strategy(revision) == "exponential-delay":
        found = found[-1 - _in_a_row(revision, _Backoff.of(revision, spread), earlier, now) :]
    return found[-kept(revision) :]


def _strategy(revision: Revision) -> str:
    return str(revision.effective("restart.strategy"))


def _none(
    _revision: Revision, _failures: Sequence[datetime], _now: datetime, _spread: str
) -> Restart | NoRestart:
    return NoRestart("with restart.strategy none, the first failure ends the job")


def _fixed_delay(
    revision: Revision, failures: Sequence[datetime], _now: datetime, _spread: str
) -> Restart | NoRestart:
    allowed = int(revision.effective("restart.fixedDelay.attempts"))
    if len(failures) >= allowed:
        return NoRestart(f"all {allowed} restarts of restart.fixedDelay.attempts are used up")
    return Restart(revision.seconds("restart.fixedDelay.delay"))


def _failure_rate(
    revision: Revision, failures: Sequence[datetime], now: datetime, _spread: str
) -> Restart | NoRestart:
    allowed = int(revision.effective("restart.failureRate.maxFailuresPerInterval"))
    interval_s = revision.seconds("restart.failureRate.failureRateInterval")
    recent = 1 + sum(1 for failed in failures if (now - failed).total_seconds() <= interval_s)
    if recent >= allowed:
        return NoRestart(
            f"{recent} failures within {interval_s:g} s reach restart.failureRate.maxFailuresPerInterval ({allowed})"
        )
    return Restart(revision.seconds("restart.failureRate.delay"))


def _exponential_delay(
    revision: Revision, failures: Sequence[datetime], now: datetime, spread: str
) -> Restart | NoRestart:
    backoff = _Backoff.of(revision, spread)
    earlier = _in_a_row(revision, backoff, failures, now)
    allowed = revision.get(f"{_GROWING}.attemptsBeforeResetBackoff")
    if allowed is not None and earlier >= int(allowed):
        return NoRestart(f"all {allowed} restarts of {_GROWING}.attemptsBeforeResetBackoff are used up")
    return Restart(backoff.after(earlier))


def _in_a_row(revision: Revision, backoff: _Backoff, failures: Sequence[datetime], now: datetime) -> int:
    """How many of the newest failures followed one another without a quiet time between a restart and the next failure.
    The status holds no restarts: each one came after the delay of its failure, as Flink has it. If as many failures are
    known as are kept, earlier ones of the row may be forgotten, and the delays have reached the longest."""
    reset_s = revision.seconds(f"{_GROWING}.resetBackoffThreshold")
    row, before, delay_s = len(failures) if len(failures) >= kept(revision) else 0, now, math.inf
    for failed in [*failures, now]:
        if (failed - before).total_seconds() - delay_s >= reset_s:
            row = 0
        before, delay_s = failed, backoff.after(row)
        row += 1
    return min(row - 1, len(failures))


def _delays_s(revision: Revision) -> list[float]:
    """The delays after the first, second, third failure in a row, up to the longest."""
    longest_s = revision.seconds(f"{_GROWING}.maxBackoff")
    factor = float(revision.effective(f"{_GROWING}.backoffMultiplier"))
    found = [min(revision.seconds(f"{_GROWING}.initialBackoff"), longest_s)]
    while factor > 1.0 and found[-1] < longest_s and len(found) <= MOST_FAILURES:
        found.append(min(found[-1] * factor, longest_s))
    return found


@dataclass(frozen=True)
class _Backoff:
    """The delays of one job. A row of failures asks for many, so that the settings are read once."""

    delays_s: Sequence[float]
    """As of :func:`_delays_s`."""
    longest_s: float
    jitter: float
    spread: str

    @classmethod
    def of(cls, revision: Revision, spread: str) -> _Backoff:
        longest_s = revision.seconds(f"{_GROWING}.maxBackoff")
        jitter = float(revision.effective(f"{_GROWING}.jitterFactor"))
        return cls(_delays_s(revision), longest_s, jitter, spread)

    def after(self, earlier: int) -> float:
        """The delay after so many earlier failures in a row. The longest one is the same each time, so that it is known
        after those before it are forgotten."""
        step = min(earlier, len(self.delays_s) - 1)
        delay_s = self.delays_s[step]
        if not self.spread:
            return delay_s
        place = int(naming.digest(f"{self.spread}/{step}", 8), 16) / 0xFFFF_FFFF  # of 0 to 1
        return min(max(self.delays_s[0], delay_s * (1 + self.jitter * (2 * place - 1))), self.longest_s)


def kubelet_is_too_slow(
    revision: Revision, restarts: int, failures: Sequence[datetime], now: datetime
) -> bool:
    """Whether the kubelet's next delay is longer than the strategy's own: then a new attempt comes sooner.

    Also true when all that the strategy allows is used up. ``failures`` has the restarts in this pod too.
    """
    verdict = answer(revision, failures, now)
    if isinstance(verdict, NoRestart):
        return True
    # The exponent is bounded: a container that crashes for days would overflow it.
    kubelet_s = min(KUBELET_FIRST_S * 2.0 ** min(max(restarts - 1, 0), 10), KUBELET_LONGEST_S)
    return bool(kubelet_s > max(verdict.delay_s, KUBELET_FIRST_S))
