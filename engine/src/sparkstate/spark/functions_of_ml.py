"""A session without the functions of MLlib, until somebody wants them.

Every new session of Spark registers the functions that ``pyspark.ml.functions`` calls, and for that loads a part of
MLlib and of Scala's reflection: 1.6 CPU-seconds of a driver's start (RFC 0008), though few jobs use them. They are the
only extension that Spark finds by itself. Where there is indeed no other, the session is made without a look for any,
and the first import of ``pyspark.ml`` registers the functions at that moment.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

_PACKAGE: Final = "pyspark.ml"
_SERVICE: Final = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
_ITS_JAR: Final = "/spark-mllib_"
_OTHERS: Final = ("spark.sql.extensions", "spark.jars", "spark.jars.packages")
"""With one of these set, code from elsewhere may call the functions without an import in Python."""


def session(context: SparkContext, conf: Mapping[str, str]) -> SparkSession:
    """The first session of a context, as ``SparkSession.builder.getOrCreate()`` makes it, without these functions.

    ``conf``: the context's settings, for which PySpark asks the JVM one by one.
    """
    jvm: Any = context._jvm
    wanted = _PACKAGE in sys.modules or any(conf.get(key) for key in _OTHERS)
    if wanted or not _is_the_only_extension(jvm):
        return SparkSession.builder.getOrCreate()
    sys.meta_path.insert(0, _Registering(context))
    extensions = jvm.org.apache.spark.sql.SparkSessionExtensions()
    none = jvm.scala.Option.empty()
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$EmptyMap$"), "MODULE$")
    made = SparkSession._get_j_spark_session_class(jvm)
    return SparkSession(context, made(context._jsc.sc(), none, none, extensions, nothing, nothing))


def _is_the_only_extension(jvm: Any) -> bool:
    """Asks the loader that Spark would ask."""
    found = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().getResources(_SERVICE)
    jars = []
    while found.hasMoreElements():
        jars.append(found.nextElement().toString())
    return len(jars) == 1 and _ITS_JAR in jars[0]


class _Registering(importlib.abc.MetaPathFinder):
    """Finds nothing; registers the functions before the first import of ``pyspark.ml`` goes on."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None always: others find the module."""
        if fullname == _PACKAGE:
            sys.meta_path.remove(self)
            jvm: Any = self._context._jvm
            jvm.org.apache.spark.sql.ml.InternalFunctionRegistration().apply(
                jvm.org.apache.spark.sql.SparkSessionExtensions()
            )
        return None
