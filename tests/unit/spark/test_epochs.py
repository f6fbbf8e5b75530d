"""The epoch that each epoch's rows follow, and epochs for a sweep alone: a real slot, and epochs without Spark."""

from __future__ import annotations

import re
import threading
import time as time_module
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.slots import slots
from support.slots.running import Running

from sparkstate import clock, errors, phases
from sparkstate.serde.types import Types
from sparkstate.spark import epochs, graph
from sparkstate.spark.epochs import EpochResult, EpochRunner
from sparkstate.spark.watermarks import Watermarks
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing.manual_clock import ManualClock


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.close()


def test_rows_follow_the_last_epoch_that_is_committed_before_them(running: Running) -> None:
    nothing: Any = SimpleNamespace(operators={}, sinks=(), sources=())
    without: Any = None
    time = clock.SystemClock()
    recorder = phases.Phases("driver", time, {})
    space, group = slots.KEY_SPACE, running.group
    runner = EpochRunner(without, nothing, space, group, Watermarks(()), time, recorder, lambda: None, 60.0)
    some_rows: Any = SimpleNamespace()
    first = runner.begin(some_rows, 5)
    assert first.follows == -1, "no epoch of an earlier incarnation is waited for"
    runner.complete(first)
    idle = runner.begin(None, 6)
    assert idle.nothing
    runner.complete(idle)
    assert runner.begin(some_rows, 7).follows == 5, "nobody commits an epoch in which nothing happens"
    assert runner.begin(some_rows, 8).follows == 7
    runner.close()


def runner_with(sink: Callable[..., Any], running: Running, timeout_s: float = 60.0) -> EpochRunner:
    """One sink, which is given no rows."""
    node = graph.SinkNode(uid="sum", operator="sum", tag=None, sink=sink)
    declared: Any = SimpleNamespace(operators={}, sinks=(node,), sources=())
    without: Any = None
    time = clock.SystemClock()
    recorder = phases.Phases("driver", time, {})
    return EpochRunner(
        without,
        declared,
        slots.KEY_SPACE,
        running.group,
        Watermarks(()),
        time,
        recorder,
        lambda: None,
        timeout_s,
    )


def test_a_driver_that_waits_for_a_sink_is_not_stuck(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "_LOOK_S", 0.05)
    noted: list[bool] = []
    goes_on = threading.Event()
    runner = runner_with(lambda *_: goes_on.wait(60), running)
    monkeypatch.setattr(runner, "_frames", SimpleNamespace(take=lambda *_: None))
    monkeypatch.setattr(
        runner, "_note_progress", lambda: (noted.append(True), len(noted) > 2 and goes_on.set())
    )
    runner._call_sinks(0, {("sum", None): 1})
    assert len(noted) >= 3
    monkeypatch.undo()
    runner.close()


def raises(error: BaseException) -> Callable[..., None]:
    def sink(*_: Any) -> None:
        raise error

    return sink


TOO_SLOW = "the sink of 'sum' took longer than sinkTimeout (0.3 s) in epoch 0; make it faster or raise spec.sinkTimeout"


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        (raises(SystemExit(0)), "the sink of 'sum' raised in epoch 0: SystemExit: 0"),
        (
            raises(TimeoutError("db:5432 did not answer")),
            "the sink of 'sum' raised in epoch 0: TimeoutError: db:5432 did not answer",
        ),
        (raises(ValueError("\ud800")), r"the sink of 'sum' raised in epoch 0: ValueError: \ud800"),
        (lambda *_: time_module.sleep(1.0), TOO_SLOW),
    ],
    ids=["wants to end the process", "waits in vain", "says what no document can have", "is slow"],
)
def test_the_error_of_a_sink_is_an_error_of_the_job(
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sink: Callable[..., Any],
    told: str,
) -> None:
    runner = runner_with(sink, running, 0.3)
    monkeypatch.setattr(runner, "_frames", SimpleNamespace(take=lambda *_: None))
    with pytest.raises(errors.UserCodeError) as caught:
        runner._call_sinks(0, {("sum", None): 1})
    line = r" \(.*test_epochs.py:\d+ in sink\)" if "raised" in told else ""
    assert re.fullmatch(re.escape(told) + line, str(caught.value))
    logged = capsys.readouterr().err
    assert ("in sink\n    raise error\n" in logged) == ("raised" in told)
    monkeypatch.undo()
    runner.close()


class LivingSum(slots.Sum):
    """The running sum of a key, which expires after two seconds."""

    def open(self, ctx: Any) -> None:
        total = ValueStateDescriptor("total", Types.LONG())
        total.enable_time_to_live(StateTtlConfig.new_builder(2000).build())
        self.total = ctx.get_state(total)


def test_an_epoch_without_rows_sweeps_state_that_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "Sum", LivingSum)
    running = Running(tmp_path)
    nothing: Any = SimpleNamespace(operators={}, sinks=(), sources=())
    without: Any = None
    time = ManualClock()
    recorder = phases.Phases("driver", time, {})
    runner = EpochRunner(
        without, nothing, slots.KEY_SPACE, running.group, Watermarks(()), time, recorder, lambda: None, 60.0
    )

    def epoch(number: int, attempt: int) -> EpochResult:
        """The operator is not in the graph, which would need Spark, so its slot is finished by hand."""
        fed = runner.begin(without, number)
        if not fed.nothing:
            running.slot.finish(number, attempt, processing_time=fed.now)
        return runner.complete(fed)

    try:
        running.slot.feed(0, 1, slots.rows(("a", 1), ("b", 2)))
        assert epoch(0, 1).swept == 0
        time.set(999)
        assert runner.begin(without, 1).nothing
        time.set(1000)
        assert epoch(1, -1).swept == 0, "nothing has expired"
        time.set(2100)
        assert epoch(2, -1).swept == 2
        assert runner.begin(without, 3).nothing
        time.set(40_000)
        assert epoch(3, -1).swept == 0
        time.set(3_600_000)
        assert runner.begin(without, 4).nothing, "all has expired long ago"
    finally:
        runner.close()
        running.close()
