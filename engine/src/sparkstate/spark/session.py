"""The Spark session of a job."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType

import pyspark.cloudpickle
import pyspark.testing.utils  # PySpark asks it whether numpy is there, before it sends the first value
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sparkstate.settings import JobSettings
from sparkstate.spark import feed
from sparkstate.spark.jvm import Jvm, check_conf, spark_conf

__all__ = ["Beginning", "SparkSession", "begin_workers", "ship"]


class Beginning:
    """A session on its way, in a JVM that was begun for the same settings.

    A session without executors' pods starts at once, in a thread: that takes seconds, in which the caller loads the
    rest and claims the job's state. The names of executors' pods have the number of the attempt's life in them, which
    is known then.
    """

    def __init__(self, settings: JobSettings, jvm: Jvm) -> None:
        self._settings = settings
        self._jvm = jvm
        self._started: Future[SparkSession] | None = None
        if settings.deployment == "local":
            pool = ThreadPoolExecutor(1, thread_name_prefix="session")
            self._started = pool.submit(_start, settings, jvm)
            pool.shutdown(wait=False)

    def session(self, life: int) -> SparkSession:
        """The session, when it has started, as the calling thread's active one; raises why it has not."""
        if self._started is None:
            return _start(self._settings, self._jvm, life)
        session = self._started.result()
        SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
        return session


def _start(settings: JobSettings, jvm: Jvm, life: int = 1) -> SparkSession:
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
