"""A job that fails is restarted after the same pauses, and given up after as many failures, by the operator as by the
engine, for every strategy."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkstate import restart
from sparkstate.settings import RestartSettings
from sparkstate_operator import clock, plan
from sparkstate_operator.core import settings as operator_settings
from sparkstate_operator.decide import restarts

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GIVEN_UP = -1.0


def revision(strategy: str, **section: Any) -> plan.Revision:
    names = {
        "fixed-delay": "fixedDelay",
        "exponential-delay": "exponentialDelay",
        "failure-rate": "failureRate",
    }
    spec = {"image": "i", "pythonFile": "/j.py", "checkpointing": {"storage": "s3://b/p"}}
    told = {"strategy": strategy, **({names[strategy]: section} if section else {})}
    return plan.of_spec("orders", operator_settings.resolve({**spec, "restart": told}))


def by_operator(wanted: plan.Revision, ran_s: list[int]) -> Iterator[float]:
    """The delays, where each attempt fails after it has run for so long. The status is what is remembered."""
    now, status = NOW, list[str]()
    for seconds in ran_s:
        now += timedelta(seconds=seconds)
        earlier = [moment for text in status if (moment := clock.parse(text)) is not None]
        verdict = restarts.answer(wanted, earlier, now)
        if isinstance(verdict, restarts.NoRestart):
            yield GIVEN_UP
            return
        yield verdict.delay_s
        status = [clock.text(failed) for failed in restarts.remembered(wanted, earlier, now)]
        now += timedelta(seconds=verdict.delay_s)


def by_engine(wanted: RestartSettings, ran_s: list[int]) -> Iterator[float]:
    counters = restart.FailureCounters(restart.RestartStrategy(wanted, random.Random(1)))
    now_s = 1000.0
    for seconds in ran_s:
        now_s += seconds
        verdict = counters.failed("driver", now_s)
        if isinstance(verdict, restart.NoRestart):
            yield GIVEN_UP
            return
        yield verdict.delay_s
        now_s += verdict.delay_s


def growing(
    initial_s: int, longest_s: int, factor: float, reset_s: int, most: int | None
) -> tuple[plan.Revision, RestartSettings]:
    """Without jitter, which is the engine's own at random."""
    wanted = revision(
        "exponential-delay",
        initialBackoff=f"{initial_s}s",
        maxBackoff=f"{longest_s}s",
        backoffMultiplier=factor,
        resetBackoffThreshold=f"{reset_s}s",
        jitterFactor=0.0,
        **({} if most is None else {"attemptsBeforeResetBackoff": most}),
    )
    of_engine = RestartSettings(
        strategy="exponential-delay",
        initial_backoff_s=initial_s,
        max_backoff_s=longest_s,
        backoff_multiplier=factor,
        reset_after_s=reset_s,
        jitter=0.0,
        max_attempts=most,
    )
    return wanted, of_engine


@pytest.mark.parametrize(
    ("setting", "failures"),
    [
        pytest.param((60, 7200, 2.0, 3600, None), 300, id="a delay longer than the quiet time"),
        pytest.param((10, 600, 2.0, 300, 12), 30, id="a limit beyond such a delay"),
        pytest.param((1, 3600, 1.05, 86_400, None), 400, id="a delay that grows slowly"),
        pytest.param((1, 60, 1.0, 3600, None), 150, id="a delay that does not grow"),
    ],
)
def test_a_job_that_never_comes_up_waits_as_long_for_both(
    setting: tuple[int, int, float, int, int | None], failures: int
) -> None:
    wanted, of_engine = growing(*setting)
    ran_s = [5] * failures
    # The status holds whole seconds, the engine all of them.
    assert list(by_operator(wanted, ran_s)) == pytest.approx(list(by_engine(of_engine, ran_s)))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([2.0, 3.0]),
    st.sampled_from([50, 300, 4000]),
    st.sampled_from([None, 1, 4]),
    st.lists(st.sampled_from([1, 30, 299, 300, 301, 5000]), min_size=1, max_size=130),
)
def test_quiet_times_begin_the_delay_anew_for_both(
    factor: float, longest_s: int, most: int | None, ran_s: list[int]
) -> None:
    wanted, of_engine = growing(1, longest_s, factor, 300, most)
    assert list(by_operator(wanted, ran_s)) == list(by_engine(of_engine, ran_s))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 5), st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_a_number_of_failures_ends_a_job_for_both(most: int, ran_s: list[int]) -> None:
    engine = RestartSettings(strategy="fixed-delay", attempts=most, delay_s=3.0)
    assert list(by_operator(revision("fixed-delay", attempts=most, delay="3s"), ran_s)) == list(
        by_engine(engine, ran_s)
    )
    engine = dataclasses.replace(
        engine, strategy="failure-rate", max_failures_per_interval=most + 1, failure_rate_interval_s=120.0
    )
    rate = {"maxFailuresPerInterval": most + 1, "failureRateInterval": "2m", "delay": "3s"}
    assert list(by_operator(revision("failure-rate", **rate), ran_s)) == list(by_engine(engine, ran_s))
    engine = RestartSettings(strategy="none")
    assert list(by_operator(revision("none"), ran_s)) == list(by_engine(engine, ran_s)) == [GIVEN_UP]
