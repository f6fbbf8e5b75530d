"""The Spark session of a job."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from types import ModuleType

import pyspark.cloudpickle
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sparkstate.settings import JobSettings
from sparkstate.spark import feed
from sparkstate.spark.jvm import Jvm, check_conf, spark_conf

__all__ = ["SparkSession", "ship", "start"]


def start(settings: JobSettings, jvm: Jvm, life: int = 1) -> SparkSession:
    """Start the session in a JVM that was begun for the same settings."""
    SparkContext(conf=spark_conf(settings, life), gateway=jvm.gateway())
    session = SparkSession.builder.getOrCreate()
    check_conf(dict(session.sparkContext.getConf().getAll()))
    return session


def begin_workers(session: SparkSession) -> None:
    """Spark starts its daemon of Python workers when a task needs one. This one does, in the background, so that the
    daemon loads what it has to while the job declares itself. After :func:`ship`: it is another daemon for every
    environment."""
    context = session.sparkContext
    threading.Thread(target=_first_task, args=(context,), name="first-task", daemon=True).start()


def _first_task(context: SparkContext) -> None:
    with contextlib.suppress(Exception):  # a session that ends meanwhile says so itself
        context.parallelize([0], 1).mapPartitions(feed.drop).collect()


def ship(session: SparkSession, module: ModuleType | None, python_path: Sequence[str]) -> None:
    """Let the job's own functions run in Spark's workers (``udf``, ``mapInArrow``).

    Those of ``module`` travel by value: workers cannot import a file by its path. Modules beside it are found in
    ``python_path``, where the workers have these folders.
    """
    if module is not None:
        pyspark.cloudpickle.register_pickle_by_value(module)
    if python_path:
        environment = session.sparkContext.environment
        known = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
        environment["PYTHONPATH"] = os.pathsep.join([*python_path, *known])
