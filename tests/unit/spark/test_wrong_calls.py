"""Wrong calls in a first job: each start would make them again, so none is retried."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import types as T

import sparkstate
from sparkstate import (
    FileSink,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Time,
    Types,
    errors,
    windows,
)
from sparkstate.spark import graph, stream


def keyed_stream() -> Any:
    return stream.KeyedStream(graph.Graph(), None, ("k",), None)


def processed() -> Any:
    return stream.ProcessedStream(graph.Graph(), "op", None)


def windowed_stream() -> Any:
    return keyed_stream().window(windows.GlobalWindows.create())


def without_uid() -> None:
    keyed_stream().process(KeyedProcessFunction(), output_schema="k string")


def with_a_type_of_pyflink() -> None:
    keyed_stream().process(KeyedProcessFunction(), Types.ROW([Types.STRING()]))


def with_two_keys() -> None:
    sparkstate.keyed(object(), "a", "b")  # type: ignore[call-arg]


def with_an_option_that_is_none() -> None:
    FileSink("/out", partition_by=["k"])  # type: ignore[call-arg]


def with_no_configuration() -> None:
    environment().configure({})


def with_no_size() -> None:
    windows.TumblingEventTimeWindows.of()  # type: ignore[call-arg]


def without_a_window() -> None:
    keyed_stream().window()


SLIPS = {
    without_uid: r"missing .* 'uid' .*test_wrong_calls.py:\d+ in without_uid\); uid='…' names the operator, .* call it "
    r"as process\(function, \*, uid, output_schema, on_error='fail', ",
    with_a_type_of_pyflink: r"; call it as process\(function, \*, uid, output_schema, ",
    with_two_keys: r"; give several key columns as a list, keyed\(df, \['a', 'b'\]\); call it as keyed\(df, keys, \*, ",
    with_an_option_that_is_none: r"'partition_by' .*; call it as FileSink\(path, format='parquet', ",
    with_no_size: r"missing .* 'size' .*; call it as of\(size, ",
    without_a_window: r"missing .* 'assigner' .*; call it as window\(assigner",
    with_no_configuration: r"give a sparkstate.Configuration .*:\d+ in with_no_configuration\); correct the call",
}


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.__name__)
def test_arguments_that_do_not_fit_our_calls_are_a_fault_of_the_declaration(slip: Callable[[], None]) -> None:
    with pytest.raises(errors.DeclarationError, match=SLIPS[slip]):
        graph.declare(slip)


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        (lambda: processed().name("counts"), r"; the uid= of process names the operator$"),
        (lambda: processed().uid("counts"), r"; write process\(…, uid='…'\)$"),
        (lambda: processed().print(), r"; write \.sink\(lambda df, epoch: df\.show\(\)\)$"),
        (lambda: processed().set_parallelism(3), "; write spec.slots into the manifest$"),
        (lambda: processed().map(len), r"; key the output first: \.keyed\('column'\)$"),
        (lambda: processed().writeStream, r"; write \.sink\(FileSink\('/folder'\)\)"),
        (lambda: processed().filter(len), r"; key the output first: .*; or do that in \.sink\(function\)"),
        (lambda: processed().select("k"), r"; do that in \.sink\(function\), which gets a DataFrame$"),
        (
            lambda: processed().foreachBatch(len),
            r"; write \.sink\(function\): it is called with \(df, epoch\)$",
        ),
        (lambda: keyed_stream().where("v > 1"), r"; do that to the DataFrame, before keyed\(df, …\)$"),
        (
            lambda: windowed_stream().sum("v", uid="s"),
            r"; write \.agg\(F\.sum\('v'\), uid='…'\), with pyspark",
        ),
        (
            lambda: windowed_stream().trigger_every(5),
            r"; WindowedStream has agg, aggregate, allowed_lateness, apply, evictor, process, reduce, "
            r"side_output_late_data, trigger$",
        ),
        (lambda: keyed_stream().partition_custom(), "; KeyedStream has connect, count_window, filter, "),
        (
            lambda: sparkstate.KeyedProces,
            "no attribute 'KeyedProces'.* correct the call of sparkstate in that",
        ),
        (
            lambda: environment().set_parallelism(3),
            "no 'set_parallelism' here: write spec.slots into the mani",
        ),
    ],
    ids=[
        *(
            "name",
            "uid",
            "print",
            "parallelism",
            "map",
            "writeStream",
            "filter",
            "select",
            "foreachBatch",
            "where",
        ),
        *("sum of windows", "unknown of windows", "unknown", "a name", "environment"),
    ],
)
def test_methods_that_our_streams_lack_are_told_with_what_stands_for_them(slip: Any, told: str) -> None:
    with pytest.raises(errors.DeclarationError, match=told):
        graph.declare(slip)


class Counts:
    """A sink whose author forgot the epoch."""

    def __call__(self, frame: Any) -> None: ...


def connected(sink: Callable[[str, Any, int], None]) -> Callable[[Any, int], None]:
    """A decorator whose function has other parameters than the one that it names itself after."""

    @functools.wraps(sink)
    def called(frame: Any, epoch: int) -> None:
        sink("a connection", frame, epoch)

    return called


@connected
def with_connection(connection: str, frame: Any, epoch: int) -> None: ...


def of_an_epoch(frame: Any, epoch: int) -> None: ...


@functools.wraps(of_an_epoch)
def without_epoch(frame: Any) -> None: ...


@pytest.mark.parametrize("sink", [lambda df: None, Counts(), lambda df, epoch, path: None, without_epoch])
def test_a_sink_that_cannot_be_called_with_an_epoch_is_refused_where_it_is_declared(sink: Any) -> None:
    with pytest.raises(
        errors.SpecInvalid, match=r"it is called with \(df, epoch_id\), and has the parameters \("
    ):
        processed().sink(sink)


@pytest.mark.parametrize(
    "sink",
    [lambda df, epoch: None, lambda *of: None, print, dict.update, max, dict, with_connection],
)
def test_a_sink_that_can_be_called_so_or_tells_nothing_of_itself_is_taken(sink: Any) -> None:
    declared = processed()
    declared.sink(sink)
    assert [node.sink for node in declared._graph.sinks] == [sink]


def environment() -> Any:
    return StreamExecutionEnvironment.get_execution_environment()


def test_a_function_with_other_parameters_is_told_the_right_ones() -> None:
    def job(spark: Any) -> None:
        del spark

    with pytest.raises(
        errors.DeclarationError, match=r"job\(\) takes 1 .*; its parameters have to be \(spark, params"
    ):
        graph.declare(job, None, {})


def broadcast(df: object, limit: int) -> object:
    """A helper of the job, whose name our API has too."""
    return df, limit


class Source:
    """As ``broadcast``, with a name that only our inner modules have."""

    def __init__(self, topic: str, limit: int) -> None:
        self.of = topic, limit


def typed(line: str, file: str) -> Callable[[], None]:
    """A job that was typed into a prompt or a notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(f"def job():\n    row = None\n    {line}\n", file, "exec"), names)
    job: Callable[[], None] = names["job"]
    return job


