"""What many jobs cost the operator: memory, time to reconcile all, requests per job and idle minute.

A control plane without nodes, so that pods stay pending: what is measured is the operator alone. Each job has two
executor pods and ten registered snapshots. ``make bench-operator ARGS=--jobs=50`` for a
quick look. With ``--drivers`` it is `operator_drivers.py` that runs: jobs whose drivers answer, change and fail.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import operator_figures as figures
from kubernetes import client

from sparkstate_tools.kubernetes import control_plane
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operated_namespace, operator_process
from sparkstate_tools.processes import free_port

ROOT = Path(__file__).resolve().parents[1]
EXECUTORS, SNAPSHOTS = 2, 10
AIM_MIB, AIM_REQUESTS = 200, 2.0


def main() -> int:
    """Print the figures as one JSON document; the exit code says whether the aims were met."""
    if "--drivers" in sys.argv:
        import operator_drivers

        sys.argv.remove("--drivers")
        return operator_drivers.main()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--idle-seconds", type=float, default=120.0)
    options = parser.parse_args()
    with control_plane.running() as plane, tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(plane.admin, Path(folder), plane)
        cluster.install_crds(ROOT / "crds")
        found = measure(cluster, Path(folder), options.jobs, options.idle_seconds)
        cluster.close()
    print(json.dumps(found, indent=1))
    return (
        0
        if found["memory_mib"] <= AIM_MIB and found["requests_per_job_and_idle_minute"] <= AIM_REQUESTS
        else 1
    )


def measure(cluster: Cluster, folder: Path, jobs: int, idle_s: float) -> dict[str, Any]:
    """Make everything, start the operator, wait until each job has its driver pod, then watch it do nothing."""
    cluster.kubectl("create", "namespace", figures.NAMESPACE)
    objects = client.CustomObjectsApi(cluster.api())
    started = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda number: _make(cluster, objects, number), range(jobs)))
    made_s = time.monotonic() - started
    port = free_port()
    options = ["--listen", f"127.0.0.1:{port}", "--resync-seconds", "180"]
    process = operator_process.start(cluster.kubeconfig, folder, [figures.NAMESPACE], options=options)
    started = time.monotonic()
    try:
        while (done := figures.phases(port)) < jobs or figures.waiting(port):
            if not process.alive or time.monotonic() - started > 1200:
                raise RuntimeError(f"{done} of {jobs} after 20 minutes: {process.log.read_text()[-2000:]}")
            time.sleep(1.0)
        reconciled_s = time.monotonic() - started
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: _executors(cluster, body), bodies))
        time.sleep(30)
        before, began = figures.requests(port), time.monotonic()
        time.sleep(idle_s)
        after, minutes = figures.requests(port), (time.monotonic() - began) / 60
        memory = figures.rss_mib(process.process.pid)
    finally:
        process.stop()
    spent = {name: after[name] - before.get(name, 0) for name in after}
    leases = sum(count for name, count in spent.items() if "leases" in name)
    writes = {
        name: count
        for name, count in spent.items()
        if count and re.match("(create|update|patch|delete) ", name)
    }
    return {
        "jobs": jobs,
        "objects_made_s": round(made_s, 1),
        "all_reconciled_s": round(reconciled_s, 1),
        "memory_mib": round(memory),
        "requests_per_job_and_idle_minute": round((sum(spent.values()) - leases) / jobs / minutes, 2),
        "requests_in_the_idle_time": {name: count for name, count in sorted(spent.items()) if count},
        "writes_in_the_idle_time": {name: count for name, count in writes.items() if "leases" not in name},
        "errors": process.errors()[:5],
    }


def _make(cluster: Cluster, objects: client.CustomObjectsApi, number: int) -> dict[str, Any]:
    name = f"job-{number:04d}"
    body = operated_namespace.job(figures.NAMESPACE, name)
    body["spec"]["deployment"] = "cluster"
    made = objects.create_namespaced_custom_object(
        *figures.GROUP, figures.NAMESPACE, "statefulsparkjobs", body
    )
    marks = {"sparkstate.io/job": name, "sparkstate.io/job-uid": made["metadata"]["uid"]}
    for snapshot in range(SNAPSHOTS):
        document = {
            "apiVersion": "/".join(figures.GROUP),
            "kind": "StateSnapshot",
            "metadata": {"name": f"{name}-{snapshot}", "labels": marks},
            "spec": {"uri": f"s3://bucket/{name}/{snapshot}"},
        }
        objects.create_namespaced_custom_object(*figures.GROUP, figures.NAMESPACE, "statesnapshots", document)
    return dict(made)


def _executors(cluster: Cluster, body: dict[str, Any]) -> None:
    name = body["metadata"]["name"]
    marks = {"sparkstate.io/job": name, "sparkstate.io/job-uid": body["metadata"]["uid"]}
    for executor in range(EXECUTORS):
        labels = {**marks, "sparkstate.io/role": "executor", "sparkstate.io/attempt": "1"}
        meta = {"name": f"{name}-1-exec-{executor}", "labels": labels}
        container = {"name": "executor", "image": "example/job:1"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        cluster.core().create_namespaced_pod(figures.NAMESPACE, pod)


if __name__ == "__main__":
    sys.exit(main())
