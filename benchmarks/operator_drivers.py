"""What thousands of running jobs cost the operator: their drivers answer, change and fail.

A control plane without nodes; a kubelet is played, which binds each driver's pod and says that it runs, and stand-in
drivers answer over HTTP, each at its own address of the loopback (``standin_drivers.py``). One job is brought to run by
the operator; the others are copies of it and of all that it has, so that an operator that starts finds them running:
their own starts would take two cores an hour. Measured are the operator's
share of a processor, its memory, its requests, and how long a savepoint's request takes from the StateSnapshot to the
driver: first while all drivers answer, then while some hang, drip or answer 500 and pods fail. At the end all jobs and
snapshots are let go, as by an uninstall.
``make bench-operator ARGS=--drivers`` (5,000 jobs), ``ARGS="--drivers --jobs=500"`` for a quick look.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import operator_copies as copies
import operator_scale as scale
import operator_uninstall as uninstall
from kubernetes import client
from operator_standins import StandIns

from sparkstate_operator import labels
from sparkstate_tools.kubernetes import control_plane
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operated_namespace, operator_process
from sparkstate_tools.processes import free_port

ROOT = Path(__file__).resolve().parents[1]
NODE = "played-node"
AIM_CPU, AIM_MIB, AIM_DELAY_S = 0.5, 400, 1.0
DRIVER = "sparkstate.io/role=driver"
STARTED = "2026-01-01T00:00:00Z"


class Kubelet:
    """Binds every driver's pod as it appears, says that it runs, and lets pods fail."""

    def __init__(self, cluster: Cluster, drivers: StandIns) -> None:
        self.core = cluster.core()
        self._coordination = client.CoordinationV1Api(cluster.api())
        self._drivers = drivers
        self.does: dict[str, str] = {}
        self.uids: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self._stop = threading.Event()
        self._seen: set[str] = set()
        self.core.create_node({"metadata": {"name": NODE}})
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._beat, self._serve)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    @staticmethod
    def address(job: str) -> str:
        number = int(job.rpartition("-")[2])
        return f"127.{1 + number // 40000}.{number // 200 % 200}.{number % 200 + 1}"

    def behave(self, job: str, does: str) -> None:
        """From now on its driver does this."""
        self.does[job] = does
        seed = random.Random(job).uniform(0, 60)
        line = {
            "ip": self.address(job),
            "uid": self.uids[job],
            "attempt": self.attempts[job],
            "phase_s": seed,
        }
        self._drivers.tell(does=does, **line)

    def fail(self, job: str) -> None:
        """Its driver's container ends with an error that may pass."""
        word = json.dumps({"reason": "SlotLost", "message": "gone", "exit_code": 1})
        ended = {
            "exitCode": 1,
            "reason": "Error",
            "message": word,
            "startedAt": STARTED,
            "finishedAt": STARTED,
        }
        self._status(f"{job}-driver-{self.attempts[job]}", "Failed", {"terminated": ended}, False, "")

    def _beat(self) -> None:
        while not self._stop.is_set():
            now = datetime.now(UTC)
            spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": now}
            body = {"metadata": {"name": NODE, "namespace": "kube-node-lease"}, "spec": spec}
            stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": stamp}
            try:
                self._coordination.patch_namespaced_lease(NODE, "kube-node-lease", body)
            except client.ApiException:
                self._coordination.create_namespaced_lease("kube-node-lease", body)
            status = {"status": {"conditions": [{**ready, "lastTransitionTime": stamp}]}}
            self.core.patch_node_status(NODE, status)
            self._stop.wait(10)

    def _serve(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            while not self._stop.is_set():
                answer = self.core.list_namespaced_pod(
                    scale.NAMESPACE,
                    label_selector=DRIVER,
                    field_selector="spec.nodeName=",
                    _preload_content=False,
                )
                pods = [
                    one
                    for one in json.loads(answer.data)["items"]
                    if one["metadata"]["uid"] not in self._seen
                ]
                list(pool.map(self._start, pods))
                self._stop.wait(0.5)

    def _start(self, pod: dict[str, Any]) -> None:
        name, marks = pod["metadata"]["name"], pod["metadata"]["labels"]
        self._seen.add(pod["metadata"]["uid"])
        job = marks["sparkstate.io/job"]
        self.uids[job], self.attempts[job] = (
            marks["sparkstate.io/job-uid"],
            int(marks["sparkstate.io/attempt"]),
        )
        self.behave(job, self.does.get(job, "runs"))
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE, "apiVersion": "v1"}}
        self.core.create_namespaced_binding(scale.NAMESPACE, binding, _preload_content=False)
        self._status(name, "Running", {"running": {"startedAt": STARTED}}, True, self.address(job))

    def _status(self, pod: str, phase: str, state: dict[str, Any], ready: bool, ip: str) -> None:
        told = {
            "name": "driver",
            "image": "i",
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": state,
        }
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status: dict[str, Any] = {"phase": phase, "conditions": [condition], "containerStatuses": [told]}
        if ip:
            status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
        self.core.patch_namespaced_pod_status(
            pod, scale.NAMESPACE, {"status": status}, _preload_content=False
        )


