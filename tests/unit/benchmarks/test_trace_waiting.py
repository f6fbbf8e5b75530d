"""What a trace says of threads that are not ready: the place where they wait while a processor is idle."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping

import pytest

from sparkstate_tools.tracing import report, waiting
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
    told = report.text(report.Run(entries, samples, {1: "driver", 2: "jvm", 3: "slots"}), 2, warm_up=0)
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


def test_threads_of_a_process_are_found_where_they_are() -> None:
    """Each thread is woken between two looks, because one that has not run lately does not count."""
    left, right = socket.socketpair()
    lock = threading.Lock()
    lock.acquire()
    go: dict[str, threading.Event] = {
        name: threading.Event() for name in ("reads", "locks", "sleeps", "still")
    }
    acts: dict[str, Callable[[], object]] = {
        "reads": lambda: right.recv(1),
        "locks": lock.acquire,
        "sleeps": lambda: time.sleep(3),
        "still": lambda: None,
    }

    def live(name: str) -> None:
        go[name].wait()
        acts[name]()

    started = [threading.Thread(target=live, args=(name,), name=name, daemon=True) for name in acts]
    seen = waiting.ThreadWatcher()
    before = set(os.listdir("/proc/self/task"))
    for thread in started:
        thread.start()
    born = set(os.listdir("/proc/self/task")) - before
    assert len(born) == len(acts)
    time.sleep(0.3)  # all of them wait for their event now
    seen.look(os.getpid(), 0.0)
    for name in ("reads", "locks", "sleeps"):
        go[name].set()
    time.sleep(0.5)
    look = seen.look(os.getpid(), 1.0)
    later = seen.look(os.getpid(), 1.0 + waiting.LATELY_S + 0.1)
    lock.release()
    left.send(b"x")
    go["still"].set()
    (own,) = {name for name, _ in look.places}
    counts = {where: look.places.get((own, where), 0) for where in waiting.PLACES}
    assert counts == counts | {waiting.SOCKET: 1, waiting.LOCK: 1, waiting.TIMER: 1}
    assert counts[waiting.RUNNING] >= 1
    assert not {waiting.SOCKET, waiting.TIMER} & {where for _, where in later.places}
    assert later.run_s >= look.run_s > 0
