#!/usr/bin/python3 -I
"""Starts Spark's executor in a container.

Spark's Kubernetes backend creates executor pods whose container gets the argument ``executor`` and everything else in
``SPARK_…`` variables; the PySpark wheel brings the classes, but no entry point. This one needs nothing but Python's
standard library, and becomes the JVM, so that the process that Kubernetes watches is the executor itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
ARCHIVE = "SPARKSTATE_CLASS_ARCHIVE"
"""Set by the image: classes as the JVM has them in memory. The jar beside it names Spark's jars in the archive's order,
so it comes before all that may be anything else; a class path that begins otherwise does without the archive."""
KUBERNETES = "-Dspark.master=k8s://driver"
"""Spark reads the secret that driver and executors share (``spark.authenticate.secret.file``) from a file on Kubernetes
only, and tells an executor where it runs when the two have met already. The driver's settings then replace this."""
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(environ: Mapping[str, str]) -> list[str]:
    """The executor's command line. Raises ``KeyError`` with the variable that Spark should have set."""
    options = sorted(
        (int(name[len(OPTION) :]), value)
        for name, value in environ.items()
        if name.startswith(OPTION) and name[len(OPTION) :].isdigit()
    )
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    archive = environ.get(ARCHIVE)
    classes = [f"{archive.removesuffix('.jsa')}.jar"] if archive else []
    classes += [f"{environ['SPARK_HOME']}/conf", f"{environ['SPARK_HOME']}/jars/*"]
    classes += [environ[name] for name in ("SPARK_CLASSPATH", "SPARK_DIST_CLASSPATH") if environ.get(name)]
    return [
        f"{environ['JAVA_HOME']}/bin/java",
        *([f"-XX:SharedArchiveFile={archive}"] if archive else []),
        *(value for _, value in options),
        KUBERNETES,
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join(classes),
        MAIN,
        *(word for option, name in ARGUMENTS.items() for word in (option, environ[name])),
    ]


def main() -> None:
    """Become the executor."""
    try:
        words = command(os.environ)
    except KeyError as missing:
        sys.exit(
            f"{missing.args[0]} is not set; this entry is for pods that Spark's Kubernetes backend creates"
        )
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
