"""Spark's JVM, and the settings that it is started with: what we set, what a user may set, what is refused.

This module imports no more than that takes: the JVM starts while the driver loads the rest (RFC 0008).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from sparkstate import errors, keys, signals
from sparkstate.manifest import memory
from sparkstate.settings import MIB, JobSettings
from sparkstate.spark import kubernetes

_CALM_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=500000 -XX:Tier4MinInvocationThreshold=60000 "
    "-XX:Tier4CompileThreshold=1500000 -XX:Tier4BackEdgeThreshold=4000000"
)
"""The JVM's second compiler begins at a hundred times its default counts (RFC 0008 has the figures). While Spark starts
it would compile code that is never hot; the loops over rows pass these counts within their first batches."""
DEFAULTS: Final[Mapping[str, str]] = {
    # Larger batches than Spark's own amortise the slot's work per batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # An epoch's plans are small and known; re-planning them costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "sparkstate.spark.daemon",
    # As it is for tasks of RDDs: Spark has a daemon for each environment. With this on, a second one loaded everything
    # again, just when the first epoch waited for it.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.authenticate": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stopTimeout": "20s",
    # A query's directory is on this machine's disk. Hadoop's newer interface starts six processes (chmod, readlink) for
    # each of the files that an epoch has there, this one two, and renames a file into place as well.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A compact entry of a file source's log names all files that were ever seen, and Spark keeps each for ten minutes:
    # a soak of 10,000 files and four epochs a second had 150 of them, with 150 MiB. Nobody but the query reads them.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "10s",
    # The history on Spark's own pages. An epoch is a job and an execution with its plan, and Spark keeps a thousand of
    # each: in a soak the live heap grew until they were full. The pages of a stream show its last hundred epochs too.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "10000",
    "spark.sql.ui.retainedExecutions": "100",
    # Each epoch of a file source lists its files, and Spark keeps that list in a cache of up to 250 MB of the heap, in
    # which nobody finds it again: a kilobyte an epoch, until a driver of 512Mi has half its heap full of them. A job
    # that joins a partitioned table of a catalog in each epoch wants the cache, and can have it by its sparkConf.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    # A stream's thread can overflow the default stack in a regular expression over an error's text.
    "spark.driver.extraJavaOptions": f"-Xss8m {_CALM_COMPILER}",
    "spark.executor.extraJavaOptions": _CALM_COMPILER,
    "spark.log.level": "ERROR",
}
"""Settings of every job's session, unless its manifest says otherwise."""
CLASS_ARCHIVE: Final = "SPARKSTATE_CLASS_ARCHIVE"
"""Where an image keeps Spark's classes as a JVM has them in memory (``packaging/classes.py``), with a jar beside it
that brings Spark's jars in the archive's order. Executors read the variable in their own image."""
_ADDED_TO: Final = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
_TASK_ATTEMPTS: Final = 4
"""Spark's own default for clusters."""
_REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "spark.dynamicAllocation.enabled": (
        "true",
        "slots hold state on their executors, so executors must not come and go: remove the setting",
    ),
    "spark.remote": ("", "Spark Connect cannot start slots on executors: use a classic session"),
    "spark.api.mode": ("connect", "Spark Connect cannot start slots on executors: use classic"),
    "spark.sql.streaming.offsetLog.formatVersion": (
        "2",
        "positions of the sources in checkpoints are read and cut in format 1: remove the setting",
    ),
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": (
        "true",
        "positions of the sources in checkpoints know sources by their number, not by a name: remove the setting",
    ),
    "spark.python.worker.reuse": ("false", "feeding would start a Python process per task: leave it on"),
}


def check_conf(conf: Mapping[str, str]) -> None:
    """Refuse settings that cannot work, each with its reason."""
    for key, (bad, why) in _REFUSED.items():
        value = str(conf.get(key, "")).lower()
        if key in conf and (value == bad or not bad):
            raise errors.SpecInvalid(f"spec.sparkConf[{key!r}] is {conf[key]!r}: {why}")


