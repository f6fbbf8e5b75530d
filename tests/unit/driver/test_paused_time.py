"""A pause of the job, whatever it waits for, makes no partition idle: epochs without Spark on a clock by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.slots import slots

from sparkstate import clock, phases
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.driver import starting
from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.parts import LastHomes, Origin
from sparkstate.driver.unsaved_work import UnsavedWork
from sparkstate.spark.epochs import EpochRunner, FedEpoch
from sparkstate.spark.watermarks import SourceTime, Watermarks
from sparkstate.testing.manual_clock import ManualClock

IDLE_MS = 30_000
PAUSE_S = 60.0
ORIGIN = Origin(RestoredSnapshot(RestorePlan("empty", "nothing was found")), 1, slots.KEY_SPACE)


def sources() -> Watermarks:
    """One partition that goes on, and one that is read behind it."""
    one = SourceTime(0, IDLE_MS, 0, ("partition",))
    return Watermarks((one,)).advance({(0, "a"): 100, (0, "b"): 50}, 0)


def runner_of(time: ManualClock, may_go_on: Callable[[], None] = lambda: None) -> EpochRunner:
    nothing: Any = SimpleNamespace(operators={}, sinks=(), sources=())
    group: Any = SimpleNamespace(incarnation=1)
    no_phases = phases.Phases("driver", time, {})
    return EpochRunner(
        None,
        nothing,
        slots.KEY_SPACE,
        group,
        sources(),
        time,
        no_phases,
        may_go_on,
        60.0,  # type: ignore[arg-type]
    )


def is_held(runner: EpochRunner, time: ManualClock) -> bool:
    """Whether the partition that is behind still holds the watermark when the other goes on."""
    return runner.watermarks.advance({(0, "a"): 900}, clock.monotonic_ms(time)).current == 49


def test_a_storage_that_is_away_makes_no_partition_idle() -> None:
    time = ManualClock()
    runner = runner_of(time, lambda: time.sleep(PAUSE_S))
    runner.begin(None, 0)
    assert is_held(runner, time)
    time.advance(IDLE_MS)
    assert not is_held(runner, time)


def test_an_epoch_that_is_held_back_makes_no_partition_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    time = ManualClock()
    runner = runner_of(time)
    checkpoints: Any = SimpleNamespace(
        stop_requested=lambda: None,
        after_commit=lambda *_, **__: None,
        wants_epoch=lambda: True,
        unsaved=UnsavedWork(time),
    )
    pauses: Any = SimpleNamespace(hold_back=lambda *_: time.sleep(PAUSE_S))
    parts: Any = SimpleNamespace(context=SimpleNamespace(view=None))
    running: Any = None
    loop = EpochLoop(parts, ORIGIN, running, runner, checkpoints, pauses, EpochPipeline())
    completed = lambda fed, idle: SimpleNamespace(watermarks=fed.after)  # noqa: E731
    monkeypatch.setattr(loop, "_complete", completed)
    loop.on_epoch(None, 0)
    runner.begin(None, 1)
    assert is_held(runner, time)


def test_a_restore_makes_no_partition_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = ManualClock()
    none = lambda *_, **__: None  # noqa: E731
    slot_pool = SimpleNamespace(
        group=SimpleNamespace(incarnation=1, addresses=()),
        watch_executors=none,
        restore=lambda _: time.sleep(PAUSE_S) or "",
        stop=none,
    )
    monkeypatch.setattr(starting.SlotPool, "start", lambda *_: slot_pool)
    running = SimpleNamespace(stop=none, forget=none, is_selected=False)
    monkeypatch.setattr(starting.query, "Query", SimpleNamespace(start=lambda *_, **__: running))
    monkeypatch.setattr(starting, "_watermarks", lambda *_: sources())
    monkeypatch.setattr(starting, "_checkpoints", lambda *_: SimpleNamespace(abandon=none))
    runners: list[EpochRunner] = []
    monkeypatch.setattr(starting.FirstEpoch, "manned", lambda _, runner: runners.append(runner))
    nothing = SimpleNamespace(operators={}, sinks=(), sources=())
    context = SimpleNamespace(
        clock=time,
        phases=phases.Phases("driver", time, {}),
        settings=SimpleNamespace(trigger=None, sink_timeout_s=60.0, slots=1),
        requests=SimpleNamespace(ending=lambda: False),
        view=SimpleNamespace(happened=none, note_progress=none),
        work_dir=tmp_path,
        reached=none,
    )
    parts: Any = SimpleNamespace(
        context=context,
        prepared=SimpleNamespace(
            session=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1)), declared=nothing
        ),
        job_storage=SimpleNamespace(seed_position=none),
        heartbeat=True,
    )
    with starting.started(parts, ORIGIN, LastHomes()):
        runner: Any = runners[0]
        runner._may_go_on = none
        runner.begin(None, 0)
        assert is_held(runner, time)


def end(runner: EpochRunner, fed: FedEpoch) -> None:
    """Without slots, there is nothing to commit."""
    runner.complete(dataclasses.replace(fed, nothing=True))


@pytest.mark.parametrize("beside", [False, True], ids=["before the next", "beside the next"])
def test_one_slow_epoch_makes_no_partition_idle(beside: bool) -> None:
    """The rows of a partition that brought none may have waited to be read all that time."""
    time = ManualClock()
    runner = runner_of(time)
    fed = runner.begin(None, 0)
    time.sleep(PAUSE_S)
    if not beside:
        end(runner, fed)
    after = runner.begin(None, 1)
    assert is_held(runner, time)
    end(runner, fed if beside else after)
    time.advance(IDLE_MS // 2 - 1)
    assert is_held(runner, time)
    time.advance(1)
    assert not is_held(runner, time)


def test_a_partition_that_brings_nothing_in_several_slow_epochs_is_idle() -> None:
    time = ManualClock()
    runner = runner_of(time)
    for epoch in range(2):
        fed = runner.begin(None, epoch)
        assert is_held(runner, time)
        time.sleep(PAUSE_S)
        end(runner, fed)
    runner.begin(None, 2)
    assert not is_held(runner, time)


@pytest.mark.parametrize("beside", [False, True], ids=["before the next", "beside the next"])
def test_a_pause_within_an_epoch_counts_once(beside: bool) -> None:
    """The epoch itself took half of the idle timeout, in which the partition brought nothing."""
    time = ManualClock()
    runner = runner_of(time)
    fed = runner.begin(None, 0)
    runner._may_go_on = lambda: time.sleep(PAUSE_S)
    runner._wait()  # before its commit
    runner._may_go_on = lambda: None
    time.advance(IDLE_MS // 2)
    if not beside:
        end(runner, fed)
    runner.begin(None, 1)
    assert is_held(runner, time)
    time.advance(IDLE_MS // 2)
    assert not is_held(runner, time)


def test_two_slow_epochs_are_an_idle_timeout_of_an_odd_number_of_ms() -> None:
    time = ManualClock()
    one = SourceTime(0, 5, 0, ("partition",))
    told = Watermarks((one,)).advance({(0, "a"): 100, (0, "b"): 50}, 0)
    for epoch in (1, 2):
        time.advance(1000)
        told = told.worked(1000, time.now_ms()).advance({(0, "a"): 100 + epoch}, time.now_ms())
    assert told.current == 101


def test_the_time_between_two_epochs_is_idleness_and_so_is_that_of_quick_ones() -> None:
    time = ManualClock()
    runner = runner_of(time)
    for epoch in range(10):
        fed = runner.begin(None, epoch)
        time.advance(IDLE_MS // 20)
        end(runner, fed)
        time.advance(IDLE_MS // 20)
    assert not is_held(runner, time)


class JumpingClock(ManualClock):
    """Its wall clock is set, or runs on while the machine sleeps; its monotonic clock knows nothing of that."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000], ids=["forward", "back"])