def main() -> int:
    """Print the figures as one JSON document; the exit code says whether the aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--snapshots", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0, help="of each of the two parts")
    options = parser.parse_args()
    with control_plane.running() as plane, tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(plane.admin, Path(folder), plane)
        cluster.install_crds(ROOT / "crds")
        drivers = StandIns()
        kubelet = Kubelet(cluster, drivers)
        try:
            figures = measure(cluster, Path(folder), kubelet, drivers, options)
        finally:
            kubelet.stop()
            drivers.stop()
            cluster.close()
    print(json.dumps(figures, indent=1))
    return 0 if _good(figures["answering"], figures["failing"]) else 1


def _good(answering: dict[str, Any], failing: dict[str, Any]) -> bool:
    """Whether the aims are met: what it costs in both parts, and that no driver's failure delays another's savepoint.
    How long a savepoint takes where all drivers answer is the API server's and the machine's."""
    cheap = all(
        part["processors"] <= AIM_CPU and part["memory_mib"] <= AIM_MIB for part in (answering, failing)
    )
    first, second = answering["reaction_s"], failing["reaction_s"]
    later_s = max(second[at] - first[at] for at in ("p50", "p99", "max"))
    return cheap and second["asked"] == second["answered"] and later_s <= AIM_DELAY_S


def measure(
    cluster: Cluster, folder: Path, kubelet: Kubelet, drivers: StandIns, options: argparse.Namespace
) -> dict[str, Any]:
    """All jobs running, then the two parts."""
    cluster.kubectl("create", "namespace", scale.NAMESPACE)
    port = free_port()
    names = [f"job-{number:04d}" for number in range(options.jobs)]
    kubelet.does.update(dict.fromkeys(names[::20], "recovers"))
    started = time.monotonic()
    process = start(cluster, folder, port, drivers.port)
    try:
        objects = client.CustomObjectsApi(cluster.api())
        body = operated_namespace.job(scale.NAMESPACE, names[0])
        objects.create_namespaced_custom_object(*scale.GROUP, scale.NAMESPACE, "statefulsparkjobs", body)
        _until(process, lambda: scale._phases(port, "Running") == 1)
        register(cluster, folder, names[0], options.snapshots)
        time.sleep(5)
    finally:
        process.stop()
    asyncio.run(copies.make(cluster.kubeconfig, scale.NAMESPACE, names[0], names[1:]))
    _say(f"{options.jobs} jobs made after {time.monotonic() - started:.0f} s")
    process = start(cluster, folder, port, drivers.port)
    started = time.monotonic()
    try:
        _until(process, lambda: _all_seen(port, options.jobs))
        seen_s = time.monotonic() - started
        _say(f"all seen after {seen_s:.0f} s; CPU {_cpu_s(process.process.pid):.0f} s")
        _until(process, lambda: time.monotonic() - started > seen_s + 60)
        answering = part(cluster, kubelet, drivers, process, port, options.seconds, names, [])
        _say(json.dumps(answering))
        bad = names[1::20]
        for number, name in enumerate(bad):
            kubelet.behave(name, ("hangs", "drips", "fails")[number % 3])
        failing = part(cluster, kubelet, drivers, process, port, options.seconds, names, bad)
    finally:
        process.stop()
    let_go = uninstall.measure(cluster.kubeconfig, scale.NAMESPACE, folder / "release.log")
    return {
        "jobs": options.jobs, "all_seen_s": round(seen_s), "cores": os.cpu_count(),
        "answering": answering, "failing": failing, "uninstall": let_go, "errors": process.errors()[:5],
    }  # fmt: skip


def register(cluster: Cluster, folder: Path, job: str, count: int) -> None:
    """So many savepoints of a job, whose registration has ended; the kubelet is played for the engine's commands."""
    marks = next(one["metadata"]["labels"] for one in cluster.items("pods", scale.NAMESPACE, DRIVER))
    kept = {name: marks[name] for name in (labels.JOB, labels.JOB_UID)}
    played = operated_namespace.OperatedNamespace(cluster, scale.NAMESPACE, folder)
    for number in range(count):
        body = {
            "apiVersion": "/".join(scale.GROUP), "kind": "StateSnapshot",
            "metadata": {"name": f"{job}-{number}", "namespace": scale.NAMESPACE, "labels": kept},
            "spec": {"uri": f"s3://bucket/{job}/{number}"},
        }  # fmt: skip
        cluster.apply(body)
    done = 0
    while done < count:
        for task in cluster.items("jobs", scale.NAMESPACE):
            if not task.get("status", {}).get("conditions"):
                played.finish_task(task["metadata"]["name"])
        found = cluster.items("snap", scale.NAMESPACE)
        done = sum((one.get("status") or {}).get("phase") == "Completed" for one in found)
        time.sleep(0.5)


def _all_seen(port: int, jobs: int) -> bool:
    """Whether every job has been looked at, and few wait to be. Some are always starting: their drivers recover."""
    seen = scale._phases(port, "Running") + scale._phases(port, "Starting")
    return seen >= jobs and scale._waiting(port) < jobs / 50


