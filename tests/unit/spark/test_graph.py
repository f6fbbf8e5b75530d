"""What a job declares, and what of it cannot be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as T

from sparkstate import (
    FileSink,
    KeyedBatchFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessJoinFunction,
    Types,
    ValueStateDescriptor,
    errors,
)
from sparkstate.functions import KeyedFunction
from sparkstate.keyed_functions import join_operation
from sparkstate.keyed_functions.interval_join import IntervalJoin, JoinSide
from sparkstate.operators import kinds
from sparkstate.spark import connected, graph, planning, plans, stream
from sparkstate.state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend
from sparkstate.windows import (
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    operation,
)


def source(frame: Any, event_time: str | None = None, delay_ms: int = 0) -> graph.Source:
    return graph.Source(frame=frame, event_time=event_time, delay_ms=delay_ms)


@pytest.mark.parametrize(
    ("second", "told"),
    [(("other", 1000), "event_time='other'"), (("at", 7), "delay=7 ms"), ((None, 0), "event_time=None")],
    ids=["another column", "another delay", "none"],
)
def test_a_second_keyed_over_the_same_input_may_not_change_its_times(
    second: tuple[str | None, int], told: str
) -> None:
    declared, frame = graph.Graph(), object()
    declared.add_sources([source(frame, "at", 1000)])
    declared.add_sources([source(frame, "at", 1000)])
    with pytest.raises(errors.SpecInvalid, match=f"event_time='at', delay=1000 ms.*{told}"):
        declared.add_sources([source(frame, *second)])
    assert [each.event_time for each in declared.sources] == ["at"]


def tagged(**tags: Any) -> graph.Operator:
    """An operator with these tags of built-in side outputs."""
    return graph.Operator(
        uid="op",
        function=KeyedProcessFunction(),
        keys=("k",),
        upstream=None,
        event_time="at",
        output_schema="k string",
        **tags,
    )


def test_built_in_side_outputs_that_nothing_reads_are_told() -> None:
    operator = tagged(error_tag=OutputTag("errors"), late_tag=OutputTag("late"))
    declared = graph.Graph(operators={"op": operator})
    rejected, late = declared.unread()
    assert "'op'" in rejected
    assert "rejected rows" in rejected
    assert "'errors'" in rejected
    assert "late rows" in late
    operator.side_outputs = {"late": OutputTag("late")}
    assert declared.unread() == [rejected]


def test_built_in_side_outputs_with_one_tag_are_refused() -> None:
    operator = tagged(error_tag=OutputTag("errors"), late_tag=OutputTag("errors"))
    with pytest.raises(
        errors.SpecInvalid, match="for rejected rows and for late rows both have the tag 'errors'"
    ):
        graph.Graph().add(operator)


def test_two_sinks_of_one_name_are_refused_because_they_would_share_their_files() -> None:
    declared = graph.Graph()
    for operator in ("count", "count"):
        declared.add_sink(operator, None, FileSink("/out"))
    with pytest.raises(
        errors.SpecInvalid, match="'count-1', that of operator 'count' and that of operator 'count-1'"
    ):
        declared.add_sink("count-1", None, FileSink("/out"))
    with pytest.raises(
        errors.SpecInvalid, match=r"'count-1', .*that of side output '1' of operator 'count'; give the"
    ):
        declared.add_sink("count", "1", FileSink("/out"))
    declared.add_sink("count-1", None, lambda frame, epoch: None)
    assert [node.uid for node in declared.sinks] == ["count", "count-1", "count-1"]


@pytest.mark.parametrize("tag", ["a/b", "x" * 200, "a\0b", "漢" * 80, "a\\b"])
def test_a_tag_that_no_file_can_be_named_after_is_refused(tag: str) -> None:
    declared = graph.Graph()
    with pytest.raises(errors.SpecInvalid, match="use a tag of at most 100 bytes of UTF-8 without '/'"):
        declared.add_sink("op", tag, FileSink("/out"))
    declared.add_sink("op", tag, lambda frame, epoch: None)


def declare_late(tag: Any) -> None:
    graph.Graph().add(tagged(late_tag=tag))


TAKING_TAGS: dict[str, Callable[[Any], object]] = {
    "side_output(…)": stream.ProcessedStream(graph.Graph(), "op", None).side_output,
    "side_output_late_data(…)": operation.over(TumblingEventTimeWindows.of(5)).side_output_late_data,
    "side_output_left_late_data(…)": join_operation.between(0, 5).side_output_left_late_data,
    "side_output_right_late_data(…)": join_operation.between(0, 5).side_output_right_late_data,
    "operator 'op': the output of late rows": declare_late,
}


@pytest.mark.parametrize("where", TAKING_TAGS)
def test_whatever_is_no_tag_is_refused_in_the_same_words_everywhere(where: str) -> None:
    with pytest.raises(errors.SpecInvalid) as refused:
        TAKING_TAGS[where]("late")
    assert str(refused.value) == f"{where} is 'late'; pass an OutputTag('…')"


def struct(**fields: T.DataType) -> Any:
    """A DataFrame, as far as its columns."""
    return SimpleNamespace(schema=T.StructType([T.StructField(name, kind) for name, kind in fields.items()]))


def test_rejected_rows_have_the_columns_of_their_input_and_the_error() -> None:
    declared = graph.Graph()
    first = declared.add_sources([source(struct(k=T.StringType(), v=T.LongType()))])
    second = declared.add_sources([source(struct(name=T.StringType(), w=T.DoubleType()))])
    operator = graph.Operator(
        uid="op",
        function=KeyedCoProcessFunction(),
        keys=("k",),
        upstream=None,
        event_time=None,
        output_schema="k string",
        source=first,
        second=graph.Input(keys=("name",), upstream=None, event_time=None, source=second),
        on_error="side-output",
        error_tag=OutputTag("errors1"),
        second_error_tag=OutputTag("bad"),
        second_late_tag=OutputTag("late"),
    )
    declared.operators["op"] = operator
    names = {tag: plans.output_type(declared, "op", tag).names for tag in ("errors1", "bad", "late")}
    assert names == {"errors1": ["k", "v", "error"], "bad": ["name", "w", "error"], "late": ["name", "w"]}
    assert planning._second(declared, operator)["second_error_tag"] == "bad"
    assert ["rejected rows of the second input" in told for told in declared.unread()] == [False, True, False]


def test_another_word_for_what_follows_an_error_is_refused_for_two_inputs_too() -> None:
    stream_of = graph.Input(keys=("k",), upstream=None, event_time=None)
    two = connected.ConnectedStreams(graph.Graph(), stream_of, stream_of, stream.ProcessedStream)
    with pytest.raises(errors.SpecInvalid, match="of 'op': use 'fail' or 'side-output'"):
        two.process(KeyedCoProcessFunction(), uid="op", output_schema="k long", on_error="skip")  # type: ignore[arg-type]


def keyed_stream() -> stream.KeyedStream:
    return stream.KeyedStream(graph.Graph(), None, ("k",), None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            KeyedProcessFunction,
            "is not a KeyedProcessFunction or KeyedBatchFunction object; create an instance",
        ),
        (KeyedFunction(), "is not a KeyedProcessFunction or KeyedBatchFunction object$"),
        (len, "is not a KeyedProcessFunction or KeyedBatchFunction object$"),
    ],
    ids=["a class", "of no kind", "a plain function"],
)
def test_what_is_no_function_of_a_kind_is_refused_with_the_kinds(given: Any, told: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=told):
        keyed_stream().process(given, uid="op", output_schema="k long")


def test_records_that_cannot_be_undone_are_refused_in_the_words_of_the_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def process(function: KeyedFunction) -> None:
        keyed_stream().process(function, uid="op", output_schema="k long", on_error="side-output")

    with pytest.raises(errors.SpecInvalid, match="of 'op': a KeyedBatchFunction sees many records at once"):
        process(KeyedBatchFunction())

    class Joined(KeyedFunction):
        """A third kind."""

        undo_refusal = "two inputs are joined"

    monkeypatch.setitem(kinds.SPECS, Joined, dict)
    with pytest.raises(errors.SpecInvalid, match="of 'op': two inputs are joined"):
        process(Joined())
    assert kinds.named().endswith("or Joined")
    own = type("Own", (Joined,), {})()
    assert kinds.spec(own, uid="op") == {"function": own, "uid": "op"}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("rocksdb", EmbeddedRocksDBStateBackend),
        ("org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory", EmbeddedRocksDBStateBackend),
        ("org.apache.flink.runtime.state.filesystem.FsStateBackendFactory", HashMapStateBackend),
        (HashMapStateBackend(), HashMapStateBackend),
    ],
    ids=str,
)
def test_a_job_chooses_its_backend_by_object_or_by_a_name_of_any_age(given: Any, kind: type) -> None:
    assert isinstance(chosen(given), kind)


@pytest.mark.parametrize("given", [None, 5, "rocks"], ids=repr)
def test_what_names_no_backend_is_refused_with_the_choices(given: Any) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"HashMapStateBackend\(\)|must be hashmap or rocksdb"):
        chosen(given)


def chosen(given: Any) -> Any:
    found: list[Any] = []

    def job() -> None:
        stream.set_state_backend(given)
        found.append(graph.current().backend)

    try:
        graph.declare(job)
    except errors.SpecInvalid as error:
        if "no keyed operator" not in str(error):
            raise
    return found[0]


def unknown_type() -> None:
    ValueStateDescriptor("s", "long")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(unknown_type, id="a type that is none"),
        pytest.param(lambda: misspelt(), id="a wrong name"),  # type: ignore[name-defined] # noqa: F821, PLW0108
        pytest.param(lambda: __import__("no_such_module"), id="a wrong import"),
    ],
)
def test_what_every_start_of_the_job_would_say_again_is_a_declaration_error(mistake: Any) -> None:
    with pytest.raises(errors.DeclarationError, match="the job's function raised"):
        graph.declare(mistake)


@pytest.mark.parametrize("code", [0, 3, None])
def test_a_function_that_ends_the_process_has_not_declared_a_job(code: int | None) -> None:
    with pytest.raises(errors.UserCodeError, match=rf"called sys\.exit\({code}\)"):
        graph.declare(lambda: sys.exit(code))


def missing() -> None:
    raise FileNotFoundError("the input is not there yet")


def first_of_an_empty_table() -> None:
    first: Any = None
    print(first["limit"])


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        pytest.param(missing, FileNotFoundError, id="a file that is missing"),
        pytest.param(first_of_an_empty_table, TypeError, id="a table that is empty"),
        pytest.param(lambda: None.limit, AttributeError, id="a row that is none"),  # type: ignore[attr-defined]
    ],
)
def test_what_another_start_may_not_find_again_is_left_as_it_is(fault: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        graph.declare(fault)


class Finishing(KeyedProcessFunction):
    def finish(self) -> Any:
        yield (1,)


class Silent(KeyedProcessFunction):
    def finish(self) -> None:
        """Lets go of something."""


class Counting(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (len(list(elements)),)


class Pairs(ProcessJoinFunction):
    pass


class Timed(KeyedProcessFunction):
    """As windows of event time are."""

    @property
    def needs_event_time(self) -> bool:
        return True


def chain(*functions: KeyedFunction, event_time: str | None = None, tag: str | None = None) -> graph.Graph:
    """Operators one behind the other; the last one reads ``event_time`` of the output ``tag`` before it."""
    declared, before = graph.Graph(), None
    for number, function in enumerate(functions):
        is_last = number == len(functions) - 1
        upstream = None if before is None else (before, tag if is_last else None)
        declared.add(
            graph.Operator(
                uid=f"op-{number}",
                function=function,
                keys=("k",),
                upstream=upstream,
                event_time="at" if before is None else event_time if is_last else None,
                output_schema="k string",
                error_tag=OutputTag("errors"),
                late_tag=OutputTag("late"),
            )
        )
        before = f"op-{number}"
    return declared


@pytest.mark.parametrize("between", [0, 2], ids=["directly", "behind two others"])
def test_rows_of_finish_before_a_function_that_needs_event_time_are_refused_with_both_names(
    between: int,
) -> None:
    functions = [Finishing(), *(Silent() for _ in range(between)), Timed()]
    with pytest.raises(
        errors.SpecInvalid, match=rf"'op-{between + 1}' needs the event time.*finish\(\) of 'op-0' yields? "
    ):
        chain(*functions)


def test_rows_of_finish_reach_a_side_output_that_the_function_writes_and_not_those_of_the_engine() -> None:
    with pytest.raises(
        errors.SpecInvalid, match=r"'op-1' needs the event time.*finish\(\) of 'op-0' yields? "
    ):
        chain(Finishing(), Timed(), tag="side")
    with pytest.raises(errors.SpecInvalid, match=r"finish\(\) of 'op-0' yields? "):
        chain(Finishing(), Silent(), Timed(), tag="errors")
    assert chain(Finishing(), Timed(), tag="errors")
    assert chain(Finishing(), Silent(), Timed(), tag="late")


def test_rows_of_finish_may_have_a_column_of_event_time_or_go_past_it() -> None:
    assert chain(Finishing(), Timed(), event_time="at")
    assert chain(Silent(), Timed())
    assert chain(Timed(), Finishing(), Silent())


def test_windows_of_event_time_and_joins_need_it_and_windows_of_processing_time_do_not() -> None:
    ended = operation.over(TumblingEventTimeWindows.of(5)).process(Counting(), element_type=Types.LONG())
    clocked = operation.over(TumblingProcessingTimeWindows.of(5)).process(
        Counting(), element_type=Types.LONG()
    )
    side = JoinSide(row_type=Types.ROW_NAMED(["v"], [Types.LONG()]), late=None, least=0, most=1)
    assert (ended.needs_event_time, clocked.needs_event_time) == (True, False)
    assert IntervalJoin(Pairs(), side, side).needs_event_time


@pytest.mark.parametrize("nothing", [0, "0 seconds", -1])
def test_an_idle_timeout_that_would_stop_the_watermark_for_ever_is_refused(nothing: int | str) -> None:
    frame: Any = SimpleNamespace()
    told = rf"keyed\(idle_timeout=…\) is {nothing!r}; it must be longer than 0 ms"
    with pytest.raises(errors.SpecInvalid, match=told):
        graph.declare(lambda: stream.keyed(frame, "k", idle_timeout=nothing))
