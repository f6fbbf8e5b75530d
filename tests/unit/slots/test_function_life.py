"""The life of a user's function in a slot: opened once, one call at a time, closed whatever happened. It ends no
process."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.slots import protocol
from sparkstate.slots.runtime import SlotRuntime


class Recorder(slots.Sum):
    """Notes its calls; says ``overlap`` when it is called while it is busy."""

    calls: ClassVar[list[str]] = []
    busy: ClassVar[threading.Lock] = threading.Lock()

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.calls.append("open")

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        with self.alone("element"):
            ctx.timer_service().register_processing_time_timer(0)
            yield from super().process_element(row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        with self.alone("timer"):
            yield ctx.get_current_key(), 0

    def close(self) -> None:
        self.calls.append("close")

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Notes the call; a lock that is taken already means that another call is under way."""
        free = self.busy.acquire(blocking=False)
        self.calls.append(name if free else "overlap")
        time.sleep(0.001)
        yield
        if free:
            self.busy.release()


def until_called(name: str, times: int) -> None:
    """A feed is answered when its rows have arrived, not when they are processed."""
    deadline = time.monotonic() + 60
    while Recorder.calls.count(name) < times and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[slots.Slot]:
    Recorder.calls = []
    Recorder.busy = threading.Lock()
    plan = slots.plan(tmp_path)
    operator = dataclasses.replace(plan.operators[0], function=Recorder())
    served = slots.Slot(tmp_path / "slot", dataclasses.replace(plan, operators=(operator,)))
    yield served
    served.close()


def test_it_is_opened_after_the_restore_and_closed_once(slot: slots.Slot) -> None:
    assert Recorder.calls == []
    slot.restore()
    assert Recorder.calls == ["open"]
    slot.epoch(0, slots.rows(("a", 1)))
    slot.close()
    assert Recorder.calls == ["open", "element", "timer", "close"]


def test_two_attempts_at_once_never_call_it_at_once(slot: slots.Slot) -> None:
    slot.restore()
    batches = [slots.rows(*[(f"k{key}", 1) for key in range(20)]) for _ in range(3)]
    attempts = [threading.Thread(target=slot.feed, args=(0, number, *batches)) for number in (1, 2, 3)]
    for attempt in attempts:
        attempt.start()
    for attempt in attempts:
        attempt.join()
    until_called("element", 3 * 60)
    slot.finish(0, 2)
    slot.commit(0)
    assert Recorder.calls.count("element") == 3 * 60
    assert Recorder.calls.count("timer") == 20
    assert "overlap" not in Recorder.calls


def test_it_is_closed_after_an_exception_of_its_own_too(slot: slots.Slot) -> None:
    slot.restore()
    slot.feed(0, 1, slots.rows(("a", 13)))
    with pytest.raises(errors.UserCodeError, match="13 brings bad luck"):
        slot.finish(0, 1)
    slot.close()
    assert Recorder.calls == ["open", "element", "close"]


class Leaving(slots.Sum):
    """Wants to end its process in the step ``at``."""

    def __init__(self, at: str) -> None:
        self.at = at

    def leave(self, here: str) -> None:
        if self.at == here:
            sys.exit(0)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.leave("unpickling")

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        ctx.get_metrics_group().gauge("g", lambda: self.leave("gauge"))
        self.leave("open")

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        ctx.timer_service().register_processing_time_timer(0)
        self.leave("element")
        yield from super().process_element(row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        self.leave("timer")
        yield ctx.get_current_key(), 0


def leaving(folder: Path, at: str, **changes: Any) -> slots.Slot:
    plan = slots.plan(folder)
    operator = dataclasses.replace(plan.operators[0], function=Leaving(at), **changes)
    return slots.Slot(folder / "slot", dataclasses.replace(plan, operators=(operator,)))


@pytest.mark.parametrize("at", ["open", "element", "timer"])
def test_a_function_that_wants_to_end_its_process_is_an_error_of_the_job_and_no_lost_slot(
    tmp_path: Path, at: str
) -> None:
    slot = leaving(tmp_path, at)

    def live() -> None:
        slot.restore()
        slot.epoch(0, slots.rows(("a", 1)))

    with pytest.raises(errors.UserCodeError, match=r"operator 'sum'.* SystemExit: 0"):
        live()
    assert slot.client.call(protocol.Status(), protocol.SlotStatus).slot == 0
    slot.close()


def test_code_that_leaves_while_it_is_loaded_or_asked_for_a_metric_loses_no_slot(tmp_path: Path) -> None:
    with pytest.raises(errors.SparkstateError, match="cannot be loaded in a slot: SystemExit"):
        leaving(tmp_path, "unpickling")
    slot = leaving(tmp_path / "second", "gauge")
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1)))
    assert slot.client.call(protocol.Status(), protocol.SlotStatus).slot == 0
    slot.close()


def test_whatever_else_ends_a_thread_of_the_slot_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = leaving(tmp_path, "nowhere")
    monkeypatch.setattr(SlotRuntime, "restore", lambda *_: sys.exit(3))
    with pytest.raises(errors.UserCodeError, match=r"called sys\.exit\(3\) in a slot"):
        slot.restore()
    slot.close()
