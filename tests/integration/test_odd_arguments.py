"""Whatever the methods of streams are given works, or is refused with the argument, its value and a remedy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.spark import spark_session

import sparkstate
from sparkstate import MapStateDescriptor, OutputTag, Types, errors
from sparkstate.durations import Time
from sparkstate.functions import KeyedProcessFunction
from sparkstate.spark import graph, planning

pytestmark = pytest.mark.spark
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
ROWS = "k string, v double, at timestamp, n array<int>"


class Nothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return None


class Pairs(sparkstate.ProcessJoinFunction):
    pass


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 5),
    st.floats(),
    st.text(max_size=8),
    st.timedeltas(),
    st.builds(Time, st.integers()),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(
        ["k", "v", "at", "n", "5 s", "k string", {"v": "sum"}, Nothing, Nothing(), Pairs(), min, RULES]
    ),
    st.just(OutputTag("late", "k string")),
)
REMEDY = re.compile(r"\b(must|give|write|pass|swap|use|create|needs?)\b", re.IGNORECASE)


def files(folder: Any) -> DataFrame:
    reader = spark_session.get().readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


@dataclass
class Streams:
    """What a job has declared, for calls of methods."""

    left: Any
    right: Any
    rules: Any
    processed: Any
    numbers: Any = field(default_factory=itertools.count)

    def uid(self) -> str:
        return f"u{next(self.numbers)}"

    def join(self) -> Any:
        return self.left.interval_join(self.right).between(0, 5)

    def map(self, **options: Any) -> Any:
        return self.left.map(repr, **{"uid": self.uid(), "output_schema": "k string", **options})


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Streams:
    made: list[Streams] = []

    def job() -> None:
        one, other, rules = (files(tmp_path_factory.getbasetemp()) for _ in range(3))
        left, right = (sparkstate.keyed(each.withWatermark("at", "1 second"), "k") for each in (one, other))
        processed = left.process(Nothing(), uid="first", output_schema="k string, at timestamp")
        processed.sink(lambda frame, epoch: None)
        made.append(Streams(left, right, sparkstate.broadcast(rules, RULES), processed))

    graph.declare(job)
    return made[0]


METHODS: dict[str, tuple[str, Callable[[Streams, Any], Any]]] = {
    "connect": ("connect(", lambda s, it: s.left.connect(it)),
    "connect without keys": ("connect(", lambda s, it: s.processed.connect(it)),
    "interval_join": ("interval_join(", lambda s, it: s.left.interval_join(it)),
    "lower": ("between(", lambda s, it: s.left.interval_join(s.right).between(it, "1 s")),
    "upper": ("between(", lambda s, it: s.left.interval_join(s.right).between(-5, it)),
    "late rows of a join": (
        "side_output_left_late_data(", lambda s, it: s.join().side_output_left_late_data(it),
    ),
    "other late rows of a join": (
        "side_output_right_late_data(", lambda s, it: s.join().side_output_right_late_data(it),
    ),
    "a join's function": (
        "process(", lambda s, it: s.join().process(it, uid=s.uid(), output_schema="k string"),
    ),
    "sum": ("sum(", lambda s, it: s.left.sum(it, uid=s.uid())),
    "min": ("min(", lambda s, it: s.left.min(it, uid=s.uid())),
    "max": ("max(", lambda s, it: s.left.max(it, uid=s.uid())),
    "map": ("map(", lambda s, it: s.left.map(it, uid=s.uid(), output_schema="k string")),
    "flat_map": ("flat_map(", lambda s, it: s.left.flat_map(it, uid=s.uid(), output_schema="k string")),
    "filter": ("filter(", lambda s, it: s.left.filter(it, uid=s.uid())),
    "reduce": ("reduce(", lambda s, it: s.left.reduce(it, uid=s.uid())),
    "uid": ("uid", lambda s, it: s.map(uid=it)),
    "output_schema": ("output_schema", lambda s, it: s.map(output_schema=it)),
    "on_error": ("on_error", lambda s, it: s.map(on_error=it)),
    "error_output": ("rejected rows", lambda s, it: s.map(on_error="side-output", error_output=it)),
    "late_output": ("late rows", lambda s, it: s.map(late_output=it)),
    "keys of an output": ("key", lambda s, it: s.processed.keyed(it)),
    "event time of an output": ("event_time", lambda s, it: s.processed.keyed("k", event_time=it)),
    "side_output": ("side_output(", lambda s, it: s.processed.side_output(it)),
    "event time of a broadcast output": (
        "event_time", lambda s, it: s.processed.broadcast(RULES, event_time=it),
    ),
    "states of a broadcast output": ("broadcast(", lambda s, it: s.processed.broadcast(it)),
}  # fmt: skip
"""What a refusal has to name, and a call of which one argument is whatever comes."""


@pytest.mark.parametrize("call", METHODS)
@settings(max_examples=50, deadline=None)
@given(it=ANYTHING)
def test_a_method_works_or_names_the_argument_its_value_and_a_remedy(
    streams: Streams, call: str, it: Any
) -> None:
    named, method = METHODS[call]
    check(named, it, lambda: method(streams, it))


def check(named: str, it: Any, attempt: Callable[[], Any]) -> None:
    try:
        attempt()
    except errors.SpecInvalid as refused:
        message = str(refused)
        assert named in message
        assert repr(it) in message
        assert REMEDY.search(message), message
        assert len(message) < 500


DECLARATIONS: dict[str, tuple[str, Callable[[DataFrame, Any], Any]]] = {
    "keys": ("key", sparkstate.keyed),
    "event_time": ("event_time", lambda df, it: sparkstate.stream(df, event_time=it)),
    "delay": ("delay", lambda df, it: sparkstate.keyed(df, "k", event_time="at", delay=it)),
    "idle_timeout": (
        "idle_timeout", lambda df, it: sparkstate.broadcast(df, RULES, event_time="at", idle_timeout=it),
    ),
    "watermark_partition": (
        "watermark_partition",
        lambda df, it: sparkstate.broadcast(df, RULES, event_time="at", watermark_partition=it),
    ),
    "states": ("broadcast(", sparkstate.broadcast),
}  # fmt: skip


@pytest.mark.parametrize("call", DECLARATIONS)
@settings(max_examples=15, deadline=None)
@given(it=ANYTHING)
def test_an_input_is_declared_or_names_the_argument_its_value_and_a_remedy(
    frames: tuple[DataFrame, DataFrame], call: str, it: Any
) -> None:
    named, declaration = DECLARATIONS[call]

    def job() -> None:
        declaration(frames[0], it)
        operator = sparkstate.keyed(frames[1], "k").process(Nothing(), uid="u", output_schema="k string")
        operator.sink(lambda frame, epoch: None)

    check(named, it, lambda: graph.declare(job))


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    folder = tmp_path_factory.getbasetemp()
    return files(folder), files(folder)


def test_a_keyed_stream_is_not_joined_with_a_broadcast_one(streams: Streams) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"interval_join\(BroadcastStream\(.*pass a keyed stream"):
        streams.left.interval_join(streams.rules)


def test_a_field_is_told_as_its_author_wrote_it_with_the_name_of_its_column(streams: Streams) -> None:
    assert streams.left.max(2, uid="by-place") is not None
    for given_field in (3, "n"):
        told = re.escape(
            f"max({given_field!r}) of 'newest': column 'n' is array<int>; give a column of numbers"
        )
        with pytest.raises(errors.SpecInvalid, match=told):
            streams.left.max(given_field, uid="newest")


TIMES = {
    "two columns": (("at", "seen"), "'at', 'seen'"),
    "the second without": (("at", None), "'at', none"),
    "the first without": ((None, "at"), "none, 'at'"),
}


@pytest.mark.parametrize("call", [sparkstate.keyed, sparkstate.stream, sparkstate.broadcast])
@pytest.mark.parametrize("case", TIMES)
def test_the_rows_of_one_input_have_one_column_of_event_time(tmp_path: Any, call: Any, case: str) -> None:
    """The others were stamped by the column of the first, or held the watermark back for ever."""
    columns, told = TIMES[case]
    arguments = {sparkstate.keyed: ("k",), sparkstate.stream: (), sparkstate.broadcast: (RULES,)}[call]

    def job() -> None:
        frames = [files(tmp_path).withColumn("seen", F.col("at")) for _ in columns]
        timed = [
            frame if column is None else frame.withWatermark(column, "1 minute")
            for frame, column in zip(frames, columns, strict=True)
        ]
        call(timed, *arguments)

    with pytest.raises(
        errors.SpecInvalid, match=rf"{call.__name__}\(\[…\]\) .* differ: {told}, in their order; call"
    ):
        graph.declare(job)


def test_rejected_rows_have_one_column_error(tmp_path: Any) -> None:
    """With two, JSON kept the engine's text alone, and Spark could not read the Parquet files."""

    def job() -> None:
        renamed = files(tmp_path).withColumnRenamed("v", "Error")
        made = sparkstate.keyed(renamed, "k").process(
            Nothing(), uid="u", output_schema="k string", on_error="side-output"
        )
        made.sink(lambda frame, epoch: None)
        made.side_output(OutputTag("errors")).sink(sparkstate.FileSink(str(tmp_path / "errors")))

    declared = graph.declare(job)
    with pytest.raises(
        errors.SpecInvalid, match=r"'u': its input has a column 'Error'.* rename the input's column"
    ):
        planning.check_files(declared)


