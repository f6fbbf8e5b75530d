"""Rows that Spark has combined before they reach a slot give the windows that the rows one by one give."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import functions as F
from support.spark import spark_session

import sparkstate
from sparkstate import columns, errors
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.functions import MIN_WATERMARK, OutputTag
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.epoch import commit_overlays
from sparkstate.spark import combining, graph, planning, shipping
from sparkstate.testing import ManualClock
from sparkstate.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

pytestmark = [pytest.mark.spark]

DDL = "k string, f double, v int, w long, x double, y float, d decimal(12,2), at timestamp, part int"
KEY_SPACE = KeySpace(16, 2)


@pytest.fixture(scope="module")
def spark() -> Any:
    return spark_session.get()


def aggregates() -> list[Any]:
    """All that Spark can combine, over each type of number."""
    made = [F.count("*"), F.count("v").alias("values"), F.sum(F.col("v") * 2).alias("twice")]
    of_numbers = (F.sum, F.avg, F.min, F.max, F.stddev, F.var_pop)
    made += [each(name).alias(f"{each.__name__}_{name}") for name in "vwxyd" for each in of_numbers]
    return [*made, F.max("at").alias("newest"), F.min(F.to_date("at")).alias("day")]


class Job:
    """A declared job with one operator of windows, its rows as slots get them, and the windows that come of them."""

    def __init__(
        self,
        folder: Path,
        assigner: Any,
        keys: list[str],
        parts: tuple[str, ...] = (),
        made: tuple[Any, ...] = (),
        phases: Any = "two",
    ) -> None:
        reader = spark_session.get().readStream.schema(DDL).option("maxFilesPerTrigger", 1)
        rows = reader.parquet(str(folder)).withWatermark("at", "0 seconds")
        self._keys = keys

        def declare() -> None:
            stream = sparkstate.keyed(rows, keys, watermark_partition=list(parts) or None).window(assigner)
            exprs = made or aggregates()
            stream.agg(*exprs, uid="windows", phases=phases).sink(lambda frame, epoch: None)

        declared = graph.declare(declare)
        self.spec = planning.operator_specs(declared)[0]
        self._shipping = shipping.Shipping(
            declared, declared.operators["windows"], KEY_SPACE.max_parallelism, [0]
        )

    def shipped(self, frame: Any, *, is_combined: bool) -> list[pa.RecordBatch]:
        rows = self._shipping.of_epoch(frame)
        return (self._shipping.combined(rows) if is_combined else rows).toArrow().to_batches()

    def windows(self, epochs: list[tuple[list[pa.RecordBatch], int]]) -> tuple[dict[Any, Any], int, int]:
        """The rows that are put out, by key and window; how many rows were counted, and how many were late."""
        factory = HashMapStoreFactory()
        groups = KEY_SPACE.key_groups_of_shard
        stores = {shard: factory.create(shard, groups(shard), Path("unused")) for shard in range(2)}
        operator = kinds.make(self.spec, stores, KEY_SPACE, ManualClock(), 0, 1)
        operator.open()
        before, found, rows_in, late = MIN_WATERMARK, {}, 0, 0
        for number, (batches, watermark) in enumerate(epochs):
            overlay = operator.begin(number, before, 0)
            for batch in batches:
                operator.process_batch(overlay, batch)
            operator.finish(overlay, watermark)
            for row in [row for each in overlay.output() for row in each.to_pylist()]:
                window = (*(repr(row.pop(key)) for key in self._keys), row["window_start"])
                found[number, *window] = row
            rows_in, late = rows_in + overlay.rows_in, late + overlay.late_rows
            commit_overlays([(operator, overlay)])
            before = watermark
        return found, rows_in, late


def random_rows(rng: random.Random, count: int, first_ms: int) -> list[tuple[Any, ...]]:
    def perhaps(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    def number() -> float:
        return rng.choice([rng.gauss(0, 1), 1e6, -0.0, 0.0, math.nan])

    return [
        (
            perhaps(f"key-{rng.randrange(5)}"),
            perhaps(rng.choice([0.0, -0.0, math.nan, 1.5])),
            perhaps(rng.randrange(-50, 50)),
            perhaps(rng.randrange(-(2**40), 2**40)),
            perhaps(number()),
            perhaps(rng.choice([0.5, -3.25])),
            perhaps(rng.randrange(-9_999_999, 9_999_999) / 100),
            first_ms + rng.randrange(-4000, 4000),
            rng.randrange(3),
        )
        for _ in range(count)
    ]


def frame_of(spark: Any, rows: list[tuple[Any, ...]]) -> Any:
    ddl = DDL.replace("at timestamp", "at long").replace("decimal(12,2)", "double")
    made = spark.createDataFrame(rows, ddl).withColumn("d", F.col("d").cast("decimal(12,2)"))
    return made.withColumn("at", F.timestamp_millis("at")).repartition(2)


def check_same(found: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    assert found.keys() == wanted.keys()
    for window, row in wanted.items():
        for name, value in row.items():
            other = found[window][name]
            if isinstance(value, float) and isinstance(other, float):
                is_same = math.isclose(other, value, rel_tol=1e-9, abs_tol=1e-9)
                assert is_same or (math.isnan(other) and math.isnan(value)), (window, name, other, value)
            else:
                assert other == value, (window, name)


@pytest.mark.parametrize(
    ("assigner", "keys"),
    [
        (TumblingEventTimeWindows.of("2 seconds", "700 milliseconds"), ["k"]),
        (SlidingEventTimeWindows.of("3 seconds", "2 seconds"), ["f", "k"]),
        (SlidingEventTimeWindows.of("1 second", "3 seconds"), ["v"]),
    ],
    ids=["tumbling with offset", "sliding, keys of two columns, one of floating point", "with gaps"],
)
def test_combined_rows_give_the_windows_of_rows_one_by_one(
    spark: Any, tmp_path: Path, assigner: Any, keys: list[str]
) -> None:
    job, rng = Job(tmp_path, assigner, keys), random.Random(7)
    # Times on both sides of 1970; the second epoch has rows that are late, and windows go on in the third.
    epochs = [
        (frame_of(spark, random_rows(rng, 300, first_ms)), watermark)
        for first_ms, watermark in ((-2000, -1500), (0, 1000), (3000, 5500), (5000, 100_000))
    ]
    one = [(job.shipped(frame, is_combined=False), watermark) for frame, watermark in epochs]
    two = [(job.shipped(frame, is_combined=True), watermark) for frame, watermark in epochs]
    wanted, rows, late = job.windows(one)
    found, counted, counted_late = job.windows(two)
    assert late > 0
    assert counted == rows == 1200
    if assigner.size >= assigner.slide:
        assert counted_late == late
    else:  # those of a gap are late by the time of the last of them
        assert 0 < counted_late <= late
    check_same(found, wanted)
    shipped = sum(batch.num_rows for batches, _ in two for batch in batches)
    assert shipped < 1200


def test_combined_rows_in_a_gap_are_late_if_the_last_of_them_is(spark: Any, tmp_path: Path) -> None:
    job = Job(tmp_path, SlidingEventTimeWindows.of("1 second", "3 seconds"), ["k"])
    times = [("a", 1100), ("a", 1900), ("b", 1100), ("b", 2100), ("c", 1100), ("c", 100)]
    values = random_rows(random.Random(1), len(times), 0)
    frame = frame_of(spark, [(key, *row[1:7], at, 0) for (key, at), row in zip(times, values, strict=True)])
    late = {}
    for is_combined in (False, True):
        for watermark in (1_000, 1_500, 1_900, 2_500):
            batches = job.shipped(frame, is_combined=is_combined)
            found, counted, late[is_combined, watermark] = job.windows([([], watermark), (batches, 9_000)])
            assert (counted, found) == (6, {})
    assert [late[False, at] for at in (1_000, 1_500, 1_900, 2_500)] == [1, 4, 5, 6]
    assert [late[True, at] for at in (1_000, 1_500, 1_900, 2_500)] == [1, 3, 5, 6]


def test_combined_rows_give_the_sessions_of_rows_one_by_one(spark: Any, tmp_path: Path) -> None:
    job, rng = Job(tmp_path, EventTimeSessionWindows.with_gap("150 milliseconds"), ["k"]), random.Random(9)
    # Times from 4 seconds before to 4 seconds after each; none behind the watermark, and sessions go on over epochs.
    epochs = [
        (frame_of(spark, random_rows(rng, 300, first_ms)), watermark)
        for first_ms, watermark in ((-2000, -1000), (3000, 3000), (7000, 100_000))
    ]
    wanted, rows, late = job.windows([(job.shipped(each, is_combined=False), to) for each, to in epochs])
    two = [(job.shipped(each, is_combined=True), to) for each, to in epochs]
    found, counted, counted_late = job.windows(two)
    assert (counted, counted_late) == (rows, late) == (900, 0)
    check_same(found, wanted)
    assert sum(batch.num_rows for batches, _ in two for batch in batches) < 800
    assert any(row["count(1)"] > 10 for row in found.values())


def test_a_combined_row_that_is_late_in_part_counts_as_if_its_last_row_had_come_first(
    spark: Any, tmp_path: Path
) -> None:
    job = Job(tmp_path, EventTimeSessionWindows.with_gap("100 milliseconds"), ["k"])
    # By the watermark 250, windows of rows up to 150 are over. That of 160 is not, and 110 touches it.
    times = [("a", 110), ("a", 160), ("b", 110), ("b", 140)]
    values = random_rows(random.Random(1), len(times), 0)
    rows = [(key, *row[1:7], at, 0) for (key, at), row in zip(times, values, strict=True)]
    batches = job.shipped(frame_of(spark, rows), is_combined=True)
    found, counted, late = job.windows([([], 250), (batches, 1_000)])
    assert (counted, late) == (4, 2)
    ((window, row),) = found.items()
    assert window[1] == "'a'"
    assert row["count(1)"] == 2


def test_combined_rows_keep_the_part_of_the_source_and_its_latest_time(spark: Any, tmp_path: Path) -> None:
    job = Job(tmp_path, TumblingEventTimeWindows.of("2 seconds"), ["k"], ("part",))
    rows = random_rows(random.Random(3), 200, 0)
    shipped = job.shipped(frame_of(spark, rows), is_combined=True)
    latest: dict[int, int] = {}
    for batch in shipped:
        for row in batch.to_pylist():
            latest[row["part"]] = max(row[columns.TIMESTAMP], latest.get(row["part"], row[columns.TIMESTAMP]))
    assert latest == {part: max(row[7] for row in rows if row[8] == part) for part in range(3)}


def test_keys_and_values_may_have_any_names(spark: Any, tmp_path: Path) -> None:
    ddl = "`k`` .` string, `v``` int, at long"
    reader = spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(tmp_path))

    def declare() -> None:
        stream = sparkstate.keyed(reader, "k` .", event_time="at").window(
            TumblingEventTimeWindows.of("1 second")
        )
        made = stream.agg(F.max("`v```").alias("m`"), F.sum("`V```").alias("s"), uid="windows", phases="two")
        made.sink(lambda frame, epoch: None)

    declared = graph.declare(declare)
    made = shipping.Shipping(declared, declared.operators["windows"], KEY_SPACE.max_parallelism, [0])
    (row,) = made.combined(made.of_epoch(spark.createDataFrame([("a", 3, 5), ("a", 4, 6)], ddl))).collect()
    assert (row["k` ."], row[columns.ROWS], row[columns.TIMESTAMP]) == ("a", 2, 6)
    assert (row[columns.part_of(0, 0)], row[columns.part_of(1, 0)]) == (4, 7)


def test_rows_without_time_are_refused_when_combined(spark: Any, tmp_path: Path) -> None:
    job = Job(tmp_path, TumblingEventTimeWindows.of("2 seconds"), ["k"])
    rows = [(*row[:7], None, 0) for row in random_rows(random.Random(3), 3, 0)]
    with pytest.raises(
        errors.UserCodeError,
        match=r"epoch 0, one of \d rows with the key ('key-\d'|None): .*a row without event time has no place",
    ):
        job.windows([(job.shipped(frame_of(spark, rows), is_combined=True), 0)])


def test_a_sum_that_overflows_in_spark_is_an_error_of_the_operator_with_a_remedy(
    spark: Any, tmp_path: Path
) -> None:
    job = Job(tmp_path, TumblingEventTimeWindows.of("2 seconds"), ["k"])
    rows = [("a", None, None, 2**63 - 1, None, None, None, 0, 0)] * 2
    overflow = r"operator 'windows', epoch 7: Spark could not add up its rows: .*ARITHMETIC_OVERFLOW.*; cast the column"
    with pytest.raises(errors.UserCodeError, match=overflow), combining.naming_overflows("windows", 7):
        job.shipped(frame_of(spark, rows), is_combined=True)


@pytest.mark.parametrize(
    ("kind", "phases"),
    [
        pytest.param("decimal(28,0)", "two", id="28 digits before the point, combined"),
        pytest.param("decimal(28,28)", "two", id="28 digits behind it, combined"),
        pytest.param("decimal(38,0)", "one", id="38 digits before the point"),
        pytest.param("decimal(38,37)", "one", id="37 digits behind it"),
        pytest.param("decimal(38,38)", "one", id="38 digits behind it"),
    ],
)
def test_sums_and_averages_of_long_decimals_are_those_of_spark(
    spark: Any, tmp_path: Path, kind: str, phases: str
) -> None:
    scale = kind.rstrip(")").split(",")[1]
    value = F.expr(f"cast(concat(w, 'e-{scale}') as {kind})")
    made = (F.sum(value).alias("total"), F.avg(value).alias("mean"), F.max(value).alias("most"))
    job = Job(tmp_path, SlidingEventTimeWindows.of("2 seconds", "1 second"), ["k"], made=made, phases=phases)
    epochs = [
        frame_of(spark, [("a", None, None, w, None, None, None, at, 0) for w, at in rows])
        for rows in ([(7, 100), (-2, 200), (None, 300)], [(4, 400), (5, 500)])
    ]
    shipped = [job.shipped(frame, is_combined=phases == "two") for frame in epochs]
    found, *_ = job.windows([(shipped[0], 350), (shipped[1], 1_500), ([], 9_000)])
    wanted = epochs[0].union(epochs[1]).groupBy("k").agg(*made).first().asDict()
    assert len(found) == 2
    for row in found.values():
        assert {name: row[name] for name in ("total", "mean", "most")} == {
            name: wanted[name] for name in ("total", "mean", "most")
        }


def test_an_error_of_the_job_s_own_query_is_not_told_as_one_of_its_sums(spark: Any) -> None:
    rows = spark.range(1).selectExpr("1 / id AS shares")
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"), combining.naming_overflows("windows", 7):
        rows.collect()


def declared(tmp_path: Path, *exprs: Any, phases: Any = "auto", late: OutputTag | None = None) -> Any:
    reader = spark_session.get().readStream.schema(DDL + ", s string, wide decimal(38,2)")
    reader = reader.option("maxFilesPerTrigger", 1)
    rows = reader.parquet(str(tmp_path)).withWatermark("at", "0 seconds")

    def declare() -> None:
        stream = sparkstate.keyed(rows, "k").window(TumblingEventTimeWindows.of("1 minute"))
        stream = stream if late is None else stream.side_output_late_data(late)
        stream.agg(*exprs, uid="windows", phases=phases).sink(lambda frame, epoch: None)

    return graph.declare(declare).operators["windows"].combining


ONE_BY_ONE = [F.max, F.first, F.last, F.approx_count_distinct]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("make", ONE_BY_ONE, ids=[each.__name__ for each in ONE_BY_ONE])
def test_rows_go_one_by_one_where_spark_cannot_combine_them(tmp_path: Path, make: Any) -> None:
    assert declared(tmp_path, F.sum("v"), make("s")) is None
    with pytest.raises(
        errors.SpecInvalid, match=r"phases='two'.*Spark cannot combine the values of .*'auto' or 'one'"
    ):
        declared(tmp_path, F.sum("v"), make("s"), phases="two")


@pytest.mark.usefixtures("spark")
def test_sums_that_may_overflow_within_an_epoch_go_one_by_one(tmp_path: Path) -> None:
    assert declared(tmp_path, F.sum("wide")) is None
    assert declared(tmp_path, F.avg("wide")) is None
    assert declared(tmp_path, F.max("wide")) is not None


@pytest.mark.usefixtures("spark")
def test_the_phases_are_checked_and_late_rows_go_one_by_one(tmp_path: Path) -> None:
    assert declared(tmp_path, F.sum("v"), phases="one") is None
    assert declared(tmp_path, F.sum("v")).is_forced is False
    assert declared(tmp_path, F.sum("v"), phases="two").is_forced is True
    assert declared(tmp_path, F.sum("v"), late=OutputTag("late")) is None
    with pytest.raises(errors.SpecInvalid, match="its late rows go to a side output"):
        declared(tmp_path, F.sum("v"), late=OutputTag("late"), phases="two")
    for wrong in ("three", None, 2, "TWO"):
        with pytest.raises(errors.SpecInvalid, match=r"agg\(phases=…\) of 'windows' is .*; choose 'auto'"):
            declared(tmp_path, F.sum("v"), phases=wrong)
