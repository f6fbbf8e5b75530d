"""The frames that read an epoch's output are made beside the feeding of its rows, and only for readers that exist."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.spark import spark_session

from sparkstate.functions import KeyedProcessFunction
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import graph
from sparkstate.spark.output_frames import OutputFrames

pytestmark = pytest.mark.spark


class Watched:
    """A session that notes which thread begins to make a frame."""

    def __init__(self) -> None:
        self._session = spark_session.get()
        self.threads: list[str] = []

    def range(self, *bounds: int) -> DataFrame:
        self.threads.append(threading.current_thread().name)
        return self._session.range(*bounds)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def frames(watched: Watched) -> Iterator[OutputFrames]:
    declared = graph.Graph()
    for uid, upstream in (("first", None), ("second", ("first", None))):
        declared.add(
            graph.Operator(
                uid=uid,
                function=KeyedProcessFunction(),
                keys=("k",),
                upstream=upstream,
                event_time=None,
                output_schema="k string, total long",
            )
        )
    declared.add_sink("second", None, lambda frame, epoch: None)
    declared.add_sink("second", None, FileSink("/nowhere"))
    group = SlotGroup((SlotAddress(0, "host", 1, "/nowhere"),), "key", 1, "host")
    session: Any = watched
    made = OutputFrames(session, declared, group)
    yield made
    made.close()
    group.close()


def test_a_frame_is_made_beside_the_feeding_and_taken_when_it_is_needed(
    frames: OutputFrames, watched: Watched
) -> None:
    frames.prepare(7)
    for_sink = frames.take(7, "second", None)
    for_operator = frames.take(7, "first", None, with_timestamps=True)
    assert for_sink.columns == ["k", "total"]
    assert for_operator.columns == ["k", "total", "__sparkstate_ts"]
    assert len(watched.threads) == 2, (
        "one for the user's sink, one for the next operator, none for the FileSink"
    )
    assert all(name.startswith("output-frames") for name in watched.threads)


def test_a_frame_belongs_to_its_epoch_alone(frames: OutputFrames, watched: Watched) -> None:
    frames.prepare(7)
    frames.prepare(8)
    eight = frames.take(8, "second", None)
    frames.forget(7)
    again = frames.take(8, "second", None)
    assert again is not eight, "a frame is handed out once"
    assert watched.threads[-1] == threading.current_thread().name, (
        "what was not prepared is made when asked for"
    )


def test_an_error_comes_to_the_reader_of_the_frame(frames: OutputFrames, watched: Watched) -> None:
    def broken(*_: int) -> DataFrame:
        raise OSError("the JVM is gone")

    watched.range = broken  # type: ignore[method-assign]
    frames.prepare(7)
    with pytest.raises(OSError, match="the JVM is gone"):
        frames.take(7, "second", None)


def test_nothing_is_prepared_once_the_incarnation_has_ended(frames: OutputFrames, watched: Watched) -> None:
    frames.close()
    frames.prepare(7)
    assert watched.threads == []
