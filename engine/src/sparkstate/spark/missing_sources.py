"""A format that Spark cannot find: the job asks for it at each start, and its package has to be named first."""

from __future__ import annotations

from typing import Any, Final

import pyspark
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from sparkstate import user_errors

_KAFKA: Final = "KAFKA_DATA_SOURCE_NOT_ENABLED"
_ANY: Final = "DATA_SOURCE_NOT_FOUND"
_SETTING: Final = "manifest, sparkConf: {spark.jars.packages: "
"""Of which the sentences below give the value."""


def told(error: Exception) -> str | None:
    """Error, line and remedy if Spark lacks a format; None for any other error. A path that does not exist yet is such
    a one, and may be there at the next start."""
    condition, text = _seen(error)
    if condition not in (_KAFKA, _ANY):
        return None
    if condition == _KAFKA:
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
        remedy = f"name its package in the {_SETTING}'{package}'}}"
    else:
        remedy = f"correct the format's name, or name its package in the {_SETTING}'group:artifact:version'}}"
    return f"{text.strip()}{user_errors.line_of(error)}; {remedy}"


def _seen(error: Exception) -> tuple[str | None, str]:
    """The name that Spark gives the error's kind, and its text; none for an error of another kind, or when Java no
    longer answers. PySpark knows some classes of the JVM's errors, and passes on the others as they are."""
    try:
        if isinstance(error, PySparkException):
            return error.getCondition(), str(error)
        if isinstance(error, Py4JJavaError) and _is_sparks(error.java_exception):
            return error.java_exception.getCondition(), str(error.java_exception.getMessage())
    except Exception:  # of py4j: it must not take the place of the error that was to be told
        return None, ""
    return None, ""


def _is_sparks(exception: Any) -> bool:
    """Whether ``exception`` has a condition. Only Java can tell: py4j makes a member for whatever name it is asked."""
    return bool(is_instance_of(SparkContext._gateway, exception, "org.apache.spark.SparkThrowable"))
