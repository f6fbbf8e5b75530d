"""The way of an epoch's rows, as the settings of Spark decide it."""

from __future__ import annotations

import pytest
from pyspark import SparkConf

from sparkstate.spark import fed_rows, feeding, graph


@pytest.mark.parametrize(
    ("said", "copies"),
    [("true", True), ("True", True), (" TRUE ", True), ("false", False), ("False", False), (None, False)],
)
def test_copies_of_tasks_are_expected_where_spark_makes_them(said: str | None, copies: bool) -> None:
    conf = SparkConf(loadDefaults=False)
    if said is not None:
        conf.set("spark.speculation", said)
    assert feeding.runs_copies(conf) is copies


JOB = graph.Input(keys=("k",), upstream=None, event_time=None)
OUTPUT = graph.Input(keys=("k",), upstream=("before", None), event_time=None)
RULES = graph.Input(keys=(), upstream=None, event_time=None, is_broadcast=True)
RULES_OF_OUTPUT = graph.Input(keys=(), upstream=("before", None), event_time=None, is_broadcast=True)


@pytest.mark.parametrize(
    ("inputs", "brought", "rows_in", "wanted"),
    [
        ((JOB,), (3, 4), 7, 7),
        ((JOB, OUTPUT), (3, 4), 20, 7),
        ((JOB, RULES), (3 + 2, 4 + 2), 9, 9),
        ((OUTPUT, RULES), (2, 2), 20, 2),
        ((JOB, RULES_OF_OUTPUT), (3, 4), 20, 7),
    ],
    ids=["one input", "an output beside it", "rules", "rules for an output", "an output as rules"],
)
def test_a_row_that_goes_to_every_slot_is_one_row_of_the_job(
    inputs: tuple[graph.Input, ...], brought: tuple[int, int], rows_in: int, wanted: int
) -> None:
    fed = fed_rows.FedRows({slot: fed_rows.FedSlot(1, rows) for slot, rows in enumerate(brought)}, {})
    assert fed_rows.rows_of_job(inputs, fed, rows_in, 2) == wanted
