"""The way of an epoch's rows, as the settings of Spark decide it."""

from __future__ import annotations

import pytest
from pyspark import SparkConf

from sparkstate.spark import feeding


@pytest.mark.parametrize(
    ("said", "copies"),
    [("true", True), ("True", True), (" TRUE ", True), ("false", False), ("False", False), (None, False)],
)
def test_copies_of_tasks_are_expected_where_spark_makes_them(said: str | None, copies: bool) -> None:
    conf = SparkConf(loadDefaults=False)
    if said is not None:
        conf.set("spark.speculation", said)
    assert feeding.runs_copies(conf) is copies