def test_a_schema_with_a_column_twice_is_refused(tmp_path: Any) -> None:
    def job() -> None:
        keyed = sparkstate.keyed(files(tmp_path), "k")
        keyed.process(Nothing(), uid="u", output_schema="a int, b int, a int").sink(lambda frame, epoch: None)

    with pytest.raises(errors.SpecInvalid, match="has the column 'a' more than once"):
        graph.declare(job)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("kafka", r"spark\.jars\.packages: 'org\.apache\.spark:spark-sql-kafka-0-10_2\.13:\d"),
        (
            "parqet",
            r"parqet\..* \([\w/]*test_odd_arguments\.py:\d+ in job\); correct the format's name, or name its package",
        ),
    ],
)
def test_a_format_that_spark_lacks_ends_the_job_with_the_setting_that_brings_it(kind: str, told: str) -> None:
    def job() -> None:
        spark_session.get().readStream.format(kind).load()

    with pytest.raises(errors.DeclarationError, match=told) as refused:
        graph.declare(job)
    assert "\n" not in str(refused.value)


def test_a_path_that_does_not_exist_may_be_there_at_the_next_start(tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        graph.declare(lambda: spark_session.get().readStream.schema(ROWS).parquet(str(tmp_path / "later")))


def test_an_error_of_javas_in_the_jobs_function_stays_as_it_is() -> None:
    """py4j says of every name that an object of Java's has such a member."""
    with pytest.raises(Py4JJavaError, match="Input path does not exist"):
        graph.declare(lambda: spark_session.get().sparkContext.textFile("/nowhere").count())
