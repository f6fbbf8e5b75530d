"""The thread in which an epoch ends while the next one begins."""

from __future__ import annotations

import threading

import pytest

from sparkstate.driver.epoch_pipeline import EpochPipeline


def test_work_runs_beside_its_starter_and_settling_waits_for_it() -> None:
    pipeline, gate, done = EpochPipeline(), threading.Event(), list[int]()

    def work() -> None:
        gate.wait(10)
        done.append(1)

    pipeline.start(work)
    assert done == []
    gate.set()
    pipeline.settle()
    assert done == [1]
    pipeline.start(lambda: done.append(2))
    pipeline.settle()
    assert done == [1, 2]
    pipeline.close(1)


def test_a_failure_is_seen_without_waiting_and_raised_each_time_it_is_asked_for() -> None:
    pipeline = EpochPipeline()

    def work() -> None:
        raise ValueError("no")

    pipeline.start(work)
    with pytest.raises(ValueError, match="no"):
        pipeline.settle()
    assert isinstance(pipeline.failure, ValueError)
    with pytest.raises(ValueError, match="no"):
        pipeline.settle()
    pipeline.close(1)


def test_nothing_runs_nothing_failed() -> None:
    pipeline = EpochPipeline()
    pipeline.settle()
    assert pipeline.failure is None
    pipeline.close(1)
