"""The restart strategy for new attempts: Flink's names and meanings, counted in the status.

Pure: the history is what the status holds. A failure that the job did not cause (a drained node, a deleted pod)
leads to a new attempt and does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sparkstate_operator.core import naming
from sparkstate_operator.model.status import MOST_FAILURES
from sparkstate_operator.plan import Revision

KUBELET_FIRST_S, KUBELET_LONGEST_S = 10.0, 300.0
"""The kubelet's delays before it starts a container again: they double."""


@dataclass(frozen=True)
class Restart:
    """Start a new attempt after ``delay_s``."""

    delay_s: float


@dataclass(frozen=True)
class NoRestart:
    """The strategy allows no other attempt."""

    why: str


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
    """How many failure times the strategy looks back on: 100, or as many as it allows if that is more. A strategy that
    allows more than the status keeps never gives up."""
    allowed = {
        "fixed-delay": "restart.fixedDelay.attempts",
        "failure-rate": "restart.failureRate.maxFailuresPerInterval",
        "exponential-delay": "restart.exponentialDelay.attemptsBeforeResetBackoff",
    }.get(_strategy(revision))
    asked = int(revision.get(allowed, 0)) if allowed else 0
    return min(max(asked, 100), MOST_FAILURES)


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
    section = "restart.exponentialDelay"
    reset_s = revision.seconds(f"{section}.resetBackoffThreshold")
    streak, later = 0, now
    for failed in reversed(failures):
        if (later - failed).total_seconds() >= reset_s:
            break
        streak, later = streak + 1, failed
    allowed = revision.get(f"{section}.attemptsBeforeResetBackoff")
    if allowed is not None and streak >= int(allowed):
        return NoRestart(f"all {allowed} restarts of {section}.attemptsBeforeResetBackoff are used up")
    longest_s = revision.seconds(f"{section}.maxBackoff")
    delay_s = shortest_s = revision.seconds(f"{section}.initialBackoff")
    factor = float(revision.effective(f"{section}.backoffMultiplier"))
    for _ in range(streak):
        delay_s = min(delay_s * factor, longest_s)
    if spread:
        jitter = float(revision.effective(f"{section}.jitterFactor"))
        place = int(naming.digest(f"{spread}/{len(failures)}", 8), 16) / 0xFFFF_FFFF  # of 0 to 1
        delay_s = max(shortest_s, delay_s * (1 + jitter * (2 * place - 1)))
    return Restart(min(delay_s, longest_s))


def kubelet_is_too_slow(
    revision: Revision, restarts: int, failures: Sequence[datetime], now: datetime
) -> bool:
    """Whether the kubelet's next delay is longer than the strategy's own: then a new attempt comes sooner.

    Also true when the restarts in this pod alone use up what the strategy allows.
    """
    verdict = answer(revision, [*failures, *[now] * restarts], now)
    if isinstance(verdict, NoRestart):
        return True
    # The exponent is bounded: a container that crashes for days would overflow it.
    kubelet_s = min(KUBELET_FIRST_S * 2.0 ** min(max(restarts - 1, 0), 10), KUBELET_LONGEST_S)
    return bool(kubelet_s > max(verdict.delay_s, KUBELET_FIRST_S))
