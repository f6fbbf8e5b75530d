"""Fetches what the tests start beside Python: S3 server, Kafka, a browser, a Kubernetes. Run before the first stage.

The tests would fetch them too, but pytest hides what a fixture prints, and the time would count against the
first test that asks. What cannot be fetched is named here and fails there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from sparkstate_tools.drivers import jvm
from sparkstate_tools.kubernetes import build
from sparkstate_tools.parts import browser, maven
from sparkstate_tools.servers import s3server

GROUPS: dict[str, dict[str, Callable[[], object]]] = {
    "tests": {
        "S3 server (versitygw)": s3server.find_binary,
        "Kafka broker": lambda: maven.jars("kafka-broker"),
        "Chromium": browser.chromium,
        "Spark's Kafka source": lambda: maven.jars("spark-kafka"),
        "archive of the JVM's classes": jvm.build_archive,
    },
    "s3": {"S3 server (versitygw)": s3server.find_binary},
    "cluster": {"Kubernetes' control plane": lambda: build.binaries(build.CONTROL_PLANE)},
    "node": {"Kubernetes' nodes": lambda: build.binaries(build.NODE)},
}


def fetch(groups: Sequence[str]) -> None:
    """Fetches each part of these groups that is not in the cache; says what failed and goes on."""
    for name, part in [each for group in groups for each in GROUPS[group].items()]:
        started = time.monotonic()
        try:
            part()
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        if time.monotonic() - started > 1:
            print(f"{name}: fetched in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    fetch(sys.argv[1:] or ["tests"])