FOUND: dict[str, Any] = {"topic": "a"}
"""A row of a table that lacks a column."""
NOTHING: Any = None
"""The first row of an empty table."""


@pytest.mark.parametrize(
    "fault",
    [
        lambda: broadcast(*[]),
        lambda: Source(**FOUND),
        lambda: len(5),  # type: ignore[arg-type]
        lambda: "text".no_method(),  # type: ignore[attr-defined]  # noqa: PLW0108
        lambda: Time.minutes(NOTHING),
        typed("row['limit']", "<stdin>"),
        typed("row.limit", "<command-4127>"),
    ],
    ids=["own function", "own class", "Python's", "a text's", "a None", "a prompt", "a notebook"],
)
def test_errors_of_calls_that_are_not_ours_are_left_as_they_are(fault: Any) -> None:
    """They may come from what the job has read."""
    with pytest.raises((TypeError, AttributeError)):
        graph.declare(fault)


@pytest.mark.parametrize(
    "kind", [T.ArrayType(T.LongType()), T.StructType(), T.MapType(T.LongType(), T.LongType())]
)
def test_a_key_that_has_no_binary_form_is_refused_where_it_is_named(kind: T.DataType) -> None:
    struct = T.StructType([T.StructField("k", T.StringType()), T.StructField("tags", kind)])
    assert stream._key_columns("k", struct) == ("k",)
    with pytest.raises(errors.SpecInvalid, match=r"key column 'tags' is .*; keys are strings, numbers"):
        stream._key_columns(["k", "tags"], struct)
