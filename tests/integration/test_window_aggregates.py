"""Built-in aggregates of windows in whole jobs, beside Spark's own windows on the same rows; and what is refused."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from support.spark import spark_session
from support.windows import session_rows

import sparkstate
from sparkstate import errors
from sparkstate.control import documents
from sparkstate.functions import OutputTag
from sparkstate.phases import ProcessPhase
from sparkstate.spark import graph, planning
from sparkstate.windows import (
    CountEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from sparkstate_tools.drivers import driving, totals, window_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def spark() -> Any:
    """Columns can only be made beside a session."""
    return spark_session.get()


def spark_windows(folder: Path, keys: list[str], size: str, slide: str) -> list[dict[str, Any]]:
    """What Spark's own windows give for the same rows; first and last by event time, and by place within a file."""
    rows = spark_session.get().read.parquet(str(folder))
    window = F.window("at", size, slide)
    by_time = [
        F.min_by("v", "at").alias("first"),
        F.expr("max_by(v, at) filter (where v is not null)").alias("last"),
    ]
    made = rows.groupBy(*keys, window).agg(*window_rows.aggregates(), *by_time)
    bounds = [F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")]
    others = [f"`{name}`" for name in made.columns if name not in (*keys, "window")]
    return [row.asDict() for row in made.select(*keys, *bounds, *others).collect()]


def check_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]], keys: list[str]) -> None:
    """Equal, floating-point numbers up to rounding, distinct counts up to one in these small windows."""

    def by_window(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
        named = {(*(row[key] for key in keys), row["window_start"].timestamp()): row for row in rows}
        assert len(named) == len(rows)
        return named

    got, expected = by_window(found), by_window(wanted)
    assert got.keys() == expected.keys()
    for window, row in expected.items():
        for name, value in row.items():
            other = got[window][name]
            if isinstance(value, float) and other is not None:
                assert math.isclose(other, value, rel_tol=1e-9, abs_tol=1e-9), (window, name)
            elif name == "names":
                assert abs(other - value) <= 1
            elif name in ("window_start", "window_end", "newest"):
                assert other.timestamp() == value.timestamp(), (window, name)
            else:
                assert other == value, (window, name)


@pytest.mark.fault(
    broken="a slot is killed (SIGKILL)",
    when="in the phase {phase}, in which built-in aggregates put out windows",
    expected="the epoch is processed again; windows are those of Spark SQL",
)
@pytest.mark.parametrize(
    ("backend", "phase", "keys", "size", "slide"),
    [
        pytest.param(
            "hashmap", ProcessPhase.COMMIT, ["k", "n"], "5 seconds", "2 seconds", marks=pytest.mark.extra
        ),
        ("rocksdb", ProcessPhase.FINISH, ["n"], "4 seconds", "1 second"),  # its rows are combined
    ],
)
def test_a_killed_job_gives_what_sparks_windows_give(
    tmp_path: Path, backend: str, phase: ProcessPhase, keys: list[str], size: str, slide: str
) -> None:
    window_rows.make_input(tmp_path / "in", files=12)
    phases = "two" if backend == "rocksdb" else "auto"
    params = {"keys": ",".join(keys), "size": size, "slide": slide, "phases": phases}
    document = driving.manifest(
        tmp_path, "window_aggregates.py", params=params, stateBackend={"type": backend}
    )
    with driving.Driver(tmp_path, document) as driver:
        kill_in_epoch(driver, phase, 8)  # windows have begun to end
        driver.finish()
    found, wanted = totals.read(tmp_path / "out"), spark_windows(tmp_path / "in", keys, size, slide)
    if phases == "two":
        assert not {"first name", "names"} & found[0].keys()
        wanted = [{name: row[name] for name in found[0]} for row in wanted]
    check_same(found, wanted, keys)


def kill_in_epoch(driver: driving.Driver, phase: ProcessPhase, epoch: int, process: str = "slot-0") -> None:
    """SIGKILL the first slot, or one of Spark's Python workers, in a phase of this epoch, or of a later one if this one
    was over already."""
    while True:
        driver.hold(process, phase)
        pid = driver.held(process, phase)
        reached = [each["epoch"] for each in driver.phases() if each["process"] == process][-1]
        if reached >= epoch:
            os.kill(pid, signal.SIGKILL)
            driver.release()
            return
        driver.release(process)


@pytest.mark.extra
@pytest.mark.fault(
    broken="one of Spark's Python workers is killed (SIGKILL)",
    when="after it brought slots rows that Spark has combined, while windows end",
    expected="Spark runs the task again, and all combined rows go to a fresh attempt in the same epoch; no restart; "
    "windows are those of Spark SQL",
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_combined_rows_of_a_worker_that_dies_count_once(tmp_path: Path, backend: str) -> None:
    window_rows.make_input(tmp_path / "in", files=12)
    params = {"keys": "n", "size": "4 seconds", "slide": "1 second", "phases": "two"}
    document = driving.manifest(
        tmp_path, "window_aggregates.py", params=params, stateBackend={"type": backend}
    )
    with driving.Driver(tmp_path, document) as driver:
        kill_in_epoch(driver, ProcessPhase.FEED, 8, "worker")
        driver.finish()
    assert "its rows are brought again" in driver.log()
    assert {each["incarnation"] for each in driver.phases() if each["phase"] == "finish"} == {1}
    found, wanted = (
        totals.read(tmp_path / "out"),
        spark_windows(tmp_path / "in", ["n"], "4 seconds", "1 second"),
    )
    check_same(found, [{name: row[name] for name in found[0]} for row in wanted], ["n"])


def test_windows_go_on_from_savepoints_in_two_three_and_one_slots_and_other_windows_are_refused(
    tmp_path: Path,
) -> None:
    params = {"keys": "n", "size": "4 seconds", "slide": "1 second", "gap": f"{session_rows.GAP_MS} ms"}
    backends, slots, rows, savepoint = ("hashmap", "rocksdb", "hashmap"), (2, 3, 1), [], ""
    sessions = []
    for life in range(3):
        window_rows.make_input(tmp_path / "in", files=5, first=5 * life, seed=life)
        out = tmp_path / f"out-{life}"
        spec: dict[str, Any] = {
            "name": f"life-{life}",
            "slots": slots[life],
            "stateBackend": {"type": backends[life]},
            "params": {**params, "output": str(out)},
        }
        if life < 2:
            spec["trigger"] = {"processingTime": "100ms"}
        if savepoint:
            spec["restoreFrom"] = {"uri": savepoint}
        document = driving.manifest(tmp_path, "window_aggregates.py", **spec)
        with driving.Driver(tmp_path / f"life-{life}", document) as driver:
            if life < 2:
                savepoint = stop_half_way(driver, out, f"after-{life}")
            driver.finish()
        rows += totals.read(out)
        sessions += totals.read(out.with_name(out.name + "-sessions"))
    check_same(rows, spark_windows(tmp_path / "in", ["n"], "4 seconds", "1 second"), ["n"])
    assert sorted(map(repr, sessions)) == sorted(map(repr, session_rows.of(tmp_path / "in")))

    document["spec"]["params"]["slide"] = "2 seconds"
    document["metadata"]["name"] = "refused"
    with driving.Driver(tmp_path / "refused", document) as driver:
        assert driver.wait() == 3
    end = driver.end()
    assert end["reason"] == "StateMigrationError"
    assert "'windows' whose slide of windows was 1000 ms and is now 2000 ms" in end["message"]
    assert savepoint.rpartition("/")[2] in end["message"]


def wait_for_windows(driver: driving.Driver, out: Path) -> None:
    """Until the first ones are published."""
    driving.wait_for(lambda: bool(totals.read(out)), driving.PATIENCE_S, "windows", driver.process)


def stop_half_way(driver: driving.Driver, out: Path, trigger_id: str) -> str:
    """Stop with a savepoint when windows were put out; its URL."""
    wait_for_windows(driver, out)
    with driver.client() as client:
        client.trigger_savepoint(documents.SavepointRequest(trigger_id=trigger_id, stop=True))
        driver.finish()
    return str(driver.end()["savepoint"]["location"])


# --- what is declared, without running it


def windowed(tmp_path: Path, assigner: Any = None, keys: Any = "k", **choices: Any) -> Any:
    spark = spark_session.get()
    rows = spark.readStream.schema(
        window_rows.DDL + ", odd struct<a: int, b: string>, `a b` int, list array<int>"
    )
    rows = rows.option("maxFilesPerTrigger", 1).parquet(str(tmp_path)).withWatermark("at", "1 second")
    stream = sparkstate.keyed(rows, keys).window(assigner or TumblingEventTimeWindows.of("1 minute"))
    for name, value in choices.items():
        stream = getattr(stream, name)(value)
    return stream


def declared(tmp_path: Path, *exprs: Any, uid: str = "sums", **choices: Any) -> Any:
    """The spec of the operator in a slot."""

    def job() -> None:
        windowed(tmp_path, **choices).agg(*exprs, uid=uid).sink(lambda frame, epoch: None)

    return planning.operator_specs(graph.declare(job))[0]


def test_the_output_has_keys_bounds_and_sparks_names_and_types(tmp_path: Path) -> None:
    spec = declared(
        tmp_path, F.sum("d"), F.count("*"), F.max("odd.a").alias("m`x"), F.avg("v"), keys=["n", "k"]
    )
    assert [(field.name, str(field.type)) for field in spec.output_schema] == [
        ("n", "int64"),
        ("k", "string"),
        ("window_start", "timestamp[us, tz=UTC]"),
        ("window_end", "timestamp[us, tz=UTC]"),
        ("sum(d)", "decimal128(22, 2)"),
        ("count(1)", "int64"),
        ("m`x", "int32"),
        ("avg(v)", "double"),
    ]


def test_a_dict_of_names_gives_what_sparks_gives(tmp_path: Path) -> None:
    spec = declared(tmp_path, {"v": "sum", "*": "count", "x": "mean"})
    assert set(spec.output_schema.names[3:]) == {"sum(v)", "count(1)", "avg(x)"}


def test_only_columns_that_are_aggregated_are_shipped(tmp_path: Path) -> None:
    assert declared(tmp_path, F.sum("v"), F.sum(F.col("x") * 2)).row_columns == (
        "k",
        "v",
        "__sparkstate_value_0",
    )
    late = OutputTag("late")
    everything = declared(tmp_path, F.sum("v"), side_output_late_data=late).row_columns
    assert {"k", "n", "v", "x", "d", "s", "at", "odd", "a b", "list"} == set(everything)


def test_columns_are_found_by_names_in_other_case_as_spark_finds_them(tmp_path: Path) -> None:
    spec = declared(tmp_path, F.sum("V"), F.max("A b"), F.sum(F.col("X") * 2))
    assert spec.row_columns == ("k", "v", "a b", "__sparkstate_value_0")
    assert [output.column for output in spec.function._outputs] == ["v", "a b", "__sparkstate_value_0"]
    assert spec.output_schema.names[3:] == ["sum(V)", "max(A b)", "sum((X * 2))"]


def test_expressions_that_are_the_same_are_computed_once(tmp_path: Path) -> None:
    double = F.col("v") * 2
    spec = declared(tmp_path, F.sum(double).alias("a"), F.max(double).alias("b"), F.sum("a b").alias("c"))
    assert spec.row_columns == ("k", "a b", "__sparkstate_value_0")


def test_expressions_over_a_named_table_are_computed_from_rows_without_the_name(tmp_path: Path) -> None:
    reader = spark_session.get().readStream.schema(window_rows.DDL).option("maxFilesPerTrigger", 1)
    named = reader.parquet(str(tmp_path)).withWatermark("at", "1 second").alias("t")
    where = F.when(F.col("t.x") > F.lit(1), F.col("v") * 2)

    def job() -> None:
        windows = sparkstate.keyed(named, "k").window(TumblingEventTimeWindows.of("1 minute"))
        windows.agg(F.sum(where), uid="sums").sink(lambda frame, epoch: None)

    computed = graph.declare(job).operators["sums"].computed
    assert [sql for _, sql in computed] == ["CASE WHEN (`x` > CAST(1 AS DOUBLE)) THEN (`v` * 2) END"]


def python_twice() -> Any:
    return F.udf(lambda value: value * 2, "int")("v")


REFUSED: list[tuple[str, Any, str]] = [
    ("nothing", lambda: (), "give at least one aggregate"),
    ("a name", lambda: ("sum(v)",), "'sum\\(v\\)' is not an aggregate"),
    ("an empty dict", lambda: ({},), "{} is not an aggregate"),
    ("a dict of columns", lambda: ({"v": F.sum("v")},), "is not an aggregate"),
    ("a dict and a column", lambda: ({"v": "sum"}, F.sum("v")), "is not an aggregate"),
    ("a function", lambda: (F.sum,), "is not an aggregate"),
    ("None", lambda: (None,), "None is not an aggregate"),
    ("no aggregate", lambda: (F.lit(1),), "it is not an aggregate by itself"),
    ("a plain column", lambda: (F.col("v"),), "v"),
    ("computing with results", lambda: (F.sum("v") + 1,), "give aggregates alone"),
    ("an unknown column", lambda: (F.sum("none"),), "none"),
    ("an unknown function", lambda: ({"v": "total"},), "total"),
    ("distinct", lambda: (F.count_distinct("v"),), "DISTINCT is not possible in a window"),
    ("a filter", lambda: (F.expr("sum(v) filter (where v > 1)"),), "FILTER is not possible"),
    ("another aggregate", lambda: (F.collect_list("v"),), "collect_list is not possible in a window"),
    ("another sum", lambda: (F.try_sum("v"),), "try_sum is not possible in a window"),
    ("several columns", lambda: (F.expr("count(v, s)"),), "count of several columns"),
    ("an array", lambda: (F.first("list"),), "first of array<int> values"),
    ("a struct", lambda: (F.max("odd"),), "max of struct<a:int,b:string> values"),
    ("an interval", lambda: (F.max(F.expr("at - at")),), "max of interval .* values"),
    ("a UDF", lambda: (F.sum(python_twice()),), "make it a column of the DataFrame"),
    ("a subquery", lambda: (F.sum(F.expr("(select 1)")),), "make it a column of the DataFrame"),
    ("random numbers", lambda: (F.sum(F.rand()),), "on-deterministic"),
    ("a collation", lambda: (F.max(F.expr("collate(s, 'UTF8_LCASE')")),), "have the collation UTF8_LCASE"),
    ("a wide deviation", lambda: (F.approx_count_distinct("s", 0.5),), "approx_count_distinct"),
    ("a narrow deviation", lambda: (F.approx_count_distinct("s", 0.001),), "must lie between"),
    ("one name twice", lambda: (F.sum("v").alias("a"), F.max("v").alias("A")), "two columns of the result"),
    ("the key's name", lambda: (F.sum("v").alias("k"),), "two columns of the result are called 'k'"),
    ("a bound's name", lambda: (F.sum("v").alias("window_end"),), "two columns of the result"),
    ("a hidden name", lambda: (F.sum("v").alias("__sparkstate_ts"),), "are reserved"),
]


@pytest.mark.parametrize(
    ("exprs", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_aggregates_that_cannot_be_done_are_refused(tmp_path: Path, exprs: Any, message: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=message) as refused:
        declared(tmp_path, *exprs())
    assert "'sums'" in str(refused.value)


ODD = st.recursive(
    st.none()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(
        ["v", "*", "sum", "avg", "", "`", "v`", "odd", "odd.a", "a b", "count(1)", "__sparkstate_kg"]
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3) | st.just("v"), inner, max_size=2)
    ),
    max_leaves=3,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(exprs=st.lists(ODD, max_size=2))
def test_whatever_is_given_is_refused_with_a_sentence_or_works(tmp_path: Path, exprs: list[Any]) -> None:
    try:
        spec = declared(tmp_path, *exprs)
    except errors.SpecInvalid as refused:
        message = str(refused)
    else:
        message = f"agg(…) of {spec.uid!r} has {len(spec.output_schema)} columns"
    assert "agg(…) of 'sums'" in message


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"assigner": EventTimeSessionWindows.with_dynamic_gap(len)},
            r"needs TumblingEventTimeWindows, .* or EventTimeSessionWindows.with_gap.*: use aggregate",
        ),
        ({"assigner": ProcessingTimeSessionWindows.with_gap("1 minute")}, "needs TumblingEventTimeWindows"),
        ({"assigner": TumblingProcessingTimeWindows.of("1 minute")}, "needs TumblingEventTimeWindows"),
        ({"assigner": SlidingEventTimeWindows.of("1 day", "7 ms")}, "slices of 1 ms; at most"),
        ({"trigger": EventTimeTrigger.create()}, "trigger\\(.*\\) is not possible with it"),
        ({"evictor": CountEvictor.of(1)}, "evictor\\(.*\\) is not possible with it"),
        ({"uid": "no spaces"}, "agg\\(uid='no spaces'\\)"),
    ],
    ids=[
        "dynamic sessions",
        "sessions of processing time",
        "processing time",
        "too many slices",
        "a trigger",
        "an evictor",
        "the uid",
    ],
)
def test_windows_without_slices_are_refused(tmp_path: Path, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=message):
        declared(tmp_path, F.sum("v"), **choices)
