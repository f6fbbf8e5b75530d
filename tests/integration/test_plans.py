"""What is read off Spark's plans: refusals with their reasons, event time, key groups by golden vectors."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.spark import spark_session

import sparkstate
from sparkstate import MapStateDescriptor, Types, ValueStateDescriptor, columns, errors
from sparkstate.durations import Time
from sparkstate.functions import KeyedProcessFunction
from sparkstate.keygroups import KeySpace
from sparkstate.spark import graph, planning, plans

pytestmark = pytest.mark.spark

GOLDEN: list[tuple[str, Any, int]] = [
    ("string", "", 4),
    ("string", "N14228", 13),
    ("string", "ä", 41),
    ("string", None, 42),
    ("bigint", 0, 108),
    ("bigint", 1, 50),
    ("bigint", -1, 82),
    ("bigint", 2**63 - 1, 6),
    ("bigint", None, 42),
    ("int", 1, 41),
    ("boolean", True, 41),
    ("boolean", False, 115),
    ("double", 0.0, 108),
    ("double", -0.0, 108),
    ("double", float("nan"), 50),
    ("double", 1.5, 54),
    ("decimal(10,2)", decimal.Decimal("1.50"), 55),
    ("decimal(38,10)", decimal.Decimal("1.5"), 123),
    ("date", datetime.date(2013, 1, 1), 105),
    ("timestamp", datetime.datetime(2013, 1, 1, 10, 0, tzinfo=datetime.UTC), 53),
    ("binary", b"\x00\xff", 34),
]


def row_id(case: Any) -> str:
    return str(case)


@pytest.mark.parametrize(("kind", "value", "group"), GOLDEN, ids=row_id)
def test_a_key_belongs_to_the_key_group_of_the_golden_vectors(kind: str, value: Any, group: int) -> None:
    session = spark_session.get()
    frame = session.createDataFrame([(value,)], f"k {kind}")
    key = plans.canonical_key("k", frame.schema["k"].dataType)
    assert frame.select(plans.key_group([key], 128).alias("g")).first().g == group


def test_the_golden_vectors_are_those_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    for kind, value, group in GOLDEN:
        assert f"| `{kind}` | `{value!r}` | {group} |" in page


def test_every_nan_and_both_zeros_are_one_key() -> None:
    session = spark_session.get()
    frame = session.sql("SELECT explode(array(double('NaN'), -double('NaN'), sqrt(double(-1)))) AS k")
    keys = frame.select(
        plans.key_group([plans.canonical_key("k", T.DoubleType())], 32768).alias("g")
    ).distinct()
    assert keys.count() == 1


@pytest.mark.parametrize(("shards", "slots"), [(16, 1), (16, 3), (16, 16), (100, 7)])
def test_spark_and_python_agree_which_slot_owns_a_key_group(shards: int, slots: int) -> None:
    space = KeySpace(128, shards)
    frame = spark_session.get().range(128).select(plans.slot_of(F.col("id"), 128, shards, slots).alias("s"))
    computed = [row.s for row in frame.collect()]
    assert computed == [space.slot_of_shard(space.shard_of_key_group(g), slots) for g in range(128)]


def files(folder: Path, **options: str) -> DataFrame:
    reader = spark_session.get().readStream.schema("k string, v double, at timestamp, n array<int>")
    return reader.options(**({"maxFilesPerTrigger": "1"} | options)).parquet(str(folder))


class Nothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return None


def finish(stream: Any) -> None:
    stream.process(Nothing(), uid="u", output_schema="k string").sink(lambda df, epoch: None)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Pairs(sparkstate.ProcessJoinFunction):
    pass


def connected(folder: Path) -> Any:
    one, other = (sparkstate.keyed(files(folder), "k") for _ in range(2))
    return one.connect(other)


Declare = Callable[[Path], None]
REFUSED: dict[str, tuple[Declare, str]] = {
    "batch DataFrame": (lambda p: finish(sparkstate.keyed(spark_session.get().range(1), "id")), "readStream"),
    "no DataFrame": (lambda p: finish(sparkstate.keyed("nothing", "k")), "needs a streaming DataFrame"),
    "no bound": (lambda p: finish(sparkstate.keyed(unbounded(p), "k")), "no bound per epoch"),
    "a bound that is misspelt": (
        lambda p: finish(sparkstate.keyed(unbounded(p, maxFilePerTrigger="1"), "k")),
        "maxFilePerTrigger is not an option of 'parquet'; did you mean maxFilesPerTrigger?",
    ),
    "sorted": (lambda p: finish(sparkstate.keyed(files(p).sort("v"), "k")), "Spark cannot sort a stream"),
    "cleanSource": (
        lambda p: finish(sparkstate.keyed(files(p, cleanSource="delete"), "k")),
        "cleanSource='delete'",
    ),
    "rate": (lambda p: finish(sparkstate.keyed(rate(), "value")), "'rate' is refused"),
    "aggregation": (
        lambda p: finish(sparkstate.keyed(files(p).groupBy("k").count(), "k")),
        "stateful operator Aggregate",
    ),
    "deduplication": (
        lambda p: finish(sparkstate.keyed(files(p).dropDuplicates(["k"]), "k")),
        "stateful operator",
    ),
    "unknown key": (lambda p: finish(sparkstate.keyed(files(p), "kk")), "key column 'kk' is not in the data"),
    "array key": (lambda p: finish(sparkstate.keyed(files(p), "n")), "keys are strings, numbers"),
    "no key": (lambda p: finish(sparkstate.keyed(files(p), [])), "at least one key column"),
    "event time of no timestamp": (
        lambda p: finish(sparkstate.keyed(files(p), "k", event_time="v", delay="1 second")),
        "must be a timestamp",
    ),
    "parts of a source without event time": (
        lambda p: finish(sparkstate.keyed(files(p), "k", watermark_partition="k")),
        "watermark_partition=['k']) needs an event time",
    ),
    "parts of a source by an unknown column": (
        lambda p: finish(sparkstate.keyed(files(p), "k", event_time="at", watermark_partition=["k", "p"])),
        "the DataFrame has no column 'p'",
    ),
    "parts of a source by a double": (
        lambda p: finish(sparkstate.keyed(files(p), "k", event_time="at", watermark_partition="v")),
        "must be a string or a whole number",
    ),
    "delay without event time": (
        lambda p: finish(sparkstate.keyed(files(p), "k", delay="1 second")),
        "needs event_time",
    ),
    "wrong delay": (
        lambda p: finish(sparkstate.keyed(files(p), "k", event_time="at", delay="soon")),
        "write a duration such as",
    ),
    "lost event time": (
        lambda p: finish(sparkstate.keyed(files(p).withWatermark("at", "1 hour").drop("at"), "k")),
        "no longer has",
    ),
    "reserved column": (
        lambda p: finish(sparkstate.keyed(files(p).withColumnRenamed("v", "__sparkstate_kg"), "k")),
        "are reserved",
    ),
    "wrong schema": (
        lambda p: sparkstate.keyed(files(p), "k").process(Nothing(), uid="u", output_schema="k strin g"),
        "which Spark cannot parse",
    ),
    "wrong uid": (
        lambda p: sparkstate.keyed(files(p), "k").process(Nothing(), uid="a b", output_schema="k string"),
        "letters, digits",
    ),
    "class instead of object": (
        lambda p: sparkstate.keyed(files(p), "k").process(Nothing, uid="u", output_schema="k string"),
        "create an instance",
    ),
    "same uid twice": (
        lambda p: [finish(sparkstate.keyed(files(p), "k")) for _ in range(2)],
        "two operators",
    ),
    "connected with a DataFrame": (
        lambda p: sparkstate.keyed(files(p), "k").connect(files(p)),
        "pass a keyed stream",
    ),
    "connected by keys of other types": (
        lambda p: sparkstate.keyed(files(p), "k").connect(sparkstate.keyed(files(p), "v")),
        "key column 'k' of the first stream is string, and 'v' of the second is double; cast",
    ),
    "connected by more keys": (
        lambda p: sparkstate.keyed(files(p), "k").connect(sparkstate.keyed(files(p), ["k", "v"])),
        "keyed by ['k'] and the second by ['k', 'v']",
    ),
    "a function of one input on two": (
        lambda p: connected(p).process(Nothing(), uid="u", output_schema="k string"),
        "is not a KeyedCoProcessFunction object; it runs on one keyed stream",
    ),
    "a function of two inputs on one": (
        lambda p: sparkstate.keyed(files(p), "k").process(
            sparkstate.KeyedCoProcessFunction(), uid="u", output_schema="k string"
        ),
        "is not a KeyedProcessFunction or KeyedBatchFunction object; it runs on two keyed streams",
    ),
    "one tag for the late rows of two inputs": (
        lambda p: connected(p).process(
            sparkstate.KeyedCoProcessFunction(),
            uid="u",
            output_schema="k string",
            late_output1=sparkstate.OutputTag("late"),
            late_output2=sparkstate.OutputTag("late"),
        ),
        "both have the tag 'late'",
    ),
    "two inputs sorted by no event time": (
        lambda p: connected(p).process(
            sparkstate.KeyedCoProcessFunction(), uid="u", output_schema="k string", sort_by_event_time=True
        ),
        "needs an event time",
    ),
    "a batch DataFrame to broadcast": (
        lambda p: sparkstate.broadcast(
            spark_session.get().range(1), MapStateDescriptor("s", Types.LONG(), Types.LONG())
        ),
        "sparkstate.broadcast got a batch DataFrame",
    ),
    "broadcast without states": (
        lambda p: sparkstate.keyed(files(p), "k").connect(sparkstate.broadcast(files(p))),
        "names the states []; give it at least one MapStateDescriptor",
    ),
    "broadcast with a value state": (
        lambda p: sparkstate.broadcast(files(p), ValueStateDescriptor("s", Types.LONG())),  # type: ignore[arg-type]
        "broadcast state is a map; pass a MapStateDescriptor",
    ),
    "a function of two keyed streams on a broadcast one": (
        lambda p: (
            sparkstate.keyed(files(p), "k")
            .connect(sparkstate.broadcast(files(p), RULES))
            .process(sparkstate.KeyedCoProcessFunction(), uid="u", output_schema="k string")
        ),
        "is not a KeyedBroadcastProcessFunction object; it runs on two keyed streams",
    ),
    "a stream without keys and a keyed one": (
        lambda p: sparkstate.stream(files(p)).connect(sparkstate.keyed(files(p), "k")),  # type: ignore[arg-type]
        "of a stream without keys: pass broadcast(…), or key both streams",
    ),
    "a function with keys on a stream without": (
        lambda p: (
            sparkstate.stream(files(p))
            .connect(sparkstate.broadcast(files(p), RULES))
            .process(sparkstate.KeyedBroadcastProcessFunction(), uid="u", output_schema="k string")
        ),
        "is not a BroadcastProcessFunction object; it runs on a keyed stream and a broadcast one",
    ),
    "a function without keys on a keyed stream": (
        lambda p: (
            sparkstate.keyed(files(p), "k")
            .connect(sparkstate.broadcast(files(p), RULES))
            .process(sparkstate.BroadcastProcessFunction(), uid="u", output_schema="k string")
        ),
        "is not a KeyedBroadcastProcessFunction object; it runs on a stream without keys and a broadcast one",
    ),
    "a batch DataFrame without keys": (
        lambda p: sparkstate.stream(spark_session.get().range(1)),
        "sparkstate.stream got a batch DataFrame",
    ),
    "a negative delay": (
        lambda p: sparkstate.keyed(files(p), "k", event_time="at", delay=Time.seconds(-1)),
        "keyed(delay=…) is Time(-1000 ms); it must be 0 ms or more",
    ),
    "a join without event time": (
        lambda p: (
            sparkstate.keyed(files(p), "k")
            .interval_join(sparkstate.keyed(files(p), "k"))
            .between(0, 1)
            .process(Pairs(), uid="u", output_schema="k string")
        ),
        "interval_join of 'u': the left stream has no event time",
    ),
    "a join between bounds the wrong way round": (
        lambda p: (
            sparkstate.keyed(files(p), "k")
            .interval_join(sparkstate.keyed(files(p), "k"))
            .between("5 s", "-1 minute")
        ),
        "the lower bound lies above the upper one",
    ),
    "a join by a bound that is none": (
        lambda p: (
            sparkstate.keyed(files(p), "k").interval_join(sparkstate.keyed(files(p), "k")).between("soon", 5)
        ),
        "between(lower) is 'soon'; write a duration such as",
    ),
    "a join by a function of another kind": (
        lambda p: (
            sparkstate.keyed(files(p), "k")
            .interval_join(sparkstate.keyed(files(p), "k"))
            .between(0, 5)
            .process(Nothing(), uid="u", output_schema="k string")  # type: ignore[arg-type]
        ),
        "is not a ProcessJoinFunction object",
    ),
    "a sum of text": (
        lambda p: sparkstate.keyed(files(p), "v").sum("k", uid="u"),
        "sum('k') of 'u': column 'k' is string; give a column of numbers",
    ),
    "a sum of the key": (lambda p: sparkstate.keyed(files(p), "k").sum("k", uid="u"), "is a key column"),
    "a sum of nothing": (
        lambda p: sparkstate.keyed(files(p), "k").sum(9, uid="u"),
        "there is no such column; the columns are ['k', 'v', 'at', 'n'], from 0",
    ),
    "a reduce of maps": (
        lambda p: sparkstate.keyed(files(p).selectExpr("k", "map(k, v) m"), "k").reduce(max, uid="u"),
        "reduce() of 'u': it keeps rows in state, and column 'm' is map<string,double>",
    ),
    "a filter by a number": (
        lambda p: sparkstate.keyed(files(p), "k").filter(5, uid="u"),  # type: ignore[arg-type]
        "filter(5): pass a function, or a FilterFunction object",
    ),
    "no sink": (
        lambda p: sparkstate.keyed(files(p), "k").process(Nothing(), uid="u", output_schema="k string"),
        "has no sink",
    ),
    "no operator": (lambda p: None, "declared no keyed operator"),
    "sink of no kind": (
        lambda p: (
            sparkstate.keyed(files(p), "k").process(Nothing(), uid="u", output_schema="k string").sink(5)
        ),
        "pass FileSink",
    ),
    "side output without schema": (
        lambda p: (
            sparkstate.keyed(files(p), "k")
            .process(Nothing(), uid="u", output_schema="k string")
            .side_output(sparkstate.OutputTag("x"))
        ),
        "needs a schema",
    ),
}


def unbounded(folder: Path, **options: str) -> DataFrame:
    return spark_session.get().readStream.schema("k string").options(**options).parquet(str(folder))


def rate() -> DataFrame:
    return spark_session.get().readStream.format("rate").load()


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_cannot_work_is_refused_with_a_sentence(case: str, tmp_path: Path) -> None:
    declare, message = REFUSED[case]
    with pytest.raises(errors.SpecInvalid) as refused:
        planning.operator_specs(graph.declare(lambda: declare(tmp_path)))
    assert message in str(refused.value)


def test_keyed_outside_of_a_job_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(errors.SpecInvalid, match="sparkstate run"):
        sparkstate.keyed(files(tmp_path), "k")


def test_event_time_comes_from_the_watermark_of_the_source(tmp_path: Path) -> None:
    declared = graph.declare(
        lambda: finish(sparkstate.keyed(files(tmp_path).withWatermark("at", "90 minutes"), "k"))
    )
    assert (declared.sources[0].event_time, declared.sources[0].delay_ms) == ("at", 90 * 60_000)


def test_several_sources_keep_a_watermark_each(tmp_path: Path) -> None:
    def job() -> None:
        one = files(tmp_path).withWatermark("at", "1 minute")
        other = files(tmp_path).withWatermark("at", "2 minutes")
        finish(sparkstate.keyed([one, other], "k", idle_timeout="5 seconds"))

    declared = graph.declare(job)
    assert [(s.delay_ms, s.idle_timeout_ms) for s in declared.sources] == [(60_000, 5000), (120_000, 5000)]


def test_float_keys_travel_in_a_hidden_canonical_column(tmp_path: Path) -> None:
    declared = graph.declare(lambda: finish(sparkstate.keyed(files(tmp_path), ["k", "v"])))
    (spec,) = planning.operator_specs(declared)
    assert spec.key_columns == ("k", "__sparkstate_key_1")
    assert spec.row_columns == ("k", "v", "at", "n")


def test_rows_behind_an_operator_can_be_sorted_by_the_times_that_they_carry(tmp_path: Path) -> None:
    def job() -> None:
        stamped = files(tmp_path).withWatermark("at", "1 second")
        first = sparkstate.keyed(stamped, "k").process(Nothing(), uid="a", output_schema="k string")
        second = first.keyed("k").process(
            Nothing(), uid="b", output_schema="k string", sort_by_event_time=True
        )
        second.sink(lambda frame, epoch: None)

    spec = planning.operator_specs(graph.declare(job))[1]
    assert (spec.sort_by_event_time, spec.event_time_column) == (True, columns.TIMESTAMP)
