"""Restart strategies: Flink's answers to the same series of failures."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import restart, settings


def counters(**fields) -> restart.FailureCounters:
    return restart.FailureCounters(
        restart.RestartStrategy(settings.RestartSettings(**fields), random.Random(7))
    )


def delays(log: restart.FailureCounters, *times: float) -> list[float | None]:
    """The delay for a failure at each time, None where the strategy gives up."""
    answers = [log.failed("driver", at) for at in times]
    return [answer.delay_s if isinstance(answer, restart.Restart) else None for answer in answers]


def test_none_gives_up_at_the_first_failure() -> None:
    assert delays(counters(strategy="none"), 0.0) == [None]


def test_fixed_delay_restarts_as_often_as_attempts_says() -> None:
    log = counters(strategy="fixed-delay", attempts=3, delay_s=2.0)
    assert delays(log, 0, 100, 10_000, 20_000) == [2.0, 2.0, 2.0, None]


def test_failure_rate_gives_up_at_the_failure_that_fills_the_interval() -> None:
    log = counters(
        strategy="failure-rate", max_failures_per_interval=3, failure_rate_interval_s=60, delay_s=1.0
    )
    assert delays(log, 0, 30, 70, 80) == [1.0, 1.0, 1.0, None]


def test_failure_rate_with_flinks_defaults_allows_no_failure() -> None:
    assert delays(counters(strategy="failure-rate"), 5.0) == [None]


def test_exponential_delay_grows_to_its_maximum() -> None:
    log = counters(strategy="exponential-delay", jitter=0.0, max_backoff_s=3.0)
    assert delays(log, 0, 10, 20, 30, 40) == [1.0, 1.5, 2.25, 3.0, 3.0]


def test_exponential_delay_begins_anew_after_a_quiet_period() -> None:
    log = counters(strategy="exponential-delay", jitter=0.0, reset_after_s=100.0)
    assert delays(log, 0, 10, 20, 20 + 2.25 + 100) == [1.0, 1.5, 2.25, 1.0]


def test_exponential_delay_counts_quiet_time_from_the_restart_and_not_from_the_failure() -> None:
    log = counters(strategy="exponential-delay", jitter=0.0, reset_after_s=100.0, initial_backoff_s=50.0)
    assert delays(log, 0, 149) == [50.0, 60.0]
    log = counters(strategy="exponential-delay", jitter=0.0, reset_after_s=100.0, initial_backoff_s=50.0)
    assert delays(log, 0, 150) == [50.0, 50.0]


def test_a_failure_while_the_restart_is_waited_for_belongs_to_the_same_failure() -> None:
    log = counters(strategy="exponential-delay", jitter=0.0, initial_backoff_s=10.0)
    assert delays(log, 0, 4, 9, 11) == [10.0, 6.0, 1.0, 15.0]
    assert log.count("driver") == 2


def test_exponential_delay_gives_up_after_max_attempts_and_forgets_them_after_a_quiet_period() -> None:
    fields = {"strategy": "exponential-delay", "jitter": 0.0, "reset_after_s": 100.0, "max_attempts": 2}
    assert delays(counters(**fields), 0, 10, 20) == [1.0, 1.5, None]
    assert delays(counters(**fields), 0, 10, 200, 210, 220) == [1.0, 1.5, 1.0, 1.5, None]


def test_each_class_of_failure_has_its_own_counter() -> None:
    log = counters(strategy="fixed-delay", attempts=1)
    assert isinstance(log.failed("slot", 0), restart.Restart)
    assert isinstance(log.failed("driver", 0), restart.Restart)
    assert isinstance(log.failed("slot", 1), restart.NoRestart)


@pytest.mark.parametrize("strategy", ["none", "fixed-delay", "failure-rate"])
def test_the_reason_names_the_strategy(strategy: str) -> None:
    log = counters(strategy=strategy, attempts=0)
    answer = log.failed("driver", 0)
    assert isinstance(answer, restart.NoRestart)
    assert f"`{strategy}`" in answer.reason


@given(
    times=st.lists(st.floats(min_value=0.001, max_value=5_000), min_size=1, max_size=60),
    seed=st.integers(),
    jitter=st.floats(min_value=0, max_value=1),
)
def test_the_delay_stays_within_its_bounds_whatever_the_jitter(
    times: list[float], seed: int, jitter: float
) -> None:
    chosen = settings.RestartSettings(strategy="exponential-delay", jitter=jitter)
    log = restart.FailureCounters(restart.RestartStrategy(chosen, random.Random(seed)))
    now = 0.0
    for gap in times:
        answer = log.failed("driver", now)
        assert isinstance(answer, restart.Restart)
        assert chosen.initial_backoff_s <= answer.delay_s <= chosen.max_backoff_s
        now += answer.delay_s + gap


@pytest.mark.parametrize(
    "chosen",
    [
        {"strategy": "fixed-delay", "attempts": 7, "delay_s": 0.0},
        {
            "strategy": "exponential-delay",
            "max_attempts": 7,
            "initial_backoff_s": 1.0,
            "max_backoff_s": 1.0,
            "jitter": 0.0,
            "reset_after_s": 1000.0,
        },
        {"strategy": "failure-rate", "max_failures_per_interval": 8, "failure_rate_interval_s": 1000.0},
    ],
    ids=lambda chosen: chosen["strategy"],
)
def test_a_strategy_of_more_restarts_than_are_remembered_ends(
    chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "KEPT_FAILURES", 3)
    log = counters(**chosen)
    granted = [isinstance(log.failed("job", 10.0 * number), restart.Restart) for number in range(12)]
    assert granted == [True] * 7 + [False] * 5


def test_a_strategy_without_a_limit_remembers_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "KEPT_FAILURES", 3)
    log = counters(strategy="exponential-delay", max_attempts=None)
    for number in range(12):
        log.failed("job", 1e6 * number)
    assert log.count("job") == 3
