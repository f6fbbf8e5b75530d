"""One Spark session for the tests of this process that look at plans; started when first asked for."""

from __future__ import annotations

import atexit
import functools
import os
import sys

from sparkstate import java


@functools.cache
def get():
    """A small local session in UTC."""
    os.environ.update(java.find(os.environ).environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .appName("sparkstate-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    atexit.register(session.stop)
    return session
