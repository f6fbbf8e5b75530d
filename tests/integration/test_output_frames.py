"""The frames that read an epoch's output are made beside the feeding of its rows, and only for readers that exist."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame
from support.spark import spark_session

from sparkstate.functions import KeyedProcessFunction
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import batch_weighing, graph
from sparkstate.spark.arrow_functions import ArrowFunction, ArrowFunctions
from sparkstate.spark.output_frames import OutputFrames

pytestmark = pytest.mark.spark


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that began to make a frame."""
    noted: list[str] = []
    apply = ArrowFunctions.apply

    def noting(functions: ArrowFunctions, function: ArrowFunction, frame: DataFrame) -> DataFrame:
        noted.append(threading.current_thread().name)
        return apply(functions, function, frame)

    monkeypatch.setattr(ArrowFunctions, "apply", noting)
    return noted


@pytest.fixture(params=["string"])
def frames(request: pytest.FixtureRequest) -> Iterator[OutputFrames]:
    declared = graph.Graph()
    for uid, upstream in (("first", None), ("second", ("first", None))):
        declared.add(
            graph.Operator(
                uid=uid,
                function=KeyedProcessFunction(),
                keys=("k",),
                upstream=upstream,
                event_time=None,
                output_schema=f"k {request.param}, total long",
            )
        )
    declared.add_sink("second", None, lambda frame, epoch: None)
    declared.add_sink("second", None, FileSink("/nowhere"))
    group = SlotGroup((SlotAddress(0, "host", 1, "/nowhere"),), "key", 1, "host")
    made = OutputFrames(spark_session.get(), declared, group)
    yield made
    made.close()
    group.close()


def test_a_frame_is_made_beside_the_feeding_and_taken_when_it_is_needed(
    frames: OutputFrames, threads: list[str]
) -> None:
    frames.prepare(7)
    for_sink = frames.take(7, "second", None)
    for_operator = frames.take(7, "first", None, with_timestamps=True)
    assert for_sink.columns == ["k", "total"]
    assert for_operator.columns == ["k", "total", "__sparkstate_ts"]
    assert len(threads) == 2, "one for the user's sink, one for the next operator, none for the FileSink"
    assert all(name.startswith("output-frames") for name in threads)


def test_a_frame_belongs_to_its_epoch_alone(frames: OutputFrames, threads: list[str]) -> None:
    frames.prepare(7)
    frames.prepare(8)
    eight = frames.take(8, "second", None)
    frames.forget(7)
    again = frames.take(8, "second", None)
    assert again is not eight, "a frame is handed out once"
    assert threads[-1] == threading.current_thread().name, "what was not prepared is made when asked for"


def test_an_error_comes_to_the_reader_of_the_frame(
    frames: OutputFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> DataFrame:
        raise OSError("the JVM is gone")

    monkeypatch.setattr(ArrowFunctions, "apply", broken)
    frames.prepare(7)
    with pytest.raises(OSError, match="the JVM is gone"):
        frames.take(7, "second", None)


def test_nothing_is_prepared_once_the_incarnation_has_ended(frames: OutputFrames, threads: list[str]) -> None:
    frames.close()
    frames.prepare(7)
    assert threads == []


@pytest.mark.parametrize("frames", ["long", "string"], indirect=True)
def test_a_sink_reads_in_the_sessions_own_batches(
    frames: OutputFrames, request: pytest.FixtureRequest
) -> None:
    limit = spark_session.get().conf.get(batch_weighing.BYTES)
    assert frames.take(7, "second", None).sparkSession.conf.get(batch_weighing.BYTES) == limit
    of_operators = frames.take(7, "first", None, with_timestamps=True).sparkSession
    is_fixed = request.node.callspec.params["frames"] == "long"
    assert (of_operators.conf.get(batch_weighing.BYTES) == str(batch_weighing.UNWEIGHED)) == is_fixed
