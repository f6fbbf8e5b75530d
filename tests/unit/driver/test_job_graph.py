"""The job as a graph: its shape from the declaration, its figures from the epochs and the slots."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sparkstate.driver.job_graph import Shape, shape_of
from sparkstate.driver.operator_figures import WorkedEpochs
from sparkstate.functions import KeyedProcessFunction, OutputTag
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots import protocol
from sparkstate.spark import graph
from sparkstate.spark.epochs import OperatorResult


class Totals(KeyedProcessFunction):
    """Does nothing: it only has a name."""


def declared(sources: int = 1) -> graph.Graph:
    frames = [graph.Source(frame=cast("Any", None), event_time="at") for _ in range(sources)]
    made = graph.Graph(sources=frames)
    made.add(operator("totals", None))
    made.operators["totals"].side_outputs["quiet"] = OutputTag("quiet", "k string")
    made.add(operator("groups", ("totals", "quiet")))
    made.add_sink("totals", None, FileSink("s3://me:secret-word@bucket/out"))
    made.add_sink("groups", None, print)
    return made


def operator(uid: str, upstream: tuple[str, str | None] | None) -> graph.Operator:
    return graph.Operator(
        uid=uid,
        function=Totals(),
        keys=("k", "g"),
        upstream=upstream,
        event_time=None,
        output_schema="k string",
    )


def shape(sources: int = 1) -> Shape:
    return shape_of(declared(sources), lambda source: ("kafka", "file"))


def result(uid: str, rows: int, busy_ms: float = 0.0, **out: int) -> OperatorResult:
    by_tag = {None if tag == "main" else tag: count for tag, count in out.items()}
    return OperatorResult(
        uid=uid, rows_in=rows, rows_out=by_tag, late_rows=1, dropped_rows=2, timers_fired=3, busy_ms=busy_ms
    )


def size(uid: str, rows: int) -> protocol.OperatorSize:
    return protocol.OperatorSize(operator=uid, state_rows=rows, state_bytes=10 * rows, timers=1)


def test_the_shape_is_that_of_the_declaration_and_shows_no_password() -> None:
    told = shape().with_figures(WorkedEpochs(), (), 0.0)
    assert [(node.id, node.name, node.detail) for node in told.nodes] == [
        ("source:0", "kafka + file", "event time at"),
        ("operator:totals", "totals", "Totals by k, g"),
        ("operator:groups", "groups", "Totals by k, g"),
        ("side-output:totals/quiet", "quiet", "side output of totals"),
        ("sink:totals", "totals", "parquet files in s3://***@bucket/out"),
        ("sink:groups", "groups", "function print"),
    ]
    assert [(edge.source, edge.target, edge.input) for edge in told.edges] == [
        ("source:0", "operator:totals", 0),
        ("operator:totals", "side-output:totals/quiet", 0),
        ("side-output:totals/quiet", "operator:groups", 0),
        ("operator:totals", "sink:totals", 0),
        ("operator:groups", "sink:groups", 0),
    ]
    figures = told.nodes[1].figures
    assert figures is not None
    assert (figures.rows_in_total, figures.busy_share, figures.state_rows, figures.timers) == (
        0,
        None,
        None,
        None,
    )


def test_figures_are_totals_and_the_rates_of_the_newest_epochs() -> None:
    epochs = WorkedEpochs()
    epochs.note(100.0, 4.0, 900, [result("totals", 900, 500.0, main=800, quiet=100)])
    epochs.note(
        104.0, 4.0, 300, [result("totals", 300, 1500.0, main=300), result("groups", 100, 40.0, main=7)]
    )
    sizes = [size("totals", 5), size("groups", 1), size("totals", 6)]
    told = shape().with_figures(epochs, sizes, 104.0)
    totals, groups = (node.figures for node in told.nodes[1:3])
    assert totals is not None and groups is not None
    assert (totals.rows_in_total, totals.rows_out_total) == (1200, 1200)
    assert (totals.late_rows_total, totals.dropped_rows_total, totals.timers_fired_total) == (2, 4, 6)
    assert (totals.rows_in_per_s, groups.rows_in_per_s) == (150.0, 12.5)
    assert totals.rows_in_per_s == epochs.rows_per_s(104.0)
    assert (totals.busy_share, groups.busy_share) == (0.25, 0.005)
    assert (totals.state_rows, totals.state_bytes, totals.timers) == (11, 110, 2)
    ways = {(edge.source, edge.target): (edge.rows_total, edge.rows_per_s) for edge in told.edges}
    assert ways["source:0", "operator:totals"] == (1200, 150.0)
    assert ways["operator:totals", "side-output:totals/quiet"] == (100, 12.5)
    assert ways["side-output:totals/quiet", "operator:groups"] == (100, 12.5)
    assert ways["operator:totals", "sink:totals"] == (1100, 137.5)


def test_epochs_leave_the_rates_after_the_window_and_stay_in_the_totals() -> None:
    epochs = WorkedEpochs()
    epochs.note(0.0, 1.0, 1000, [result("totals", 1000)])
    epochs.note(60.0, 1.0, 50, [result("totals", 50)])
    figures = epochs.figures("totals", (), 60.0)
    assert (figures.rows_in_total, figures.rows_in_per_s) == (1050, 5.0)


@pytest.mark.parametrize("seconds", [0.25, 1.0, 4.0, 6.0, 9.0, 10.0, 10.1, 60.0])
def test_the_rate_is_that_of_the_rows_however_long_epochs_are(seconds: float) -> None:
    epochs, now = WorkedEpochs(), 0.0
    for number in range(1, 81):
        now = number * seconds
        epochs.note(now, seconds, round(1000 * seconds), [result("totals", round(1000 * seconds))])
        for open_s in (0.0, seconds / 2, seconds * 0.999):
            told = epochs.rows_per_s(now + open_s), epochs.figures("totals", (), now + open_s).rows_in_per_s
            assert told == pytest.approx((1000, 1000)) or number * seconds < 1
    falling = [epochs.rows_per_s(now + share * seconds) for share in (1.0, 1.5, 1.9)]
    assert falling == sorted(falling, reverse=True)
    assert epochs.rows_per_s(now + max(10.0, 2 * seconds)) == 0


def test_epochs_at_an_interval_and_epochs_side_by_side_have_the_rate_of_their_rows() -> None:
    at_an_interval, side_by_side = WorkedEpochs(), WorkedEpochs()
    for number in range(1, 20):
        at_an_interval.note(number * 5.0, 1.0, 500, ())
        side_by_side.note(number * 2.0, 4.0, 200, ())
    assert at_an_interval.rows_per_s(97.0) == pytest.approx(100)
    assert side_by_side.rows_per_s(39.0) == pytest.approx(100)


def test_an_operator_is_never_at_work_for_longer_than_its_epochs() -> None:
    epochs = WorkedEpochs()
    epochs.note(0.0, 0.1, 1, [result("totals", 1, busy_ms=900.0)])
    assert epochs.figures("totals", (), 0.0).busy_share == 1.0


@pytest.mark.parametrize("sources", [2, 3])
def test_rows_of_several_sources_are_not_told_apart(sources: int) -> None:
    told = shape(sources).with_figures(WorkedEpochs(), (), 0.0)
    edges = [edge for edge in told.edges if edge.target == "operator:totals"]
    assert len(edges) == sources
    assert {edge.rows_total for edge in edges} == {None}


def test_the_replies_of_all_slots_make_one_result_and_the_slowest_slot_counts() -> None:
    replies = [
        protocol.Finished(
            rows_in=n,
            rows_by_tag={"": n, "late": 1},
            late_rows=n,
            timers_fired=2,
            dropped_rows=1,
            busy_ms=n * 10,
        )
        for n in (4, 7)
    ]
    made = OperatorResult.of("totals", replies)
    assert (made.rows_in, made.rows_out, made.late_rows) == (11, {None: 11, "late": 2}, 11)
    assert (made.timers_fired, made.dropped_rows, made.busy_ms) == (4, 2, 70)


def test_an_operator_with_two_inputs_has_a_way_from_each_with_its_number() -> None:
    frames = [graph.Source(frame=cast("Any", None), of_input=number) for number in (0, 1)]
    made = graph.Graph(sources=frames)
    made.add(operator("totals", None))
    joined = operator("joined", None)
    joined.second = graph.Input(keys=("k",), upstream=("totals", None), event_time=None)
    made.add(joined)
    other = operator("other", None)
    other.second = graph.Input(keys=("k",), upstream=None, event_time=None, source=1)
    made.add(other)
    told = shape_of(made, lambda source: ("file",)).with_figures(WorkedEpochs(), (), 0.0)
    assert {(edge.source, edge.target, edge.input) for edge in told.edges} == {
        ("source:0", "operator:totals", 0),
        ("source:0", "operator:joined", 0),
        ("operator:totals", "operator:joined", 1),
        ("source:0", "operator:other", 0),
        ("source:1", "operator:other", 1),
    }
