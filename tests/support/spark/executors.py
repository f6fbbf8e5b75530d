"""A driver as it runs in a pod, with executors that are processes of their own, each on a "host" of its own.

Spark's ``local-cluster`` master starts real executors; a ``java`` that gives every executor a host name (a UTS
namespace) and an address of its own makes slots and tasks find each other over TCP, as between pods.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from support.spark import cluster_driver

from sparkstate import java
from sparkstate_tools.drivers import driving

TESTS = Path(__file__).parents[2]
UID = "9c2f4c5e-0000-4000-8000-000000000001"
SHIM = """#!/bin/sh
case "$*" in
*CoarseGrainedExecutorBackend*)
    before= number=
    for argument in "$@"; do
        shift
        [ "$before" = --executor-id ] && number=$argument
        [ "$before" = --hostname ] && argument=127.0.0.$((number % 250 + 2))
        set -- "$@" "$argument"
        before=$argument
    done
    exec unshare --user --map-current-user --uts --keep-caps sh -c 'hostname "$0" && exec "$@"' \
        "executor-$$" {java} "$@" ;;
esac
exec {java} "$@"
"""


def environment(name: str = "job", attempt: int = 1) -> dict[str, str]:
    """What the operator's pod gives the driver's container."""
    return {
        "SPARKSTATE_POD_NAME": f"{name}-driver-{attempt}",
        "SPARKSTATE_POD_NAMESPACE": "default",
        "SPARKSTATE_POD_IP": "127.0.0.1",
        "SPARKSTATE_JOB_UID": UID,
        "SPARKSTATE_CLUSTER": "tests",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }


def on_hosts_of_their_own(folder: Path) -> dict[str, str]:
    """Environment in which every executor has its own host name and an address that is reachable."""
    real = java.find().home
    home = folder / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    script = home / "bin" / "java"
    script.write_text(SHIM.format(java=real / "bin" / "java"))
    script.chmod(0o755)
    return {
        "JAVA_HOME": str(home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
    }


def cluster(document: Mapping[str, Any], folder: Path, executors: int) -> dict[str, Any]:
    """The manifest with ``deployment: cluster`` on that many executors."""
    spec = dict(document["spec"])
    spec.update(
        deployment="cluster",
        image="sparkstate/job",
        slotsPerExecutor=-(-spec["slots"] // executors),
        executor={"cores": 1, "memory": "512Mi"},
    )
    spec["checkpointing"] = {**spec["checkpointing"], "storage": (folder / "checkpoints").as_uri()}
    return {**document, "spec": spec}


def master(executors: int) -> dict[str, str]:
    """Environment of ``support.spark.cluster_driver``: that many executors with one core each."""
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    return {cluster_driver.MASTER: f"local-cluster[{executors},1,2048]", "PYTHONPATH": path}


def driver(
    folder: Path,
    document: Mapping[str, Any],
    attempt: int = 1,
    work_dir: Path | None = None,
    **variables: str,
) -> driving.Driver:
    """A driver as the operator's pod starts it; with executors of its own if ``document`` deploys to a cluster."""
    return driving.Driver(
        folder,
        document,
        attempt=attempt,
        environment={**environment(attempt=attempt), **variables},
        arguments=["--in-cluster", "--fenced-exit-zero"],
        module="support.spark.cluster_driver" if document["spec"].get("deployment") else "sparkstate.driver",
        work_dir=work_dir,
    )


def driver_of_many(folder: Path, document: Mapping[str, Any], executors: int, **conf: str) -> driving.Driver:
    """That driver with its slots in so many executors, each on a host of its own; ``conf`` goes to Spark."""
    changed = cluster(document, folder, executors)
    output = {"output": (folder / "out").as_uri()}
    changed["spec"]["params"] = {**changed["spec"]["params"], **output}
    # Spark's Kubernetes backend reads the mounted secret; this master wants it said.
    changed["spec"]["sparkConf"] = {"spark.authenticate.secret": "of driver and executors", **conf}
    return driver(folder, changed, **on_hosts_of_their_own(folder), **master(executors))


def jvms(folder: Path) -> list[int]:
    """Process ids of the executors' JVMs."""
    return [
        pid
        for pid in driving.processes_with(str(folder))
        if "CoarseGrainedExecutorBackend" in driving.command_line(pid)
        and Path(f"/proc/{pid}/comm").read_text() == "java\n"
    ]
