"""Whether and when a failed part starts again: Flink's restart strategies as pure decisions.

``decide`` looks at the earlier failures and at the clock and answers; it changes nothing. The driver asks it
when a slot or an epoch fails, the runner when the driver dies; each class of failure has a counter of its own
(:class:`FailureCounters`), so that a storm in one does not use up the other's attempts.

Semantics and defaults are Flink's (``RestartStrategyOptions``, the ``…RestartBackoffTimeStrategy`` classes):

* ``none``: the first failure is the last.
* ``fixed-delay``: ``attempts`` restarts in all, ``delay_s`` before each.
* ``exponential-delay``: the delay grows by ``backoff_multiplier`` up to ``max_backoff_s``, with ``jitter`` to
  both sides but never outside the two bounds. After ``reset_after_s`` without a failure since the last restart it
  begins again at its least. A failure that arrives during the wait for a restart belongs to the same failure.
  ``max_attempts`` restarts between two resets; None = without limit.
* ``failure-rate``: the failure that makes ``max_failures_per_interval`` in ``failure_rate_interval_s`` ends
  the job (with Flink's default of 1 that is the first one); before that, ``delay_s`` before each restart.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from sparkstate import settings

KEPT_FAILURES = 10_000
"""Failures remembered per class at least. A strategy that grants more restarts than that is asked about as many."""


@dataclass(frozen=True)
class Failure:
    """One failure: when it happened and when the restart that answered it was due (monotonic seconds)."""

    at_s: float
    resume_s: float


@dataclass(frozen=True)
class Restart:
    """Start again after ``delay_s`` seconds; ``counts`` is False if the failure belongs to the one before."""

    delay_s: float
    counts: bool = True


@dataclass(frozen=True)
class NoRestart:
    """Do not start again; ``reason`` is a sentence that names the strategy and the setting to change."""

    reason: str


Decision = Restart | NoRestart


class RestartStrategy:
    """The strategy that ``RestartSettings.strategy`` names. ``rng`` gives the jitter."""

    def __init__(self, restart: settings.RestartSettings, rng: random.Random) -> None:
        self._settings = restart
        self._rng = rng

    def decide(self, history: Sequence[Failure], now_s: float) -> Decision:
        """Answer a failure at ``now_s``; ``history`` holds the earlier ones that counted, oldest first."""
        match self._settings.strategy:
            case "none":
                return NoRestart("restart strategy `none`: a failure ends the job")
            case "fixed-delay":
                return self._fixed_delay(history)
            case "exponential-delay":
                return self._exponential_delay(history, now_s)
            case "failure-rate":
                return self._failure_rate(history, now_s)

    @property
    def kept_failures(self) -> int:
        """How many failures have to be remembered: with fewer than it allows, its last restart would never come."""
        chosen = self._settings
        allowed = {
            "none": 0,
            "fixed-delay": chosen.attempts,
            "exponential-delay": chosen.max_attempts or 0,
            "failure-rate": chosen.max_failures_per_interval,
        }
        return max(KEPT_FAILURES, allowed[chosen.strategy])

    def _fixed_delay(self, history: Sequence[Failure]) -> Decision:
        allowed = self._settings.attempts
        if len(history) >= allowed:
            return NoRestart(
                f"restart strategy `fixed-delay`: all {allowed} restarts (`attempts`) are used up"
            )
        return Restart(self._settings.delay_s)

    def _failure_rate(self, history: Sequence[Failure], now_s: float) -> Decision:
        allowed, interval = self._settings.max_failures_per_interval, self._settings.failure_rate_interval_s
        recent = 1 + sum(1 for failure in history if now_s - failure.at_s <= interval)
        if recent >= allowed:
            return NoRestart(
                f"restart strategy `failure-rate`: {recent} failure(s) within {interval:g} s "
                f"reach `maxFailuresPerInterval` ({allowed})"
            )
        return Restart(self._settings.delay_s)

    def _exponential_delay(self, history: Sequence[Failure], now_s: float) -> Decision:
        if history and now_s <= history[-1].resume_s:
            return Restart(history[-1].resume_s - now_s, counts=False)
        streak = self._failures_since_reset(history, now_s)
        allowed = self._settings.max_attempts
        if allowed is not None and streak >= allowed:
            return NoRestart(
                f"restart strategy `exponential-delay`: all {allowed} restarts (`maxAttempts`) are used up"
            )
        return Restart(self._backoff(streak))

    def _failures_since_reset(self, history: Sequence[Failure], now_s: float) -> int:
        """How many failures at the end of ``history`` followed one another without a quiet period between."""
        streak, later_s = 0, now_s
        for failure in reversed(history):
            if later_s - failure.resume_s >= self._settings.reset_after_s:
                break
            streak, later_s = streak + 1, failure.at_s
        return streak

    def _backoff(self, earlier: int) -> float:
        initial, longest = self._settings.initial_backoff_s, self._settings.max_backoff_s
        backoff = initial
        for _ in range(earlier):  # not a power: it would overflow for a job that fails for days
            backoff = min(backoff * self._settings.backoff_multiplier, longest)
            if backoff >= longest:
                break
        spread = backoff * self._settings.jitter
        jittered = backoff + self._rng.uniform(-spread, spread)
        return max(initial, min(jittered, longest))


class FailureCounters:
    """The failures seen so far, by class. Not safe for several threads.

    A class is any stable word (``slot``, ``epoch``, ``driver``); each is judged by its own history.
    """

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy
        self._histories: dict[str, list[Failure]] = {}

    def failed(self, kind: str, now_s: float) -> Decision:
        """Record a failure of class ``kind`` at ``now_s`` and answer whether and when to start again."""
        history = self._histories.setdefault(kind, [])
        decision = self._strategy.decide(history, now_s)
        if isinstance(decision, Restart) and decision.counts:
            history.append(Failure(now_s, now_s + decision.delay_s))
            del history[: -self._strategy.kept_failures]
        return decision

    def count(self, kind: str) -> int:
        """Failures of class ``kind`` that were answered with a restart."""
        return len(self._histories.get(kind, ()))
