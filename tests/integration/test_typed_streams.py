"""The functions that ``sparkstate.testing.keyed`` makes from types are those that a job has on Spark's columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from support.spark import spark_session

import sparkstate
from sparkstate import OutputTag, Types, testing
from sparkstate.keyed_functions.rolling import RollingRows
from sparkstate.spark import graph
from sparkstate.windows import EventTimeSessionWindows, SlidingEventTimeWindows

pytestmark = [pytest.mark.spark]
COLUMNS = {
    "k": ("string", Types.STRING()),
    "v": ("int", Types.INT()),
    "w": ("bigint", Types.LONG()),
    "x": ("double", Types.DOUBLE()),
    "y": ("float", Types.FLOAT()),
    "d": ("decimal(38,18)", Types.BIG_DEC()),
    "b": ("binary", Types.PRIMITIVE_ARRAY(Types.BYTE())),
    "ok": ("boolean", Types.BOOLEAN()),
    "day": ("date", Types.SQL_DATE()),
    "at": ("timestamp", Types.INSTANT()),
}
WINDOWS = SlidingEventTimeWindows.of("1 hour", "1 minute", "7 s")
TEXTS = [
    "count(*)", "count(b)", "sum(v)", "sum(w)", "sum(x)", "sum(y)", "sum(d)", "avg(v)", "mean(x)", "avg(d)",
    "min(v)", "min(y)", "max(d)", "max(k)", "min(day)", "max(at)", "max(ok)", "first(b)", "first(v, true)",
    "last(k)", "last(k, true)", "stddev(x)", "stddev_samp(x)", "stddev_pop(x)", "variance(x)", "var_samp(x)",
    "var_pop(x)", "approx_count_distinct(k)", "approx_count_distinct(v, 0.1)",
]  # fmt: skip
"""Deviations of floating-point numbers: of others, Spark casts the column, and the harness does without."""


def same(folder: Path, in_a_job: Callable[[Any], Any], in_a_test: Callable[[Any], Any]) -> None:
    """The function that a job declares, attribute by attribute, is the one of the test."""
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    reader = spark_session.get().readStream.schema(ddl).option("maxFilesPerTrigger", 1)

    def job() -> None:
        frame = reader.parquet(str(folder)).withWatermark("at", "1 second")
        in_a_job(sparkstate.keyed(frame, "k")).sink(lambda rows, epoch: None)

    wanted: Any = graph.declare(job).operators["u"].function
    if isinstance(wanted, RollingRows):  # a test does not know how many digits a decimal column has
        wanted._rolling = dataclasses.replace(wanted._rolling, decimals=None)
    row_type = Types.ROW_NAMED(list(COLUMNS), [kind for _, kind in COLUMNS.values()])
    made = in_a_test(testing.keyed(row_type, "k"))
    assert type(made) is type(wanted)
    assert vars(made) == vars(wanted)


@pytest.mark.parametrize(
    "windows", [WINDOWS, EventTimeSessionWindows.with_gap("1 minute")], ids=["sliding", "sessions"]
)
def test_aggregates_from_texts_are_those_of_columns(tmp_path: Path, windows: Any) -> None:
    late = OutputTag("late")
    names = {f"r{number}": text for number, text in enumerate(TEXTS)}
    same(
        tmp_path,
        lambda s: (
            s.window(windows)
            .allowed_lateness("5 s")
            .side_output_late_data(late)
            .agg(*(F.expr(text).alias(name) for name, text in names.items()), uid="u")
        ),
        lambda s: s.window(windows).allowed_lateness("5 s").side_output_late_data(late).agg(**names),
    )


@pytest.mark.parametrize("how", ["sum", "min", "max"])
@pytest.mark.parametrize("column", ["v", "w", "y", "d"])
def test_rolling_values_are_those_of_columns(tmp_path: Path, how: str, column: str) -> None:
    same(tmp_path, lambda s: getattr(s, how)(column, uid="u"), lambda s: getattr(s, how)(column))


def test_rolling_values_of_which_rows_may_be_rejected_are_those_of_columns(tmp_path: Path) -> None:
    same(
        tmp_path,
        lambda s: s.max(1, uid="u", on_error="side-output"),
        lambda s: s.max(1, on_error="side-output"),
    )


class Pairs(sparkstate.ProcessJoinFunction):
    pass


def test_functions_of_rows_and_joins_are_those_of_a_job(tmp_path: Path) -> None:
    pairs, late = Pairs(), OutputTag("late")
    out = {"uid": "u", "output_schema": "k string"}
    same(tmp_path, lambda s: s.map(repr, **out), lambda s: s.map(repr))
    same(tmp_path, lambda s: s.flat_map(sorted, **out), lambda s: s.flat_map(sorted))
    same(tmp_path, lambda s: s.filter(all, uid="u"), lambda s: s.filter(all))
    same(tmp_path, lambda s: s.reduce(max, uid="u"), lambda s: s.reduce(max))

    def joined(stream: Any) -> Any:
        bounds = stream.interval_join(stream).between("-1 minute", 5)
        return bounds.lower_bound_exclusive().side_output_left_late_data(late)

    same(tmp_path, lambda s: joined(s).process(pairs, **out), lambda s: joined(s).process(pairs))
