"""What the benchmarks of the operator read: its metrics by HTTP, and its memory."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

NAMESPACE = "scale"
GROUP = ("sparkstate.io", "v1alpha1")


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def phases(port: int, phase: str = "Starting") -> int:
    """Jobs in that phase; those that are starting have their driver pod."""
    try:
        text = _metrics(port)
    except OSError:
        return 0
    found = re.findall(rf'^sparkstate_operator_jobs\{{phase="{phase}"\}} (\S+)', text, re.M)
    return int(float(found[0])) if found else 0


def waiting(port: int) -> float:
    """Jobs and snapshots that wait in the operator's queue."""
    found = re.findall(r"^sparkstate_operator_queue_waiting (\S+)", _metrics(port), re.M)
    return float(found[0]) if found else 0.0


def requests(port: int) -> dict[str, float]:
    """Requests to the API server since the operator began, by verb and resource."""
    row = r'^sparkstate_operator_api_requests_total\{resource="(\w+)",status="\d+",verb="(\w+)"\} (\S+)'
    found: dict[str, float] = {}
    for resource, verb, count in re.findall(row, _metrics(port), re.M):
        found[f"{verb} {resource}"] = found.get(f"{verb} {resource}", 0.0) + float(count)
    return found


def rss_mib(pid: int, line: str = "VmHWM") -> float:
    """The most so far; ``VmRSS``: now."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(rf"{line}:\s+(\d+) kB", text)[0]) / 1024
