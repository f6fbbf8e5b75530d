"""How long an uninstall takes to let everything go: the chart's Job, for `benchmarks/operator_drivers.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def measure(kubeconfig: Path, namespace: str, log: Path) -> dict[str, Any]:
    """Let all jobs and snapshots of a namespace go, whose operator has ended."""
    command = [sys.executable, "-m", "sparkstate_operator", "release", "--kubeconfig", str(kubeconfig)]
    command += ["--namespace", namespace, "--lease-namespace", "default", "--lease-name", namespace]
    started = time.monotonic()
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
    found = re.search(r"(\d+) objects were let go", said)
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "objects": int(found[1]) if found else 0,
        "seconds": round(time.monotonic() - started, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "memory_mib": round(used.ru_maxrss / 1024),
    }