def _until(process: operator_process.Operator, reached: Callable[[], bool]) -> None:
    started = time.monotonic()
    while not reached():
        if not process.alive or time.monotonic() - started > 3600:
            raise RuntimeError(f"the operator does not get there: {process.log.read_text()[-2000:]}")
        time.sleep(1.0)


def part(
    cluster: Cluster,
    kubelet: Kubelet,
    drivers: StandIns,
    process: operator_process.Operator,
    port: int,
    seconds: float,
    names: list[str],
    bad: list[str],
) -> dict[str, Any]:
    """So many seconds; each second a savepoint is asked for, and with ``bad`` a pod fails every other second."""
    objects = client.CustomObjectsApi(cluster.api())
    chosen = random.Random(7)
    # A job that recovers by itself takes no savepoint meanwhile, and its own waits for that.
    recovers = {name for name, does in kubelet.does.items() if does == "recovers"}
    healthy = sorted(set(names) - set(bad) - recovers)
    chosen.shuffle(healthy)
    asked: dict[str, float] = {}
    # Savepoints of their own jobs, failures of others: a job that fails cannot be asked.
    to_ask, to_fail = healthy[: len(healthy) // 2], healthy[len(healthy) // 2 :]
    drivers.posted.clear()
    pid = process.process.pid
    waiting: list[float] = []
    requests, polls, cpu_s, began = scale._requests(port), drivers.polls(), _cpu_s(pid), time.monotonic()
    for second in range(int(seconds)):
        name = to_ask[second % len(to_ask)]
        body = {
            "apiVersion": "/".join(scale.GROUP), "kind": "StateSnapshot",
            "metadata": {"name": f"probe-{len(bad)}-{second}"}, "spec": {"jobRef": {"name": name}},
        }  # fmt: skip
        if kubelet.uids[name] not in asked:
            objects.create_namespaced_custom_object(*scale.GROUP, scale.NAMESPACE, "statesnapshots", body)
            asked[kubelet.uids[name]] = time.monotonic()
        if bad and second % 2:
            kubelet.fail(to_fail[second % len(to_fail)])
        if second % 10 == 0:
            waiting.append(scale._waiting(port))
        time.sleep(max(0.0, began + second + 1 - time.monotonic()))
    spent_s, elapsed_s = _cpu_s(pid) - cpu_s, time.monotonic() - began
    after, polled = scale._requests(port), drivers.polls() - polls
    time.sleep(5)
    delays_s = sorted(drivers.posted[uid] - at for uid, at in asked.items() if uid in drivers.posted)
    names_of = {uid: name for name, uid in kubelet.uids.items()}
    slowest = sorted(asked, key=lambda uid: drivers.posted.get(uid, float("inf")) - asked[uid])[-5:]
    spent = {name: after[name] - requests.get(name, 0) for name in after}
    return {
        "seconds": round(elapsed_s), "processors": round(spent_s / elapsed_s, 3),
        "memory_mib": round(scale._rss_mib(pid)), "memory_now_mib": round(scale._rss_mib(pid, "VmRSS")),
        "polls_per_s": round(polled / elapsed_s, 1), "requests_per_s": round(sum(spent.values()) / elapsed_s, 1),
        "reaction_s": {**_spread(delays_s), "asked": len(asked), "answered": len(delays_s)},
        "slowest": [_told(drivers, kubelet, names_of[uid], asked[uid], began) for uid in reversed(slowest)],
        "waiting": _spread(sorted(waiting)), "load": round(os.getloadavg()[0], 1),
        "requests": {name: int(count) for name, count in sorted(spent.items()) if count},
        "phases": {phase: int(scale._phases(port, phase)) for phase in ("Running", "Starting", "Failing", "Failed")},
    }  # fmt: skip


def _told(drivers: StandIns, kubelet: Kubelet, job: str, asked_s: float, began_s: float) -> dict[str, Any]:
    """A savepoint that waited long: of which job, what its driver does, when in the part it was asked for."""
    posted_s = drivers.posted.get(kubelet.uids[job])
    waited_s = None if posted_s is None else round(posted_s - asked_s, 3)
    does = kubelet.does.get(job, "runs")
    return {"job": job, "driver": does, "at_s": round(asked_s - began_s, 1), "waited_s": waited_s}


def start(cluster: Cluster, folder: Path, port: int, driver_port: int) -> operator_process.Operator:
    """The operator as the chart runs it, but for the drivers' port."""
    options = ["--listen", f"127.0.0.1:{port}", "--resync-seconds", "180", "--progress-seconds", "60"]
    return operator_process.start(
        cluster.kubeconfig, folder, [scale.NAMESPACE], options=[*options, "--driver-port", str(driver_port)],
    )  # fmt: skip


def _spread(found_s: list[float]) -> dict[str, float]:
    if not found_s:
        return {"p50": -1.0, "p99": -1.0, "max": float("inf")}
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(found_s[min(int(len(found_s) * share), len(found_s) - 1)], 3)
        for name, share in at.items()
    }


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
