"""The slot process: ``python -m sparkstate.slots``, in a session of its own (``slots.starting``).

It reads one JSON line from standard input: key, directory, slot number, pid of the process to watch, TCP host or
null, and the log behind its standard error or null. It writes one JSON line with its addresses to standard output. It
lives until the driver says ``Stop`` or the process that it watches is gone: the executor's JVM, or the driver where
slots live beside it. Then it leaves its directory to the next (``local_state.inheritance``). It watches by a pidfd, so
that a reused process id cannot fool it.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import sys
from pathlib import Path

import pyarrow as pa

from sparkstate import clock, errors, phases
from sparkstate.backends import allocation
from sparkstate.local_state import inheritance
from sparkstate.slots import handshake, logs
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.runtime import SlotRuntime
from sparkstate.slots.server import SlotServer


def main() -> None:
    """Serve until stopped or orphaned."""
    allocation.limit_arenas()
    pa.set_memory_pool(pa.system_memory_pool())
    told = sys.stdin.readline()
    if not told:
        return  # the process that began this one does not need it, or has ended
    configuration = json.loads(told)
    sys.path[:0] = [entry for entry in configuration["python_path"] if entry not in sys.path]
    directory = Path(configuration["directory"])
    directory.mkdir(parents=True, mode=0o700)
    (directory / "pid").write_text(str(os.getpid()))
    parent = os.pidfd_open(configuration["watched_pid"])
    system_clock = clock.SystemClock()
    told_log = configuration.get("log")
    log = logs.SlotLog(configuration["watched_pid"], Path(told_log) if told_log else None, clock=system_clock)

    def make_runtime(plan: SlotPlan) -> SlotRuntime:
        # Not the number that it was started with: in an executor that holds a former slot's state it becomes that slot
        # (RFC 0011).
        log.belongs_to(plan.slot, plan.incarnation)
        told = f"slot {plan.slot} of incarnation {plan.incarnation}, pid {os.getpid()}, in {directory}"
        print(told, file=sys.stderr, flush=True)
        recorder = phases.Phases(f"slot-{plan.slot}", system_clock, os.environ)
        return SlotRuntime(plan, directory, system_clock, recorder)

    identity = handshake.new_identity()
    server = SlotServer(
        configuration.pop("key"),
        identity,
        directory / "s",
        configuration["tcp_host"],
        make_runtime,
        system_clock,
    )
    server.start()
    gc.freeze()
    answer = {
        "pid": os.getpid(),
        "unix_path": str(directory / "s"),
        "tcp_port": server.tcp_port,
        "identity": identity,
    }
    print(json.dumps(answer), flush=True)
    log.begin()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _wait(server, parent)
    try:
        server.end()
    except errors.SparkstateError as error:
        # The results are complete, and nobody waits for an answer any more: the log is where it can be found.
        print(f"the slot ends with an error: {error}", file=sys.stderr, flush=True)
    finally:
        inheritance.retire(directory)
        # Daemon threads may still hold connections; nothing is left to flush.
        os._exit(0)


def _wait(server: SlotServer, parent: int) -> None:
    """Until ``Stop``, SIGTERM or the end of the watched process, whose pidfd becomes readable then."""
    signal.signal(signal.SIGTERM, lambda *_: server.stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(parent, selectors.EVENT_READ)
        while not server.stopped.is_set():
            if selector.select(timeout=0.2):
                return


if __name__ == "__main__":
    main()
