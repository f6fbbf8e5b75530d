"""What thousands of running jobs cost the operator: their drivers answer, change and fail.

A control plane without nodes; a kubelet is played, which binds each driver's pod and says that it runs, and stand-in
drivers answer over HTTP, each at its own address of the loopback (``standin_drivers.py``). One job is brought to run by
the operator; the others are copies of it and of all that it has, so that an operator that starts finds them running:
their own starts would take two cores an hour. Measured are the operator's
share of a processor, its memory, its requests, and how long a savepoint's request takes from the StateSnapshot to the
driver: in turns while all drivers answer, and while some hang, drip or answer 500. Pods fail all the time, so that the
two differ by the silent drivers alone, and by turns, so that what the machine does meanwhile counts for both. At the
end all jobs and snapshots are let go, as by an uninstall.
``make bench-operator ARGS=--drivers`` (5,000 jobs), ``ARGS="--drivers --jobs=500"`` for a quick look.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import operator_copies as copies
import operator_figures as figures
import operator_uninstall as uninstall
from kubernetes import client
from operator_standins import StandIns
from operator_turns import Turns, cpu_s, merged
from played_kubelet import DRIVER, Kubelet

from sparkstate_operator import labels
from sparkstate_tools.kubernetes import control_plane
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operated_namespace, operator_process
from sparkstate_tools.processes import free_port

ROOT = Path(__file__).resolve().parents[1]
AIM_CPU, AIM_MIB, AIM_DELAY_S = 0.5, 400, 1.0


def main() -> int:
    """Print the figures as one JSON document; the exit code says whether the aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--snapshots", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="of each of the two kinds of turns, in all"
    )
    parser.add_argument("--turns", type=int, default=3, help="of each kind")
    options = parser.parse_args()
    with control_plane.running() as plane, tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(plane.admin, Path(folder), plane)
        cluster.install_crds(ROOT / "crds")
        drivers = StandIns()
        kubelet = Kubelet(cluster, drivers)
        try:
            found = measure(cluster, Path(folder), kubelet, drivers, options)
        finally:
            kubelet.stop()
            drivers.stop()
            cluster.close()
    print(json.dumps(found, indent=1))
    return 0 if _good(found["answering"], found["failing"]) else 1


def _good(answering: dict[str, Any], failing: dict[str, Any]) -> bool:
    """Whether the aims are met: what it costs in both kinds of turns, and that no silent driver delays another's
    savepoint. How long a savepoint takes while all drivers answer is the API server's and the machine's."""
    cheap = all(
        part["processors"] <= AIM_CPU and part["memory_mib"] <= AIM_MIB for part in (answering, failing)
    )
    first, second = answering["reaction_s"], failing["reaction_s"]
    later_s = max(second[at] - first[at] for at in ("p50", "p99", "max"))
    return cheap and second["asked"] == second["answered"] and later_s <= AIM_DELAY_S


def measure(
    cluster: Cluster, folder: Path, kubelet: Kubelet, drivers: StandIns, options: argparse.Namespace
) -> dict[str, Any]:
    """All jobs running, then the turns."""
    cluster.kubectl("create", "namespace", figures.NAMESPACE)
    port = free_port()
    names = [f"job-{number:04d}" for number in range(options.jobs)]
    kubelet.does.update(dict.fromkeys(names[::20], "recovers"))
    started = time.monotonic()
    process = start(cluster, folder, port, drivers.port)
    try:
        objects = client.CustomObjectsApi(cluster.api())
        body = operated_namespace.job(figures.NAMESPACE, names[0])
        objects.create_namespaced_custom_object(*figures.GROUP, figures.NAMESPACE, "statefulsparkjobs", body)
        _until(process, lambda: figures.phases(port, "Running") == 1)
        register(cluster, folder, names[0], options.snapshots)
        time.sleep(5)
    finally:
        process.stop()
    asyncio.run(copies.make(cluster.kubeconfig, figures.NAMESPACE, names[0], names[1:]))
    _say(f"{options.jobs} jobs made after {time.monotonic() - started:.0f} s")
    process = start(cluster, folder, port, drivers.port)
    started = time.monotonic()
    try:
        _until(process, lambda: _all_seen(port, options.jobs))
        seen_s = time.monotonic() - started
        _say(f"all seen after {seen_s:.0f} s; CPU {cpu_s(process.process.pid):.0f} s")
        _until(process, lambda: time.monotonic() - started > seen_s + 60)
        turns = Turns(cluster, kubelet, drivers, process, port, names, options.seconds / options.turns)
        for _ in range(options.turns):
            turns.run("answering")
            turns.run("failing")
    finally:
        process.stop()
    let_go = uninstall.measure(cluster.kubeconfig, figures.NAMESPACE, folder / "release.log")
    return {
        "jobs": options.jobs, "all_seen_s": round(seen_s), "cores": os.cpu_count(),
        "answering": merged(turns.of["answering"]), "failing": merged(turns.of["failing"]),
        "uninstall": let_go, "errors": process.errors()[:5],
    }  # fmt: skip


def register(cluster: Cluster, folder: Path, job: str, count: int) -> None:
    """So many savepoints of a job, whose registration has ended; the kubelet is played for the engine's commands."""
    marks = next(one["metadata"]["labels"] for one in cluster.items("pods", figures.NAMESPACE, DRIVER))
    kept = {name: marks[name] for name in (labels.JOB, labels.JOB_UID)}
    played = operated_namespace.OperatedNamespace(cluster, figures.NAMESPACE, folder)
    for number in range(count):
        body = {
            "apiVersion": "/".join(figures.GROUP), "kind": "StateSnapshot",
            "metadata": {"name": f"{job}-{number}", "namespace": figures.NAMESPACE, "labels": kept},
            "spec": {"uri": f"s3://bucket/{job}/{number}"},
        }  # fmt: skip
        cluster.apply(body)
    done = 0
    while done < count:
        for command in cluster.items("jobs", figures.NAMESPACE):
            if not command.get("status", {}).get("conditions"):
                played.finish_command(command["metadata"]["name"])
        found = cluster.items("snap", figures.NAMESPACE)
        done = sum((one.get("status") or {}).get("phase") == "Completed" for one in found)
        time.sleep(0.5)


def _all_seen(port: int, jobs: int) -> bool:
    """Whether every job has been looked at, and few wait to be. Some are always starting: their drivers recover."""
    seen = figures.phases(port, "Running") + figures.phases(port, "Starting")
    return seen >= jobs and figures.waiting(port) < jobs / 50


def _until(process: operator_process.Operator, reached: Callable[[], bool]) -> None:
    started = time.monotonic()
    while not reached():
        if not process.alive or time.monotonic() - started > 3600:
            raise RuntimeError(f"the operator does not get there: {process.log.read_text()[-2000:]}")
        time.sleep(1.0)


def start(cluster: Cluster, folder: Path, port: int, driver_port: int) -> operator_process.Operator:
    """The operator as the chart runs it, but for the drivers' port."""
    options = ["--listen", f"127.0.0.1:{port}", "--resync-seconds", "180", "--progress-seconds", "60"]
    return operator_process.start(
        cluster.kubeconfig, folder, [figures.NAMESPACE], options=[*options, "--driver-port", str(driver_port)],
    )  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
