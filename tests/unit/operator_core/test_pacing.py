"""How often drivers are asked and progress is written, and which events are only echoes."""

from __future__ import annotations

import pytest

from sparkstate_operator import pacing
from sparkstate_operator.config import Config
from sparkstate_operator.echoes import Echo


@pytest.mark.parametrize("jobs", [1, 60, 1000, 5000, 20000])
def test_all_jobs_together_are_asked_and_written_at_a_rate_that_has_a_bound(jobs: int) -> None:
    config = Config()
    assert jobs / pacing.listen_s(config, jobs) <= config.polls_per_s
    assert jobs / pacing.progress_s(config, jobs) <= config.progress_writes_per_s
    assert pacing.listen_s(config, jobs) <= max(10.0, jobs / 100)


def test_a_thousand_jobs_are_asked_as_often_as_one() -> None:
    assert pacing.listen_s(Config(), 1000) == pacing.listen_s(Config(), 1) == 10.0
    assert pacing.progress_s(Config(), 1200) == pacing.progress_s(Config(), 1) == 60.0


def test_what_we_wrote_is_no_news_and_what_anybody_else_wrote_is() -> None:
    echo = Echo()
    assert echo.is_news("1")
    echo.begin()
    assert not echo.end("2")
    assert not echo.is_news("2")
    assert echo.is_news("3")


def test_an_event_that_overtakes_the_answer_to_the_write_is_an_echo_all_the_same() -> None:
    echo = Echo()
    echo.begin()
    assert not echo.is_news("2")
    assert not echo.end("2")
    assert not echo.is_news("2")


def test_an_event_of_somebody_else_during_a_write_is_told_by_its_end() -> None:
    echo = Echo()
    echo.begin()
    assert not echo.is_news("2")
    assert not echo.is_news("3")
    assert echo.end("2")
    assert echo.is_news("3")


def test_after_a_write_that_failed_nothing_that_was_heard_is_an_echo() -> None:
    echo = Echo()
    echo.begin()
    assert not echo.is_news("2")
    assert echo.end("")
    assert echo.is_news("2")
