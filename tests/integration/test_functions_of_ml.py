"""Functions of MLlib in a session that is made without them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

BEGIN = """
import sys
from pyspark import SparkConf, SparkContext
from sparkstate.spark import functions_of_ml

context = SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false"){more})
session = functions_of_ml.session(context, dict(context.getConf().getAll()))
frame = session.createDataFrame([([1.0, 2.0],)], "a array<double>")
analysis = context._jvm.org.apache.spark.sql.catalyst.analysis
registry = getattr(getattr(analysis, "FunctionRegistry$"), "MODULE$").internal()
name = context._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier("array_to_vector")
print("at first", registry.functionExists(name))
"""
USE = """
from pyspark.ml.functions import array_to_vector, vector_to_array
print("then", registry.functionExists(name))
rows = frame.select(vector_to_array(array_to_vector("a")).alias("x")).collect()
print("result", rows[0].x, session.newSession().range(3).count())
"""


def run(program: str) -> list[str]:
    """What a program in a process of its own prints: a JVM registers them only once."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line]


def test_they_come_with_the_import_of_pyspark_ml() -> None:
    assert run(BEGIN.format(more="") + USE) == ["at first False", "then True", "result [1.0, 2.0] 3"]


def test_they_are_there_from_the_begin_where_pyspark_ml_was_imported_before() -> None:
    assert run("import pyspark.ml\n" + BEGIN.format(more=""))[0] == "at first True"


def test_extensions_of_the_user_are_loaded_as_spark_does_it() -> None:
    more = '.set("spark.sql.extensions", "org.apache.spark.sql.ml.InternalFunctionRegistration")'
    assert run(BEGIN.format(more=more))[0] == "at first True"
