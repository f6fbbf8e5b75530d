"""``DataFrame.mapInArrow`` for functions that change from epoch to epoch, with its other parts made once (RFC 0062).

PySpark calls the JVM some 30 times for a frame: it asks for the columns, looks up names of classes, translates
settings and lists, and parses the schema. Only the pickled function differs from one epoch to the next, so the rest is
kept, and a frame takes 4 calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.classic.column import _to_seq
from pyspark.util import PythonEvalType

from sparkstate import columns

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_CODE: Final = "org.apache.spark.api.python.SimplePythonFunction"
_UDF: Final = "org.apache.spark.sql.execution.python.UserDefinedPythonFunction"


class ArrowFunctions:
    """Applies functions to frames that all have the columns ``names``, where all functions put out ``schema``.

    The environment and the files of Spark's Python workers are those of the moment in which it is made.
    """

    def __init__(self, session: SparkSession, name: str, names: Sequence[str], schema: T.StructType) -> None:
        """``name`` is what Spark's plans call the functions."""
        context = session.sparkContext
        jvm = context._jvm
        self._context = context
        self._name = name
        self._schema = schema
        self._type = session._jsparkSession.parseDataType(schema.json())
        # By name, not of a frame: the columns of each epoch's frame are others to Spark, with the same names.
        self._columns = _to_seq(context, [F.col(columns.quoted(each))._jc for each in names])
        self._code, self._udf = getattr(jvm, _CODE), getattr(jvm, _UDF)
        self._nothing = jvm.java.util.ArrayList()
        self._files = jvm.java.util.ArrayList(context._python_includes)
        self._environment = jvm.java.util.HashMap(context.environment)
        self._most_bytes = jvm.PythonUtils.getBroadcastThreshold(context._jsc)

    def apply(self, function: ArrowFunction, frame: DataFrame) -> DataFrame:
        """The frame that ``frame.mapInArrow(function, schema)`` is. The function may not hold broadcast
        variables, and ``schema`` may have only types that Arrow has."""
        context = self._context
        command = (function, self._schema)  # as PySpark's workers read it
        pickled, broadcasts = CloudPickleSerializer().dumps(command), self._nothing
        if len(pickled) > self._most_bytes:
            pickled, broadcasts, _, _ = _prepare_for_python_RDD(context, command)  # which broadcasts it
        code = self._code(
            bytearray(pickled),
            self._environment,
            self._files,
            context.pythonExec,
            context.pythonVer,
            broadcasts,
            context._javaAccumulator,
        )
        udf = self._udf(
            self._name,
            code,
            self._type,
            PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
            True,
            self._nothing,
            self._nothing,
        )
        mapped = frame._jdf.mapInArrow(udf.apply(self._columns), False, None)
        return DataFrame(mapped, frame.sparkSession)