def effective_conf(settings: JobSettings, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Our defaults, then the user's settings; the user's JVM options are added to ours."""
    check_conf(settings.spark_conf)
    conf = dict(DEFAULTS)
    conf["spark.ui.enabled"] = str(settings.ui).lower()
    conf["spark.driver.memory"] = f"{settings.jvm_memory_bytes // MIB}m"
    conf["spark.sql.shuffle.partitions"] = str(settings.slots)
    archive = environ.get(CLASS_ARCHIVE)
    # A class path of the user's has to come before Spark's jars, and then the archive does not fit.
    if archive and "spark.driver.extraClassPath" not in settings.spark_conf:
        conf["spark.driver.extraJavaOptions"] += f" -XX:SharedArchiveFile={archive}"
        conf["spark.driver.extraClassPath"] = f"{archive.removesuffix('.jsa')}.jar"
    if settings.deployment == "local":
        # A task whose worker died is tried again, as on a cluster: by default local mode gives up at once.
        conf["spark.master"] = f"local[{max(settings.cores, settings.slots)},{_TASK_ATTEMPTS}]"
        conf["spark.driver.host"] = "127.0.0.1"
        conf["spark.driver.bindAddress"] = "127.0.0.1"
    else:
        conf.update(_cluster_conf(settings, environ))
    if settings.work_dir:
        conf["spark.local.dir"] = f"{settings.work_dir}/spark"
        conf["spark.sql.warehouse.dir"] = f"{settings.work_dir}/spark/warehouse"
    for key, value in settings.spark_conf.items():
        if key == "spark.executor.memoryOverhead" and settings.deployment == "cluster":
            continue  # the JVM's part of it; it is in the sum already
        conf[key] = f"{conf[key]} {value}" if key in _ADDED_TO else value
    return conf


def _cluster_conf(settings: JobSettings, environ: Mapping[str, str]) -> dict[str, str]:
    if settings.pod is None:
        raise errors.SpecInvalid(
            "deployment: cluster runs in a pod that the operator has made (--in-cluster)"
        )
    heap, whole = memory.executor_bytes(settings)
    api = kubernetes.master(
        environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    )
    return kubernetes.conf(settings, settings.pod, api, whole - heap, keys.secret_of_spark())


class Jvm:
    """Spark's JVM, which starts while the caller does something else: that takes seconds, and needs no more than the
    settings. Java must be found already (``sparkstate.java``). It ends with this process.
    """

    def __init__(self, settings: JobSettings) -> None:
        pool = ThreadPoolExecutor(1, thread_name_prefix="jvm")
        self._gateway = pool.submit(launch_gateway, spark_conf(settings))
        pool.shutdown(wait=False)

    def gateway(self) -> Any:
        """Py4J's gateway to it, once it has started; raises the error that kept it from starting."""
        return self._gateway.result()

    def loss(self, wait_s: float = 0.0) -> errors.SparkLost | None:
        """How it has ended; None while it runs or starts. A JVM that is being killed closes its sockets before its
        process is gone, so whoever heard of it by a socket gives it ``wait_s`` for that."""
        if not self._gateway.done() or self._gateway.exception() is not None:
            return None
        process: subprocess.Popen[bytes] | None = self._gateway.result().proc
        if process is None:  # one that was there already (PYSPARK_GATEWAY_PORT)
            return None
        try:
            code = process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        return errors.SparkLost(told_end(process.pid, code))


def told_end(pid: int, code: int) -> str:
    """How a JVM ended, in a sentence. ``code`` is negative where a signal killed it, as in ``subprocess``."""
    jvm = f"Spark's JVM (pid {pid})"
    if code == -signal.SIGKILL:
        return (
            f"{jvm} was killed by SIGKILL; the kernel does that when memory runs out. A new driver goes on from the "
            "last checkpoint; if it happens again, raise driver.memory"
        )
    by_itself = f"ended with exit code {code}"
    how = by_itself if code >= 0 else f"was killed by {signals.name_of(-code)}"
    return f"{jvm} {how}; the driver's log has its last lines. A new driver goes on from the last checkpoint"


def spark_conf(settings: JobSettings) -> SparkConf:
    """The settings as PySpark takes them."""
    conf = SparkConf(loadDefaults=False)
    for key, value in effective_conf(settings, os.environ).items():
        conf.set(key, value)
    return conf.setAppName(settings.name)
