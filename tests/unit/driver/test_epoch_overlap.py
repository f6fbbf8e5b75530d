"""When the end of an epoch runs beside the beginning of the next: after one for which Spark had more rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.epoch_overlap import SHORT_S, EpochOverlap
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.parts import Origin
from sparkstate.driver.unsaved_work import UnsavedWork
from sparkstate.keygroups import KeySpace
from sparkstate.spark.query import Query
from sparkstate.spark.watermarks import Watermarks
from sparkstate.testing.manual_clock import ManualClock

ORIGIN = Origin(RestoredSnapshot(RestorePlan("empty", "nothing was found")), 1, KeySpace(128, 16))


def lives(epochs: int, *, was_of_use: bool, took_s: float = 0.05) -> Iterator[bool]:
    overlap = EpochOverlap()
    for _ in range(epochs):
        overlapped = overlap.pays
        yield overlapped
        overlap = overlap.after(took_s, overlapped=overlapped, was_of_use=overlapped and was_of_use)


def test_epochs_overlap_as_long_as_there_are_more_rows() -> None:
    assert all(lives(50, was_of_use=True))


def test_epochs_that_are_alone_seldom_overlap() -> None:
    tries = [number for number, overlapped in enumerate(lives(40, was_of_use=False)) if overlapped]
    assert tries == [0, 2, 5, 10, 19, 28, 37]


def test_a_long_end_overlaps_in_any_case() -> None:
    assert all(lives(20, was_of_use=False, took_s=SHORT_S * 1.1))


def test_one_try_that_was_of_use_ends_the_pauses() -> None:
    overlap = EpochOverlap()
    for _ in range(30):
        overlap = overlap.after(0.05, overlapped=overlap.pays, was_of_use=False)
    while not overlap.pays:
        overlap = overlap.after(0.05, overlapped=False, was_of_use=False)
    assert overlap.after(0.05, overlapped=True, was_of_use=True) == EpochOverlap()


def loop_of(directory: Path, *, calls_sinks: bool) -> tuple[EpochLoop, list[str]]:
    """A loop whose runner does nothing, over a query that has begun what lies in the directory; and what it did."""
    done: list[str] = []
    clock = ManualClock()
    result = SimpleNamespace(timers_fired=0, swept=0, watermarks=None)
    runner: Any = SimpleNamespace(
        watermarks=Watermarks(()),
        may_overlap=True,
        calls_sinks=calls_sinks,
        begin=lambda frame, epoch: SimpleNamespace(epoch=epoch, batch=frame),
        complete=lambda _: result,
        paused=SimpleNamespace(measured=contextlib.nullcontext),
    )

    class Pipeline(EpochPipeline):
        def start(self, work: Any) -> None:
            done.append("beside")
            super().start(work)

    checkpoints: Any = SimpleNamespace(
        wants_epoch=lambda: False,
        stop_requested=lambda: None,
        unsaved=UnsavedWork(clock),
        after_commit=lambda *_, **__: done.append("before"),
    )
    pauses: Any = SimpleNamespace(hold_back=lambda *_: None)
    parts: Any = SimpleNamespace(context=SimpleNamespace(view=None, clock=clock))
    nothing: Any = None
    query = Query(nothing, nothing, nothing, directory, nothing, beats=True, is_selected=False)
    loop = EpochLoop(parts, ORIGIN, query, runner, checkpoints, pauses, Pipeline())
    loop._note = lambda *_, **__: None  # type: ignore[method-assign]
    return loop, done


def write(directory: Path, epoch: int, files: int, beats: int) -> None:
    """The offsets of an epoch: how many files were read, and the heartbeats."""
    (directory / "offsets").mkdir(exist_ok=True)
    (directory / "offsets" / str(epoch)).write_text(f'v1\n{{}}\n{{"logOffset":{files}}}\n{beats}')


@pytest.mark.parametrize("calls_sinks", [True, False], ids=["a function", "our sinks"])
def test_a_job_without_more_rows_ends_its_epochs_before_the_next(tmp_path: Path, calls_sinks: bool) -> None:
    loop, done = loop_of(tmp_path, calls_sinks=calls_sinks)
    frame: Any = object()
    for epoch in range(6):
        write(tmp_path, epoch, epoch, 0)
        loop.on_epoch(frame, epoch)
        loop._pipeline.settle()
    alone = ["beside", "before", "beside", "before", "before", "beside"]
    assert done == (alone if calls_sinks else ["beside"] * 6)


@pytest.mark.parametrize("more_rows", [True, False])
def test_the_next_epoch_counts_if_it_has_rows(tmp_path: Path, more_rows: bool) -> None:
    loop, done = loop_of(tmp_path, calls_sinks=True)
    frame: Any = object()
    for epoch in range(2):
        write(tmp_path, epoch, epoch, epoch)
        write(tmp_path, epoch + 1, epoch + more_rows, epoch + 1)
        loop.on_epoch(frame, epoch)
        loop._pipeline.settle()
    assert done == ["beside", "beside" if more_rows else "before"]
