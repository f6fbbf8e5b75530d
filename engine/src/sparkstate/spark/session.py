"""The Spark session of a job."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pyspark.cloudpickle
import pyspark.testing.utils  # PySpark asks this for numpy before its first value, which loads pandas: now, not then
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sparkstate import errors
from sparkstate.settings import JobSettings, PodSettings
from sparkstate.spark import feed, functions_of_ml, kubernetes
from sparkstate.spark.jvm import Jvm, check_conf, spark_conf

__all__ = ["Beginning", "SparkSession", "begin_workers", "ship"]


class Beginning:
    """A session on its way, in a JVM that was begun for the same settings.

    It starts in a thread: that takes seconds, in which the caller loads the rest and claims the job's state. In a
    cluster it has no executors then, for a driver that may not run must not make pods, and their names have the number
    of the attempt's life in them, which the claim tells.
    """

    def __init__(self, settings: JobSettings, jvm: Jvm) -> None:
        self._settings = settings
        self._jvm = jvm
        pool = ThreadPoolExecutor(1, thread_name_prefix="session")
        self._context = pool.submit(_context, settings, jvm)
        self._session = pool.submit(_session, self._context)
        pool.shutdown(wait=False)

    def claimed(self, life: int) -> None:
        """The state is this driver's: in a cluster, ask for executors, which come later,
        as those of the attempt's ``life``."""
        pod = self._settings.pod
        if self._settings.deployment == "cluster" and pod is not None:
            conf = kubernetes.of_life(self._settings, pod, life, _template(self._settings, pod))
            _ask_for_executors(self._context.result(), conf, self._settings.executors)

    def session(self) -> SparkSession:
        """The session, once it has started, as the calling thread's active one;
        raises the error that kept it from starting."""
        session = self._session.result()
        SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
        return session

    def loss(self, wait_s: float = 0.0) -> errors.SparkLost | None:
        """How the JVM has ended, see :meth:`Jvm.loss`."""
        return self._jvm.loss(wait_s)

    def stop(self) -> None:
        """End the session, unless its JVM has ended before: then there is nobody to ask."""
        if self.loss() is None:
            self._session.result().stop()


def _context(settings: JobSettings, jvm: Jvm) -> SparkContext:
    conf = spark_conf(settings)
    if settings.deployment == "cluster":
        conf.set(kubernetes.INSTANCES, "0")  # in the context alone: ``spark-submit`` refuses that
    return SparkContext(conf=conf, gateway=jvm.gateway())


def _session(context: Future[SparkContext]) -> SparkSession:
    """On top of the context, which takes as long as an executor's container."""
    conf = dict(context.result().getConf().getAll())
    check_conf(conf)
    return functions_of_ml.session(context.result(), conf)


def _template(settings: JobSettings, pod: PodSettings) -> str:
    """The file that executors are made from."""
    if not kubernetes.owns_by_template(settings, pod):
        return kubernetes.TEMPLATE
    given = Path(kubernetes.TEMPLATE)
    own = Path(settings.work_dir) / given.name
    own.write_text(kubernetes.owned(given.read_text(), pod))
    return str(own)


def _ask_for_executors(context: SparkContext, conf: Mapping[str, str], count: int) -> None:
    """Spark makes each pod by the settings that its context has at that time."""
    scala = context._jsc.sc()
    for key, value in conf.items():
        scala.conf().set(key, value)
    if not scala.requestExecutors(count):
        raise errors.JobFailed(f"Spark did not take the request for {count} executors; its log says why")


def begin_workers(session: SparkSession) -> None:
    """Spark starts its daemon of Python workers when a task needs one. This one does, in the background, so that the
    daemon loads its modules while the job declares itself. Call it after :func:`ship`: each environment has a daemon
    of its own."""
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
