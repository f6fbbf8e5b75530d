"""The turns of ``operator_drivers.py``: all drivers answer, or some do not, and what was measured meanwhile."""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import operator_figures as figures
from kubernetes import client
from operator_standins import StandIns
from played_kubelet import Kubelet

from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operator_process

SETTLE_S = 10.0
"""Between two turns."""


@dataclass(frozen=True)
class Turn:
    """What was measured in one turn."""

    elapsed_s: float
    spent_s: float
    """Of a processor, by the operator."""
    memory_mib: float
    polls: int
    requests: dict[str, float]
    asked: int
    delays_s: list[float]
    """From a StateSnapshot to its request at the driver, of those that got there."""
    slowest: list[dict[str, Any]]
    waiting: list[float]
    load: float
    phases: dict[str, int]


class Turns:
    """One after another, over jobs that no turn before has asked or failed: of two savepoints the second waits for the
    first, and a job that fails cannot be asked."""

    def __init__(
        self,
        cluster: Cluster,
        kubelet: Kubelet,
        drivers: StandIns,
        process: operator_process.Operator,
        port: int,
        names: list[str],
        seconds: float,
    ) -> None:
        self._objects = client.CustomObjectsApi(cluster.api())
        self._kubelet, self._drivers, self._process, self._port = kubelet, drivers, process, port
        self._seconds = int(seconds)
        self._bad = names[1::20]
        # A job that recovers by itself takes no savepoint meanwhile, and its own waits for that.
        recovers = {name for name, does in kubelet.does.items() if does == "recovers"}
        healthy = sorted(set(names) - set(self._bad) - recovers)
        random.Random(7).shuffle(healthy)
        self._to_ask, self._to_fail = iter(healthy[: len(healthy) // 2]), iter(healthy[len(healthy) // 2 :])
        self.of: dict[str, list[Turn]] = {"answering": [], "failing": []}

    def run(self, kind: str) -> None:
        """So many seconds; each second a savepoint is asked for, and every other second a pod fails."""
        for number, name in enumerate(self._bad):
            does = ("hangs", "drips", "fails")[number % 3] if kind == "failing" else "runs"
            self._kubelet.behave(name, does)
        time.sleep(SETTLE_S)
        turn = self._measure(f"{kind}-{len(self.of[kind])}")
        self.of[kind].append(turn)
        print(f"{kind}: {json.dumps(merged([turn]))}", file=sys.stderr, flush=True)

    def _measure(self, label: str) -> Turn:
        drivers, port, pid = self._drivers, self._port, self._process.process.pid
        drivers.posted.clear()
        asked: dict[str, float] = {}
        waiting: list[float] = []
        requests, polls, used_s = figures.requests(port), drivers.polls(), cpu_s(pid)
        began = time.monotonic()
        for second in range(self._seconds):
            name = next(self._to_ask)
            body = {
                "apiVersion": "/".join(figures.GROUP), "kind": "StateSnapshot",
                "metadata": {"name": f"probe-{label}-{second}"}, "spec": {"jobRef": {"name": name}},
            }  # fmt: skip
            self._objects.create_namespaced_custom_object(
                *figures.GROUP, figures.NAMESPACE, "statesnapshots", body
            )
            asked[self._kubelet.uids[name]] = time.monotonic()
            if second % 2:
                self._kubelet.fail(next(self._to_fail))
            if second % 10 == 0:
                waiting.append(figures.waiting(port))
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))
        spent_s, elapsed_s = cpu_s(pid) - used_s, time.monotonic() - began
        after, polled = figures.requests(port), drivers.polls() - polls
        time.sleep(5)
        names_of = {uid: name for name, uid in self._kubelet.uids.items()}
        slowest = sorted(asked, key=lambda uid: drivers.posted.get(uid, math.inf) - asked[uid])[-3:]
        return Turn(
            elapsed_s, spent_s, figures.rss_mib(pid), polled,
            {name: after[name] - requests.get(name, 0) for name in after}, len(asked),
            [drivers.posted[uid] - at for uid, at in asked.items() if uid in drivers.posted],
            [_told(drivers, self._kubelet, names_of[uid], asked[uid], began) for uid in reversed(slowest)],
            waiting, os.getloadavg()[0],
            {phase: int(figures.phases(port, phase)) for phase in ("Running", "Starting", "Failing", "Failed")},
        )  # fmt: skip


def merged(turns: list[Turn]) -> dict[str, Any]:
    """The figures of all turns of a kind together."""
    elapsed_s = sum(turn.elapsed_s for turn in turns)
    requests: Counter[str] = Counter()
    for turn in turns:
        requests.update(turn.requests)
    delays_s = sorted(delay_s for turn in turns for delay_s in turn.delays_s)
    waiting = sorted(count for turn in turns for count in turn.waiting)
    return {
        "seconds": round(elapsed_s), "processors": round(sum(turn.spent_s for turn in turns) / elapsed_s, 3),
        "memory_mib": round(max(turn.memory_mib for turn in turns)),
        "polls_per_s": round(sum(turn.polls for turn in turns) / elapsed_s, 1),
        "requests_per_s": round(sum(requests.values()) / elapsed_s, 1),
        "reaction_s": {
            **spread(delays_s), "asked": sum(turn.asked for turn in turns), "answered": len(delays_s),
        },
        "slowest": [one for turn in turns for one in turn.slowest],
        "waiting": spread(waiting), "load": round(max(turn.load for turn in turns), 1),
        "requests": {name: int(count) for name, count in sorted(requests.items()) if count},
        "phases": turns[-1].phases,
    }  # fmt: skip


def _told(drivers: StandIns, kubelet: Kubelet, job: str, asked_s: float, began_s: float) -> dict[str, Any]:
    """A savepoint that waited long: of which job, what its driver does, when in the part it was asked for."""
    posted_s = drivers.posted.get(kubelet.uids[job])
    waited_s = None if posted_s is None else round(posted_s - asked_s, 3)
    does = kubelet.does.get(job, "runs")
    return {"job": job, "driver": does, "at_s": round(asked_s - began_s, 1), "waited_s": waited_s}


def spread(found_s: list[float]) -> dict[str, float]:
    """Median, 99th percentile and largest of sorted figures."""
    if not found_s:
        return {"p50": -1.0, "p99": -1.0, "max": float("inf")}
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(found_s[min(int(len(found_s) * share), len(found_s) - 1)], 3)
        for name, share in at.items()
    }


def cpu_s(pid: int) -> float:
    """Seconds of a processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
