"""The part of the spec about restarts: one strategy, and the settings of each."""

from __future__ import annotations

from typing import Literal

from sparkstate_operator.model.base import ChangeKind, Model, spec_field
from sparkstate_operator.model.values import Duration

UPGRADE = ChangeKind.UPGRADE


class FixedDelay(Model):
    """A bounded number of restarts, each after the same delay."""

    attempts: int | None = spec_field(
        "Restarts before the job fails. Built-in: {built_in}.",
        UPGRADE,
        path="restart.fixedDelay.attempts",
        ge=0,
        le=10**9,
    )
    delay: Duration | None = spec_field(
        "Time before a restart. Built-in: {built_in}.", UPGRADE, path="restart.fixedDelay.delay"
    )


class ExponentialDelay(Model):
    """Restarts after growing delays."""

    initial_backoff: Duration | None = spec_field(
        "First delay. Built-in: {built_in}.", UPGRADE, path="restart.exponentialDelay.initialBackoff"
    )
    max_backoff: Duration | None = spec_field(
        "Longest delay. Built-in: {built_in}.", UPGRADE, path="restart.exponentialDelay.maxBackoff"
    )
    backoff_multiplier: float | None = spec_field(
        "Factor by which the delay grows. Built-in: {built_in}.",
        UPGRADE,
        path="restart.exponentialDelay.backoffMultiplier",
        ge=1.0,
        le=100.0,
    )
    reset_backoff_threshold: Duration | None = spec_field(
        "Time without a failure after which the delay begins at the first one again. Built-in: {built_in}.",
        UPGRADE,
        path="restart.exponentialDelay.resetBackoffThreshold",
    )
    jitter_factor: float | None = spec_field(
        "Largest share of the delay that is added or taken away at random. Built-in: {built_in}.",
        UPGRADE,
        path="restart.exponentialDelay.jitterFactor",
        ge=0.0,
        le=1.0,
    )
    attempts_before_reset_backoff: int | None = spec_field(
        "Restarts in a row before the job fails. Built-in: without limit.",
        UPGRADE,
        path="restart.exponentialDelay.attemptsBeforeResetBackoff",
        ge=1,
        le=10**9,
    )


class FailureRate(Model):
    """Restarts until there are too many failures within an interval."""

    max_failures_per_interval: int | None = spec_field(
        "The job ends with the failure that reaches this number within the interval, as in Flink. "
        "Built-in: {built_in} (the first failure ends the job).",
        UPGRADE,
        path="restart.failureRate.maxFailuresPerInterval",
        ge=1,
        le=10**9,
    )
    failure_rate_interval: Duration | None = spec_field(
        "The interval in which failures are counted. Built-in: {built_in}.",
        UPGRADE,
        path="restart.failureRate.failureRateInterval",
    )
    delay: Duration | None = spec_field(
        "Time before a restart. Built-in: {built_in}.", UPGRADE, path="restart.failureRate.delay"
    )


class Restart(Model):
    """The restart strategy, with Flink's names and defaults."""

    strategy: Literal["none", "fixed-delay", "exponential-delay", "failure-rate"] | None = spec_field(
        "Which strategy decides. Built-in: {built_in}.", UPGRADE, path="restart.strategy"
    )
    fixed_delay: FixedDelay | None = spec_field("For strategy fixed-delay.", UPGRADE)
    exponential_delay: ExponentialDelay | None = spec_field("For strategy exponential-delay.", UPGRADE)
    failure_rate: FailureRate | None = spec_field("For strategy failure-rate.", UPGRADE)