@pytest.mark.parametrize("when", ["between two epochs", "within an epoch", "in a pause"])
def test_a_wall_clock_that_jumps_changes_nothing_about_idleness(jump_ms: int, when: str) -> None:
    time = JumpingClock()
    runner = runner_of(time)
    fed = runner.begin(None, 0)
    if when == "in a pause":
        with runner.paused.measured():
            time.ahead_ms = jump_ms
    time.ahead_ms = jump_ms if when == "within an epoch" else time.ahead_ms
    end(runner, fed)
    time.ahead_ms = jump_ms
    time.advance(IDLE_MS - 1)
    fed = runner.begin(None, 1)
    assert fed.now == time.now_ms(), "timers go by the wall clock"
    assert is_held(runner, time)
    end(runner, fed)
    time.advance(1)
    runner.begin(None, 2)
    assert not is_held(runner, time)


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000], ids=["forward", "back"])
def test_a_source_without_a_row_since_the_start_is_idle_by_the_monotonic_clock(jump_ms: int) -> None:
    time = JumpingClock()
    time.ahead_ms = 2 * abs(jump_ms)
    time.advance(IDLE_MS)
    source = SimpleNamespace(delay_ms=0, idle_timeout_ms=IDLE_MS, parts=(), of_input=0, event_time="t")
    prepared = SimpleNamespace(declared=SimpleNamespace(sources=(source,)))
    parts: Any = SimpleNamespace(context=SimpleNamespace(clock=time), prepared=prepared)
    runner = runner_of(time)
    runner.watermarks = starting._watermarks(parts, ORIGIN)
    time.ahead_ms += jump_ms
    end(runner, runner.begin(None, 0))
    time.advance(IDLE_MS - 1)
    end(runner, runner.begin(None, 1))
    assert runner.watermarks.sources[0].watermark(clock.monotonic_ms(time), 7) == 7
    time.advance(1)
    assert runner.watermarks.sources[0].watermark(clock.monotonic_ms(time), 7) is None


def test_a_query_is_forgotten_though_its_end_failed() -> None:
    told: list[str] = []

    def stop() -> None:
        told.append("stop")
        raise RuntimeError("the JVM is gone")

    starting._stop(SimpleNamespace(stop=stop, forget=lambda: told.append("forget")))  # type: ignore[arg-type]
    assert told == ["stop", "forget"]
