"""Run one command to its end and measure it: ``python measured.py LIMIT_S LOG COMMAND…``, a line of JSON on stdout.

``wall_s`` lasts until the command ends; ``cpu_s`` is the processor time of every process that it started. Engines
start processes that outlive their parents, which no parent's account has. This process is therefore the subreaper of
all of them: an orphan becomes its child, and the kernel adds the time of each child that is waited for. What still
runs when the command has ended gets ``GRACE_S`` to end, and is killed then. Only descendants are ever killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE_S = 15.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def descendants() -> list[int]:
    """All processes below this one."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found, pending = [], [os.getpid()]
    while pending:
        below = parents.get(pending.pop(), [])
        found += below
        pending += below
    return found


def kill_descendants() -> None:
    """Until there are none: a process may start another one while it dies."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def reap(first: int, deadline: float) -> tuple[int | None, float]:
    """Wait for everybody; the exit code of ``first`` (None: it had not ended by the deadline) and when it ended."""
    code, ended = None, 0.0
    while time.monotonic() < (deadline if code is None else min(deadline, ended + GRACE_S)):
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == first:
            code, ended = os.waitstatus_to_exitcode(status), time.monotonic()
        elif not pid:
            time.sleep(0.01)
    return code, ended


def stop(*_: object) -> None:
    """The benchmark was stopped, so nothing that it started goes on."""
    kill_descendants()
    os._exit(1)


def main() -> None:
    """Start, wait, print."""
    limit_s, log, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    begun = time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    code, ended = reap(process.pid, begun + limit_s)
    kill_descendants()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {
        "code": code,
        "wall_s": ended - begun,
        "cpu_s": used.ru_utime + used.ru_stime,
        "pid": process.pid,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
