"""What a trace says of threads that are not ready: the place where they wait while a processor is idle."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping

import pytest

from sparkstate_tools.tracing import report, runs, waiting
from sparkstate_tools.tracing.sampling import Sample


def sample(t_ms: float, idle_s: float, places: Mapping[int, Mapping[tuple[str, str], int]]) -> Sample:
    return Sample(
        t_ms, {1: 0.0, 2: 0.0, 3: 0.0}, {1: 0.0, 2: 0.0, 3: 0.0}, idle_s=(idle_s, 0.0), places=places
    )


def table(samples: list[Sample]) -> dict[str, list[str]]:
    entries = [
        {"process": "driver", "pid": 1, "phase": phase, "epoch": epoch, "t_ms": t_ms}
        for phase, epoch, t_ms in (("feed", 0, 0), ("epoch-begin", 1, 300))
    ]
    told = report.text(runs.Run(entries, samples, {1: "driver", 2: "jvm", 3: "slots"}), 2, warm_up=0)
    _, found, below = told.partition("threads while a processor was idle")
    if not found:
        return {}
    head, *rows = below.splitlines()
    assert head.split() == " ".join(waiting.PLACES).split()
    return {group: figures for group, *figures in (row.rsplit(maxsplit=6) for row in rows)}


def test_a_look_counts_by_the_idle_time_before_it() -> None:
    told = table(
        [
            sample(0, 0.0, {}),
            sample(100, 0.03, {1: {("python", waiting.SOCKET): 2}, 3: {("python", waiting.RUNNING): 1}}),
            sample(200, 0.04, {1: {("python", waiting.LOCK): 1}, 3: {("rocksdb:low", waiting.DISK): 1}}),
            sample(300, 0.04, {1: {("python", waiting.TIMER): 9}}),
        ]
    )
    assert told == {
        "driver": ["0.00", "1.50", "0.25", "0.00", "0.00", "0.00"],
        "slots": ["0.75", "0.00", "0.00", "0.00", "0.00", "0.00"],
        "slots: rocksdb:low": ["0.00", "0.00", "0.00", "0.00", "0.25", "0.00"],
    }


def test_tasks_and_the_query_of_the_jvm_stand_apart() -> None:
    looked = {
        ("Executor task l", waiting.SOCKET): 2,
        ("stream executio", waiting.LOCK): 1,
        ("C2 CompilerThre", waiting.RUNNING): 1,
        ("dispatcher-even", waiting.LOCK): 3,
    }
    assert table([sample(0, 0.0, {}), sample(100, 0.1, {2: looked})]) == {
        "jvm: tasks": ["0.00", "2.00", "0.00", "0.00", "0.00", "0.00"],
        "jvm: query": ["0.00", "0.00", "1.00", "0.00", "0.00", "0.00"],
        "jvm: compiler": ["1.00", "0.00", "0.00", "0.00", "0.00", "0.00"],
        "jvm: the rest": ["0.00", "0.00", "3.00", "0.00", "0.00", "0.00"],
    }


def test_processors_that_were_never_idle_have_no_such_table() -> None:
    assert table([sample(0, 0.0, {}), sample(100, 0.0, {1: {("python", waiting.LOCK): 1}})]) == {}


@pytest.mark.parametrize(
    ("function", "where"),
    [
        ("0", waiting.RUNNING),
        ("", waiting.RUNNING),
        ("unix_stream_read_generic", waiting.SOCKET),
        ("wait_woken", waiting.SOCKET),
        ("anon_pipe_read", waiting.SOCKET),
        ("poll_schedule_timeout.constprop.0", waiting.SOCKET),
        ("do_epoll_wait", waiting.SOCKET),
        ("__skb_wait_for_more_packets", waiting.SOCKET),
        ("futex_do_wait", waiting.LOCK),
        ("hrtimer_nanosleep", waiting.TIMER),
        ("folio_wait_bit_common", waiting.DISK),
        ("jbd2_log_wait_commit", waiting.DISK),
        ("do_wait", waiting.OTHER),
    ],
)
def test_the_kernels_function_says_what_a_thread_waits_for(function: str, where: str) -> None:
    assert waiting.place(function) == where


_WATCHED = """
import socket, sys, threading, time
left, right = socket.socketpair()
lock = threading.Lock()
lock.acquire()
def spin():
    while True:
        pass
acts = {
    "reads": lambda: right.recv(1),
    "locks": lock.acquire,
    "sleeps": lambda: time.sleep(60),
    "spins": spin,
    "still": lambda: None,
}
go = {name: threading.Event() for name in acts}
for name, act in acts.items():
    threading.Thread(target=lambda name=name, act=act: (go[name].wait(), act()), daemon=True).start()
print("waiting", flush=True)
sys.stdin.readline()
for name in ("reads", "locks", "sleeps", "spins"):
    go[name].set()
print("gone", flush=True)
sys.stdin.readline()
"""
"""Five threads that wait for their events, and the main one, which reads a pipe. ``still`` gets no event."""


def test_threads_of_a_process_are_found_where_they_are() -> None:
    """Each thread is woken between two looks, because one that has not run lately does not count. They are those of a
    process of its own, because other threads of this one depend on the tests before."""
    seen = waiting.ThreadWatcher()
    command = [sys.executable, "-c", _WATCHED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "waiting\n"
            time.sleep(0.3)  # all of them wait for their event now
            seen.look(process.pid, 0.0)
            print("go", file=process.stdin, flush=True)
            assert process.stdout.readline() == "gone\n"
            time.sleep(0.5)
            look = seen.look(process.pid, 1.0)
            later = seen.look(process.pid, 1.0 + waiting.LATELY_S + 0.1)
        finally:
            process.kill()
    counts = Counter[str]()
    for (_, where), threads in look.places.items():
        counts[where] += threads
    assert counts == {waiting.RUNNING: 1, waiting.SOCKET: 2, waiting.LOCK: 1, waiting.TIMER: 1}
    assert not {waiting.SOCKET, waiting.LOCK, waiting.TIMER} & {where for _, where in later.places}
    assert later.run_s >= look.run_s > 0
